"""How a model's numbers were measured: machine, engine, versions, settings, as label and value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.facts import Facts
from harness.report.blocks import REPLAY
from harness.report.machines import each, join, machine_lines
from harness.report.words import benchmark, model_text

CONFIG = (
    ("prompts per benchmark", "limit"),
    ("new tokens at most", "max_new_tokens"),
    ("seed", "seed"),
    ("history of later turns", "history"),
    ("prompts too long", "truncate"),
    ("machine use", "machine"),
)


def how_measured(data: Collection, facts: Mapping[str, Facts]) -> list[tuple[str, str]]:
    """Labels and values in reading order; several values where runs differ, none where unknown."""
    runs = data.runs
    engines = [row for row in runs["engine_facts"] if row]
    configs = [facts[run].config for run in runs["run"] if run in facts]
    parts = {repr(part): part for run in runs["run"] if run in facts for part in facts[run].parts}
    machines = list(parts.values())
    found = [
        ("engine", join(runs.loc[runs["engine"] != REPLAY, "engine"])),
        ("device", each(engines, "device")),
        *machine_lines(machines),
        ("threads", each(engines, "threads")),
        ("number format", each(engines, "dtype")),
        ("experts per layer", join(map(_experts, engines))),
        ("context length", each(engines, "context_length")),
        ("benchmarks", ", ".join(benchmark(name) for name in dict.fromkeys(runs["benchmark"]))),
        ("prompts from", join(runs["source"])),
        ("temperatures", join(f"{value:g}" for value in runs["temperature"])),
        ("repeats", join(runs["repeats"])),
        *((label, _settings(configs, name)) for label, name in CONFIG),
        ("versions", join(map(_versions, engines))),
        ("Python", each(machines, "python")),
        ("system", each(machines, "platform")),
        ("source commit", join(map(_commit, machines))),
        ("processes", str(len(machines)) if machines else ""),
        ("not read while measuring", _absent(runs)),
    ]
    return [(label, value) for label, value in found if value]


def setting_line(data: Collection) -> str:
    """One line for a caption: model, engine, machine, number of prompts and repeats."""
    runs = data.runs
    facts = [row for row in runs["engine_facts"] if row]
    threads = each(facts, "threads")
    parts = [
        model_text(str(runs["model_label"].iloc[0]), bool(runs["lab"].any())),
        f"engine {join(runs['engine'])}",
        each(facts, "device"),
        each(facts, "dtype"),
        f"{threads} thread{'' if threads == '1' else 's'}" if threads else "",
        f"{data.requests['prompt_id'].nunique()} prompts",
        f"repeats {join(runs['repeats'])}",
    ]
    return ", ".join(part for part in parts if part)


def _settings(configs: list[dict[str, Any]], name: str) -> str:
    """As `_each`; None is a value here and means all."""
    return join("all" if row[name] is None else row[name] for row in configs if name in row)


def _absent(runs: pd.DataFrame) -> str:
    """Telemetry that could not be read, each reason with the names it explains."""
    names: dict[str, dict[str, None]] = {}
    for absent in runs.get("absent", ()):
        for name, reason in (absent if isinstance(absent, dict) else {}).items():
            names.setdefault(str(reason), {})[str(name)] = None
    return "; ".join(f"{', '.join(found)}: {reason}" for reason, found in names.items())


def _experts(facts: Mapping[str, Any]) -> str | None:
    known = "experts" in facts and "experts_per_token" in facts
    return f"{facts['experts']}, {facts['experts_per_token']} per token" if known else None


def _versions(facts: Mapping[str, Any]) -> str:
    found = facts.get("versions") or {}
    return ", ".join(f"{name} {version}" for name, version in sorted(found.items()))


def _commit(part: Mapping[str, Any]) -> str | None:
    git = part.get("git")
    if not git or not git.get("commit"):
        return None
    return str(git["commit"])[:12] + (" with changes" if git.get("dirty") else "")

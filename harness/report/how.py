"""How a model's numbers were measured: machine, engine, versions, settings, as label and value."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from harness.collection import Collection
from harness.facts import Facts
from harness.report.blocks import REPLAY
from harness.report.words import benchmark, model_text

Values = Iterable[Any]
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
        ("engine", _join(runs.loc[runs["engine"] != REPLAY, "engine"])),
        ("device", _each(engines, "device")),
        ("processor", _each(machines, "cpu")),
        ("cores", _each(machines, "cores")),
        ("GPUs", _join(map(_gpus, machines))),
        ("threads", _each(engines, "threads")),
        ("number format", _each(engines, "dtype")),
        ("experts per layer", _join(map(_experts, engines))),
        ("context length", _each(engines, "context_length")),
        ("benchmarks", ", ".join(benchmark(name) for name in dict.fromkeys(runs["benchmark"]))),
        ("prompts from", _join(runs["source"])),
        ("temperatures", _join(f"{value:g}" for value in runs["temperature"])),
        ("repeats", _join(runs["repeats"])),
        *((label, _settings(configs, name)) for label, name in CONFIG),
        ("versions", _join(map(_versions, engines))),
        ("Python", _each(machines, "python")),
        ("system", _each(machines, "platform")),
        ("source commit", _join(map(_commit, machines))),
        ("processes", str(len(machines)) if machines else ""),
    ]
    return [(label, value) for label, value in found if value]


def setting_line(data: Collection) -> str:
    """One line for a caption: model, engine, machine, number of prompts and repeats."""
    runs = data.runs
    facts = [row for row in runs["engine_facts"] if row]
    threads = _each(facts, "threads")
    parts = [
        model_text(str(runs["model_label"].iloc[0]), bool(runs["lab"].any())),
        f"engine {_join(runs['engine'])}",
        _each(facts, "device"),
        _each(facts, "dtype"),
        f"{threads} thread{'' if threads == '1' else 's'}" if threads else "",
        f"{data.requests['prompt_id'].nunique()} prompts",
        f"repeats {_join(runs['repeats'])}",
    ]
    return ", ".join(part for part in parts if part)


def _each(rows: Iterable[Mapping[str, Any]], name: str) -> str:
    return _join(row.get(name) for row in rows)


def _settings(configs: list[dict[str, Any]], name: str) -> str:
    """As `_each`; None is a value here and means all."""
    return _join("all" if row[name] is None else row[name] for row in configs if name in row)


def _join(values: Values, text: Callable[[Any], str] = str) -> str:
    known = {text(value) for value in values if value is not None and value == value}
    return ", ".join(sorted(known))


def _gpus(part: Mapping[str, Any]) -> str | None:
    gpus = part.get("gpus") or []
    memory = _join(f"{gpu['memory_gib']:g} GiB" for gpu in gpus if gpu.get("memory_gib"))
    return f"{len(gpus)}, {memory}".rstrip(", ") if gpus else None


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

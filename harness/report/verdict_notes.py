"""Verdicts beside the numbers: what is in doubt, how many runs and comparisons, and why."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from harness.report.doubt import ENDING, doubted, parts
from harness.report.shared_doubt import quiet, shared_notes
from harness.report.tables.summary import ROLES
from harness.report.words import benchmark, doubt_notes
from harness.validity.codes import CODES, COMPARISON

NAMED = 3


def verdict_notes(table: pd.DataFrame, runs: pd.DataFrame) -> list[str]:
    """About a summary table and the runs behind it; empty where all of it is valid."""
    left = quiet(table)
    columns = [name for name in left if str(name).endswith(ENDING)]
    marks = doubt_notes(doubted("0", doubt) for name in columns for doubt in left[name])
    return [*shared_notes(table), *marks, *run_verdicts(runs), *_comparisons(table)]


def run_verdicts(runs: pd.DataFrame) -> list[str]:
    """A line per state and code: how many runs, and of the first what was found."""
    if "verdict" not in runs:
        return []
    found: dict[tuple[str, str], list[str]] = {}
    for row in runs.sort_values("run").to_dict("records"):
        for code in row["verdict_codes"]:
            why = reasons_by_code(str(row["verdict_text"])).get(code, "")
            found.setdefault((row["verdict"], code), []).append(f"{row['run']}: {why}")
    return [
        f"{state}: {code} ({CODES.get(code, code)}): {len(examples)} of {len(runs)} runs, "
        f"the first {examples[0]}"
        for (state, code), examples in sorted(found.items())
    ]


def reasons_by_code(text: str) -> dict[str, str]:
    """The text of each reason in a verdict's text (harness.validity.verdict.Verdict.text)."""
    reasons = re.split(rf"; (?=(?:{'|'.join(CODES)}) \()", text.partition(": ")[2])
    pairs = (reason.partition(" (") for reason in reasons)
    return {code: words.removesuffix(")") for code, _, words in pairs if code}


def _comparisons(table: pd.DataFrame) -> list[str]:
    """Comparisons in doubt themselves, not only for their runs: per baseline, state and code."""
    lines = []
    for role in ROLES:
        name = f"vs_{role}"
        if f"{name}_why" not in table:
            continue
        found: dict[tuple[str, str], dict[str, list[str]]] = {}
        for row in table.to_dict("records"):
            state, codes = parts(row[f"{name}{ENDING}"])
            for code in (one for one in codes if one in COMPARISON):
                whys = found.setdefault((state, code), {})
                whys.setdefault(str(row[f"{name}_why"]), []).append(_named(row))
        label = baseline_label(table, role)
        for (state, code), whys in found.items():
            lines += _comparison(f"vs {label}: {state}: {code} ({COMPARISON[code]})", whys)
    return lines


def _comparison(what: str, whys: dict[str, list[str]]) -> list[str]:
    """What was found, in full for a few: a refused comparison names keys and both values."""
    lines = [f"{what}: {few(who)}: {why}" for why, who in list(whys.items())[:NAMED]]
    rest = sum(len(who) for who in list(whys.values())[NAMED:])
    return [*lines, f"{what}: {rest} more"] if rest else lines


def baseline_label(table: pd.DataFrame, role: str) -> str:
    """The label of the baseline with this role; the role where the table has none."""
    found = table.loc[table["baseline"] == role, "method_label"]
    return str(found.iloc[0]) if len(found) else role


def _named(row: Mapping[Any, Any]) -> str:
    return f"{row['method_label']} on {benchmark(row['benchmark'])}"


def few(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more

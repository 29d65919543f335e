"""Doubt about a number: carried beside it by every frame, read in its place or after it.

A doubt is a text: "" for a valid number, "unknown: code, code" or "invalid: code, code". A frame
keeps it in a column whose name ends in "_doubt"; an invalid number is missing from its own column.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pandas as pd

TIME, COUNTS = "time_doubt", "counts_doubt"
ENDING = "_doubt"
VALID, UNKNOWN, INVALID = "", "unknown", "invalid"
NOT_JUDGED = "not_judged"
MARK = "?"


def time_doubt(runs: pd.DataFrame) -> str:
    """The doubt about times pooled over these runs; "" for no run."""
    return merged(_doubts(runs, "verdict", "verdict_codes"))


def counts_doubt(runs: pd.DataFrame) -> str:
    """The doubt about counts (Mat, k, experts) pooled over these runs; "" for no run."""
    return merged(_doubts(runs, "counts_verdict", "counts_codes"))


def _doubts(runs: pd.DataFrame, state: str, codes: str) -> Iterator[str]:
    if state not in runs:
        return iter([said(UNKNOWN, [NOT_JUDGED])] * len(runs))
    return (said(*row) for row in zip(runs[state], runs[codes], strict=True))


def said(state: str, codes: Iterable[str]) -> str:
    """The doubt of a state (valid, unknown or invalid) with its codes."""
    return f"{state}: {', '.join(codes)}" if state in (UNKNOWN, INVALID) else VALID


def parts(doubt: Any) -> tuple[str, list[str]]:
    """State and codes of a doubt; ("", []) for none and for a missing one."""
    if not isinstance(doubt, str) or not doubt:
        return VALID, []
    state, _, codes = doubt.partition(": ")
    return state, codes.split(", ")


def invalid(doubt: Any) -> bool:
    """Whether a number with this doubt may not be shown, averaged or divided by."""
    return parts(doubt)[0] == INVALID


def merged(doubts: Iterable[Any]) -> str:
    """The doubt about a number made of several: the worst state, with all its codes."""
    found: dict[str, dict[str, None]] = {}
    for state, codes in map(parts, doubts):
        found.setdefault(state, {}).update(dict.fromkeys(codes))
    worst = next((state for state in (INVALID, UNKNOWN) if state in found), VALID)
    return said(worst, found.get(worst, {}))


def withheld(doubt: str, values: dict[str, Any]) -> dict[str, Any]:
    """The values, each None where the doubt says that they are invalid."""
    return dict.fromkeys(values) if invalid(doubt) else values


def doubted(text: str, doubt: Any) -> str:
    """What a reader sees: the doubt instead of an invalid number, a mark behind an unknown one."""
    if invalid(doubt):
        return str(doubt)
    return f"{text} {MARK}" if doubt and any(map(str.isdigit, text)) else text

"""Doubts as small print in a figure: what is not drawn, and what is unknown of the rest."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from harness.report.doubt import ENDING, invalid, parts
from harness.report.layout import missing
from harness.report.shared_doubt import kind
from harness.report.spec import Missing
from harness.report.words import benchmark

NAMES = {"tick": "{}", "method_label": "{}", "width": "k={}", "k": "k={:g}"}
NAMED, LETTERS = 3, 62
PLAIN = "plain_"  # columns about the plain decoding that all rows are shown beside


def doubt_lines(frame: pd.DataFrame) -> list[str]:
    """Lines of small print about the doubt columns of a figure's frame; none for valid numbers."""
    who: dict[str, list[str]] = {}
    for column in (str(name) for name in frame.columns if str(name).endswith(ENDING)):
        doubtful = frame[[bool(parts(doubt)[0]) for doubt in frame[column]]]
        for doubt, rows in doubtful.groupby(column, sort=True):
            found, everything = who.setdefault(str(doubt), []), f"all {kind(column)}"
            if len(rows) == len(frame) and not column.startswith(PLAIN):
                found.append(everything)
            elif everything not in found:
                names = "plain decoding" if column.startswith(PLAIN) else _names(rows)
                found.append(f"{kind(column)} of {names}")
    lines = [
        f"{'not drawn, ' if invalid(doubt) else ''}{doubt}: {', '.join(dict.fromkeys(found))}"
        for doubt, found in who.items()
    ]
    return [part for line in lines for part in textwrap.wrap(line, LETTERS)]


def _names(rows: pd.DataFrame) -> str:
    found = list(dict.fromkeys(map(_name, rows.to_dict("records"))))
    more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
    return ", ".join(found[:NAMED]) + more


def _name(row: Mapping[Any, Any]) -> str:
    """The method or width of a row, and its benchmark."""
    name = next(
        (form.format(row[key]) for key, form in NAMES.items() if not missing(row.get(key))), ""
    )
    place = benchmark(row["benchmark"]) if not missing(row.get("benchmark")) else ""
    return " on ".join(part for part in (name, place) if part)


def refuse_invalid(frames: Iterable[pd.DataFrame], command: str) -> None:
    """Raise Missing where frames hold doubts and every one says invalid: nothing can be drawn."""
    found = [
        doubt
        for frame in frames
        for column in frame.columns
        if str(column).endswith(ENDING)
        for doubt in frame[column]
    ]
    if found and all(map(invalid, found)):
        said = "; ".join(dict.fromkeys(found))
        raise Missing(f"every number is {said}; measure again: {command}")

"""Tables of the page: cells with their alignment, from the rows that are also written as files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.report.doubt import INVALID

NUMBER = re.compile(r"^[-+–]?\d")
DOUBT = "doubt"
EMPTY = ("", "-", "–")
LONG = 40


@dataclass(frozen=True)
class Cell:
    """Text and a CSS class: number, long, doubt (an invalid number's place) or none."""

    text: str
    kind: str = ""


@dataclass(frozen=True)
class Row:
    """next: the first column starts a new group here."""

    cells: list[Cell]
    next: bool = False


@dataclass(frozen=True)
class TableView:
    """One table; `anchor` and `described_by` are ids that occur once in the page."""

    anchor: str
    title: str
    caption: str
    described_by: str
    heads: list[Cell]
    rows: list[Row]


def table_view(
    anchor: str, title: str, caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> TableView:
    """Columns of numbers are set right; long texts may wrap; equal leading cells form a group."""
    kinds = ["", *(_kind([row[i] for row in rows]) for i in range(1, len(heads)))]
    shared = _shared_columns(rows)
    return TableView(
        anchor=anchor,
        title=title,
        caption=caption,
        described_by=f"{anchor}-caption" if caption else "",
        heads=[Cell(head, kind) for head, kind in zip(heads, kinds, strict=True)],
        rows=[
            Row(
                [_cell(text, kind) for text, kind in zip(row, kinds, strict=True)],
                next=i > 0 and row[:shared] != rows[i - 1][:shared],
            )
            for i, row in enumerate(rows)
        ],
    )


def frame_view(anchor: str, title: str, frame: pd.DataFrame) -> TableView:
    """A frame of texts and lists of texts; the first column names the row."""
    heads = [str(name).replace("_", " ") for name in frame.columns]
    rows = [[_plain(value) for value in row] for row in frame.itertuples(index=False, name=None)]
    return table_view(anchor, title, "", heads, rows)


def _plain(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "; ".join(str(part) for part in value)
    return "" if pd.isna(value) else str(value)


def _shared_columns(rows: Sequence[Sequence[str]]) -> int:
    """How many leading columns may be equal in two rows; the next one tells rows apart."""
    width = 0
    while rows and width < len(rows[0]):
        if len({tuple(row[: width + 1]) for row in rows}) == len(rows):
            break
        width += 1
    return width


def _kind(column: Sequence[str]) -> str:
    filled = [text for text in column if text not in EMPTY and not text.startswith(INVALID)]
    numbers = sum(bool(NUMBER.match(text)) and len(text) <= LONG for text in filled)
    return "number" if filled and numbers * 2 > len(filled) else ""


def _cell(text: str, kind: str) -> Cell:
    if text.startswith(f"{INVALID}: "):
        return Cell(text, DOUBT)
    return Cell(text, "long") if len(text) > LONG else Cell(text, kind)

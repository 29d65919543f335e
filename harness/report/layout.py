"""From the numbers of a table to the texts of its cells: rows as they are, or one column spread."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.report.doubt import doubted, invalid
from harness.report.shared_doubt import quiet

Row = dict[str, Any]
Heads = list[str]
Rows = list[list[str]]
NONE = "-"


@dataclass(frozen=True)
class Column:
    """A column of texts. dropped: left out where every row says the same.

    doubt: the frame's column that qualifies the number; an invalid one is shown as its doubt.
    optional: left out where no row has anything to show.
    """

    head: str
    text: Callable[[Row], str]
    dropped: bool = False
    doubt: str = ""
    optional: bool = False

    def shown(self, row: Row) -> str:
        """The text that a reader sees."""
        return doubted(self.text(row), row[self.doubt] if self.doubt else "")

    def left_out(self, texts: list[str]) -> bool:
        """Whether a table with these texts in the column is better off without it."""
        if self.optional and all(text == NONE or invalid(text) for text in texts):
            return True
        return self.dropped and len(set(texts)) < 2


@dataclass(frozen=True)
class Layout:
    """columns: of each row. across: a frame column whose values become columns holding `cell`.

    Rows that agree in all texts of `columns` share a line. shown: which rows are shown at all.
    order: of the values across, and their heads. doubt: qualifies `cell`, as a column's does.
    """

    columns: tuple[Column, ...]
    across: str = ""
    cell: Callable[[Row], str] = lambda row: ""
    shown: Callable[[pd.DataFrame], pd.DataFrame] = lambda frame: frame
    order: Callable[[pd.Series], dict[Any, str]] = lambda values: as_they_are(values)
    doubt: str = ""

    def texts(self, frame: pd.DataFrame) -> tuple[Heads, Rows]:
        """Heads and rows; every cell is a text, and none shows an invalid number."""
        shown = quiet(self.shown(frame))
        rows: list[Row] = [_plain(row) for row in shown.to_dict("records")]
        heads = [column.head for column in self.columns]
        left = [[column.shown(row) for column in self.columns] for row in rows]
        lines = left
        if self.across:
            heads, lines = self._spread(shown, heads, left, rows)
        return self._without_constants(heads, lines)

    def _spread(
        self, frame: pd.DataFrame, heads: Heads, left: Rows, rows: list[Row]
    ) -> tuple[Heads, Rows]:
        order = self.order(frame[self.across])
        found: dict[tuple[str, ...], dict[Any, str]] = {}
        for texts, row in zip(left, rows, strict=True):
            cell = doubted(self.cell(row), row[self.doubt] if self.doubt else "")
            found.setdefault(tuple(texts), {})[row[self.across]] = cell
        lines = [
            [*texts, *(cells.get(value, NONE) for value in order)] for texts, cells in found.items()
        ]
        return [*heads, *order.values()], lines

    def _without_constants(self, heads: Heads, lines: Rows) -> tuple[Heads, Rows]:
        gone = {
            i
            for i, column in enumerate(self.columns)
            if column.left_out([line[i] for line in lines])
        }
        kept = [i for i in range(len(heads)) if i not in gone]
        return [heads[i] for i in kept], [[line[i] for i in kept] for line in lines]


def as_they_are(values: pd.Series) -> dict[Any, str]:
    """Distinct values and how they are written, in order of appearance."""
    return {value: str(value) for value in unique(values)}


def unique(values: pd.Series) -> list[Any]:
    """Distinct values, in order of appearance."""
    return list(dict.fromkeys(values.tolist()))


def number(value: Any, form: str) -> str:
    """A formatted number or text, or a dash where there is none."""
    return NONE if missing(value) else form.format(value)


def percent(value: Any, digits: int = 0) -> str:
    """A share in %, without the sign."""
    # Adding 0.0 turns -0.0 into 0.0.
    return NONE if missing(value) else f"{round(100 * value, digits) + 0.0:.{digits}f}"


def missing(value: Any) -> bool:
    """Whether a cell holds no number."""
    return value is None or (isinstance(value, float) and math.isnan(value))


def _plain(row: dict[Any, Any]) -> Row:
    return {str(name): value for name, value in row.items()}

"""Everything that the page shows, as plain values: built by `report`, drawn by `page`."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from harness.collection import Collection
from harness.report.spec import FigureSpec, TableSpec


@dataclass(frozen=True)
class Shown:
    """A table that was built. spec: its caption says what the numbers come from.

    frame: the numbers. heads, text_rows: the same as a person reads them, one text per cell.
    """

    spec: TableSpec
    frame: pd.DataFrame
    heads: list[str]
    text_rows: list[list[str]]

    def heads_and_rows(self) -> tuple[list[str], list[list[str]]]:
        """Column heads, then the rows under them."""
        return self.heads, self.text_rows


@dataclass(frozen=True)
class ModelBook:
    """One model's results.

    missing: titles of tables and figures that could not be built, and why. figures: specs with
    the picture as PNG bytes. notes: what qualifies the numbers. how: what was measured with which
    settings and on which machine. verdicts: a row per run.
    """

    model: str
    label: str
    lab: bool
    tables: list[Shown]
    missing: list[tuple[str, str]]
    figures: list[tuple[FigureSpec, bytes]]
    notes: list[str]
    how: list[tuple[str, str]]
    verdicts: pd.DataFrame
    data: Collection


@dataclass(frozen=True)
class Book:
    """headline: what was found, in sentences. left_out: run directories not read, and why."""

    title: str
    headline: list[str]
    models: list[ModelBook] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

"""A predicted frame as files and on the screen: `predicted_<name>`, its caption with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from matplotlib.figure import Figure

from harness.report.book import Shown
from harness.report.figures.style import save
from harness.report.spec import TableSpec
from harness.report.write import write_table

PREFIX = "predicted_"


@dataclass(frozen=True, eq=False)
class Sheet:
    """A frame with its words. The caption says that it is predicted, or what it is instead."""

    name: str
    title: str
    caption: str
    frame: pd.DataFrame

    def show(self) -> None:
        """Print title, rows and caption."""
        texts = self.frame.map(_text)
        print(f"\n{self.title}\n{texts.to_string(index=False)}\n{self.caption}")


def write(sheets: Sequence[Sheet], folder: Path) -> list[Path]:
    """predicted_<name>.csv, .md and .tex of each."""
    paths = []
    for sheet in sheets:
        paths += write_table(_shown(sheet), folder, PREFIX + sheet.name)
    return paths


def draw(
    name: str, drawing: Callable[[pd.DataFrame], Figure], frame: pd.DataFrame, folder: Path
) -> list[Path]:
    """predicted_<name>.pdf, .png and .csv."""
    return save(drawing(frame), frame, folder, PREFIX + name)


def _shown(sheet: Sheet) -> Shown:
    rows = [[_text(value) for value in row] for row in sheet.frame.itertuples(index=False)]
    spec = TableSpec(sheet.name, sheet.title, sheet.caption, lambda _: sheet.frame)
    return Shown(spec, sheet.frame, [str(name) for name in sheet.frame], rows)


def _text(value: object) -> str:
    if isinstance(value, float):
        return "-" if pd.isna(value) else f"{value:.4g}"
    return str(value)

"""One look for all figures, and how a figure is written: PDF, PNG and the CSV it was drawn from."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figures.doubts import doubt_lines

WIDTH = 3.4  # inches: one column of a paper
DPI = 200
FLOATS = "%.6g"

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 8,
    "axes.titlesize": 8,
    "axes.labelsize": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.alpha": 0.25,
    "xtick.labelsize": 7,
    "ytick.labelsize": 7,
    "legend.frameon": False,
    "legend.fontsize": 7,
    "legend.handlelength": 2.2,
    "legend.columnspacing": 1.2,
    "lines.linewidth": 1.3,
    "lines.markersize": 4,
    "hatch.linewidth": 0.5,
    "figure.dpi": 100,
    "pdf.fonttype": 42,
}
ABOVE: Any = {"loc": "outside upper center"}
REFERENCE_LINE: Any = {
    "color": "#4d4d4d",
    "linestyle": (0, (5, 2)),
    "linewidth": 1.0,
    "zorder": 1.5,
}
SMALL_PRINT: Any = {"fontsize": 6.5, "color": "#4d4d4d", "x": 0.98, "ha": "right"}
UNIFORM_LINE: Any = {"color": "#777777", "linestyle": ":", "linewidth": 1.3}


@dataclass(frozen=True)
class Look:
    """Colour, and what is left of the difference in grey: marker, line and hatch."""

    colour: str
    marker: str = "o"
    line: Any = "-"
    hatch: str = ""
    filled: bool = True

    @property
    def points(self) -> dict[str, Any]:
        """Keywords of a marker; hollow ones are white inside, so that lines do not show through."""
        face = self.colour if self.filled else "white"
        return {"marker": self.marker, "color": self.colour, "markerfacecolor": face}

    @property
    def curve(self) -> dict[str, Any]:
        """Keywords of a line with markers."""
        return {**self.points, "linestyle": self.line}

    @property
    def bar(self) -> dict[str, Any]:
        """Keywords of a bar."""
        return {"color": self.colour, "hatch": self.hatch, "edgecolor": "white", "linewidth": 0.4}


# Okabe and Ito's colours. Keys: what a method does (arms.kind), the same in every figure.
LOOKS: dict[str, Look] = {
    "plain": Look("#7f7f7f", "x", (0, (5, 2))),
    "full": Look("#0072b2", "s", (0, (4, 1.5)), "////", filled=False),
    "cost": Look("#d55e00", "o", "-"),
    "coverage": Look("#009e73", "^", "-.", "...."),
    "depth": Look("#cc79a7", "D", ":", "xxxx"),
    "fixed": Look("#e69f00", "v", (0, (1, 1)), "\\\\\\\\"),
    "hindsight": Look("#000000", "*", "--", "++++"),
    "other": Look("#56b4e9", "P", (0, (3, 1, 1, 1, 1, 1)), "oo"),
}
STAGES: dict[str, Look] = {
    "verify": Look("#2f6297"),
    "draft": Look("#e69f00", hatch="////"),
    "extend": Look("#b892c4", hatch="...."),
    "other": Look("#c9c9c9", hatch="xxxx"),
}
# One per engine and temperature, in order.
SETTINGS: tuple[Look, ...] = (
    Look("#0072b2", "o", "-"),
    Look("#d55e00", "s", (0, (4, 1.5)), "////", filled=False),
    Look("#009e73", "^", "-.", "...."),
    Look("#cc79a7", "D", ":", "xxxx", filled=False),
    Look("#000000", "v", (0, (1, 1)), "\\\\\\\\"),
    Look("#56b4e9", "P", "--", "++++", filled=False),
)

# Words for an axis; other benchmarks stand under their own names.
BENCHMARKS = {
    "alpaca": "Alpaca",
    "gsm8k": "GSM8K",
    "humaneval": "HumanEval",
    "mt_bench": "MT-Bench",
    "qa": "QA",
    "cnn_dm": "CNN/DM",
}

Draw = Callable[[pd.DataFrame], Figure]


def styled(draw: Draw) -> Draw:
    """`draw` under STYLE, whatever the caller's matplotlib settings are."""

    @functools.wraps(draw)
    def inside(frame: pd.DataFrame) -> Figure:
        with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
            return draw(frame)

    return inside


def panels(rows: int, columns: int, height: float, **shared: Any) -> tuple[Figure, np.ndarray]:
    """A figure of one column's width; axes [rows, columns]. height in inches."""
    figure = Figure(figsize=(WIDTH, height), layout="constrained")
    return figure, np.asarray(figure.subplots(rows, columns, squeeze=False, **shared))


def settings(frame: pd.DataFrame) -> Iterator[tuple[str, Look, pd.DataFrame]]:
    """(label, look, rows) per engine and temperature; the engine is named where there are two."""
    several = frame["engine"].nunique() > 1
    grouped = frame.groupby(["engine", "temperature"], sort=True)
    for i, ((engine, temperature), rows) in enumerate(grouped):
        label = f"T={temperature:g}"
        look = SETTINGS[i % len(SETTINGS)]
        yield f"{engine}, {label}" if several else label, look, rows


def by_engine(frame: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """(name to print, rows) per engine; the name is empty where there is only one."""
    grouped = list(frame.groupby("engine", sort=True))
    return [(str(engine) if len(grouped) > 1 else "", rows) for engine, rows in grouped]


def legend_above(figure: Figure, axis: Axes, columns: int) -> None:
    """The legend of one axis over the whole figure, where it hides nothing."""
    handles, labels = axis.get_legend_handles_labels()
    unique = dict(zip(labels, handles, strict=True))
    figure.legend(list(unique.values()), list(unique), ncols=columns, **ABOVE)


def slant_ticks(axis: Axes, names: list[str]) -> None:
    """Names at x = 0, 1, .., slanted so that long ones do not meet."""
    places = range(len(names))
    axis.set_xticks(places, names, rotation=28, ha="right", rotation_mode="anchor")


def whiskers(value: pd.Series, low: pd.Series, high: pd.Series) -> list[pd.Series]:
    """Lengths below and above; no whisker where NaN, and none below 0 from rounding."""
    return [(value - low).clip(lower=0.0), (high - value).clip(lower=0.0)]


def note_below(figure: Figure, frame: pd.DataFrame) -> None:
    """The frame's `note`, the same in every row, and its doubts, as small print under the figure.

    Below the common axis label where the figure has one.
    """
    note = frame["note"].iloc[0] if "note" in frame else None
    lines = [*([note] if isinstance(note, str) and note else []), *doubt_lines(frame)]
    if not lines:
        return
    label = figure.get_supxlabel()
    if label:
        figure.supxlabel("\n".join([label, *lines]), fontsize=7)
    else:
        figure.supxlabel("\n".join(lines), **SMALL_PRINT)


def save(figure: Figure, frame: pd.DataFrame, folder: Path, stem: str) -> list[Path]:
    """Write stem.pdf, stem.png and stem.csv; fixed metadata and formats keep the bytes stable."""
    folder.mkdir(parents=True, exist_ok=True)
    pdf, png, table = (folder / f"{stem}.{suffix}" for suffix in ("pdf", "png", "csv"))
    nothing = {"CreationDate": None, "Producer": None, "Creator": None}
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE}):
        figure.savefig(pdf, metadata=nothing)
        figure.savefig(png, dpi=DPI, metadata={"Software": None})
    frame.to_csv(table, index=False, float_format=FLOATS, lineterminator="\n")
    return [pdf, png, table]

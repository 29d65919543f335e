"""Decode speed by benchmark in each engine that was measured (paper, figure 6)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.report.blocks import main_block, method_labels
from harness.report.doubt import TIME
from harness.report.figures.arms import arms, each_setting
from harness.report.figures.style import (
    BENCHMARKS,
    LOOKS,
    legend_above,
    note_below,
    panels,
    slant_ticks,
    styled,
)
from harness.report.tables.each import benchmark_order
from harness.report.tables.measures import speed

KINDS = ("plain", "full", "cost")
# Names of the paper's regimes and the engines that are them.
REGIMES = {"native PyTorch": "torch", "SGLang eager": "sglang_eager", "SGLang graphs": "sglang"}
BARS = 0.8
COLUMNS = ("decode_tokens_per_s", "requests", TIME)


def frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature, benchmark and method: pooled decode speed, tokens/s.

    note: the paper's regimes that no run is of. They have no rows: not measured is not 0.
    """
    found = each_setting(data, _frame, "python run.py +experiment=fig6")
    measured = set(found["engine"])
    gaps = [name for name, engine in REGIMES.items() if engine not in measured]
    return found.assign(note=f"not measured: {', '.join(gaps)}" if gaps else "")


def _frame(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    block = main_block(data, engine, temperature)
    runs, labels = arms(block, KINDS), method_labels(block.runs)
    rows = [
        {
            "benchmark": name,
            "method_label": labels[str(key)],
            "kind": own["kind"].iloc[0],
            "rank": own["rank"].iloc[0],
            **{column: speed(block, own)[column] for column in COLUMNS},
        }
        for name in benchmark_order(runs["benchmark"])
        for key, own in runs[runs["benchmark"] == name].groupby("method_hash", sort=False)
    ]
    return pd.DataFrame(rows)


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """A panel per engine and temperature; one bar per method beside each other."""
    found = list(frame.groupby(["engine", "temperature"], sort=True))
    figure, axes = panels(len(found), 1, 1.0 + 1.35 * len(found), sharex=True)
    names = benchmark_order(frame["benchmark"])
    for axis, ((engine, temperature), rows) in zip(axes[:, 0], found, strict=True):
        _bars(axis, rows, names)
        axis.set_title(f"{engine}, T={temperature:g}", loc="left")
        axis.set_ylabel("decode speed\n(tokens/s)")
    slant_ticks(axes[-1, 0], [BENCHMARKS.get(name, name) for name in names])
    note_below(figure, frame)
    legend_above(figure, axes[0, 0], 3)
    return figure


def _bars(axis: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    methods = list(rows.groupby(["rank", "method_label", "kind"], sort=True))
    width = BARS / len(methods)
    for i, ((_, label, kind), arm) in enumerate(methods):
        shift = width * (i - (len(methods) - 1) / 2)
        places = [names.index(name) + shift for name in arm["benchmark"]]
        speeds = arm["decode_tokens_per_s"].astype(float)
        axis.bar(places, speeds, width=width, label=label, **LOOKS[str(kind)].bar)
    axis.grid(False, axis="x")

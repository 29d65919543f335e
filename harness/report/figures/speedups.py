"""The headline: how much faster EVICT decodes than the whole tree and than plain decoding."""

from __future__ import annotations

from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.report.blocks import main_block, method_labels
from harness.report.doubt import ENDING
from harness.report.figures.arms import arms, each_setting
from harness.report.figures.style import (
    BENCHMARKS,
    REFERENCE_LINE,
    Look,
    by_engine,
    legend_above,
    note_below,
    panels,
    settings,
    styled,
    whiskers,
)
from harness.report.tables.compared import compared
from harness.report.tables.each import benchmark_order
from harness.report.tables.summary import OVERALL, scopes

ROLES = ("full", "plain")
GAP = 0.32
EDGE = 0.5


def frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature, baseline and benchmark ("all" last): EVICT's paired speedup.

    ratio with low, high: see harness.stats.Speedup; `prompts` is the number of clusters. An
    invalid one has no ratio; ratio_doubt says why.
    """
    return each_setting(data, _frame, "python run.py +experiment=table1")


def _frame(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    block = main_block(data, engine, temperature)
    labels = method_labels(block.runs)
    own = arms(block, ["cost"])
    rows = []
    for role in ROLES:
        base = arms(block, [role])
        for scope in scopes(own):
            inside = own[own["benchmark"].isin(scope)]
            row = {
                "method_label": labels[str(own["method_hash"].iloc[0])],
                "baseline_label": labels[str(base["method_hash"].iloc[0])],
                "benchmark": scope[0] if len(scope) == 1 else OVERALL,
            }
            rows.append(row | measured(compared(block, inside, base, "ratio")))
    order = benchmark_order(row["benchmark"] for row in rows)
    table = pd.DataFrame(rows)
    return table.sort_values("benchmark", key=lambda c: c.map(order.index), kind="stable")


def measured(found: dict[str, Any]) -> dict[str, Any]:
    """A comparison's columns (tables.compared) as numbers of a row; NaN where there is none."""
    numbers = {"ratio": "ratio", "low": "ratio_low", "high": "ratio_high"}
    floats = {
        name: float("nan") if found[key] is None else found[key] for name, key in numbers.items()
    }
    counts = {name: found[f"ratio_{name}"] for name in ("prompts", "excluded")}
    return {**floats, **counts, f"ratio{ENDING}": found[f"ratio{ENDING}"]}


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """Panels: a row per engine, a column per baseline. A mark per benchmark and temperature."""
    engines, names = by_engine(frame), benchmark_order(frame["benchmark"])
    baselines = list(dict.fromkeys(frame["baseline_label"]))
    height = 0.6 + (0.3 + 0.28 * len(names)) * len(engines)
    figure, axes = panels(len(engines), len(baselines), height, sharex="col", sharey=True)
    for row, (engine, rows) in zip(axes, engines, strict=True):
        for axis, baseline in zip(row, baselines, strict=True):
            _panel(axis, rows[rows["baseline_label"] == baseline], names)
        row[0].set_title(engine, loc="left")
    for axis, baseline in zip(axes[-1], baselines, strict=True):
        axis.set_xlabel(f"speedup over\n{baseline} (×)")
    axes[0, 0].set_yticks(range(len(names)), [BENCHMARKS.get(name, name) for name in names])
    axes[0, 0].set_ylim(len(names) - EDGE, -EDGE)
    note_below(figure, frame)
    legend_above(figure, axes[0, 0], 4)
    return figure


def _panel(axis: Axes, rows: pd.DataFrame, names: list[str]) -> None:
    found = list(settings(rows))
    for i, (label, look, own) in enumerate(found):
        shift = GAP * (i - (len(found) - 1) / 2) / max(1, len(found) - 1)
        _dots(axis, own, names, shift, look, label)
    axis.axvline(1.0, **REFERENCE_LINE)
    axis.margins(x=0.12)


def _dots(
    axis: Axes, rows: pd.DataFrame, names: list[str], shift: float, look: Look, label: str
) -> None:
    known = rows.dropna(subset="ratio")
    places = [names.index(name) + shift for name in known["benchmark"]]
    around = whiskers(known["ratio"], known["low"], known["high"])
    axis.errorbar(known["ratio"], places, xerr=around, label=label, linestyle="none", **look.points)

"""Does it take the cost? Score coverage, dynamic depth, a fixed k and EVICT (paper, figure 7)."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.report.blocks import blocks, method_labels, timing
from harness.report.figures.arms import Run, arms, each_setting, setting, with_kinds
from harness.report.figures.speedups import measured
from harness.report.figures.style import (
    LOOKS,
    REFERENCE_LINE,
    note_below,
    panels,
    settings,
    slant_ticks,
    styled,
    whiskers,
)
from harness.report.spec import Missing
from harness.report.tables.compared import compared

COMMAND = "python run.py +experiment=fig7"
# Kinds beside the sweep, in the order drawn, and what a gap is called.
BESIDE = {"depth": "dynamic depth (DDD)", "fixed": "best fixed k"}


def frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature and method: speedup over plain decoding, all benchmarks.

    Rows in drawing order: coverage by rho, the whole tree (rho = 1 by definition), dynamic depth,
    the best fixed k, EVICT. ratio, low, high, prompts: see harness.stats.Speedup. tick: the name
    on the axis. note: what the sweep's block lacks.
    """
    found = each_setting(data, _frame, COMMAND)
    gaps = [name for kind, name in BESIDE.items() if kind not in set(found["kind"])]
    return found.assign(note=f"not measured: {', '.join(gaps)}" if gaps else "")


def _frame(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    block = _sweep_block(data, engine, temperature)
    runs, labels = with_kinds(block.runs), method_labels(block.runs)
    there = [kind for kind in BESIDE if (runs["kind"] == kind).any()]
    swept = runs[runs["kind"] == "coverage"]
    plain = arms(block, ["plain"])
    rows = []
    for part in (swept, arms(block, ["full", *there, "cost"])):
        for key, own in part.groupby("method_hash", sort=False):
            row = {"method_label": labels[str(key)], "rho": _rho(own.iloc[0].to_dict())}
            row |= {name: own[name].iloc[0] for name in ("kind", "rank")}
            rows.append(row | measured(compared(block, own, plain, "ratio")))
    table = pd.DataFrame([row | {"tick": _tick(row)} for row in rows])
    return _in_order(table[(table["kind"] != "coverage") | (table["rho"] < 1)])


def _in_order(table: pd.DataFrame) -> pd.DataFrame:
    order = ["coverage", "full", *BESIDE, "cost"]
    place = table["kind"].map(order.index)
    return table.assign(place=place).sort_values(["place", "rho"]).drop(columns="place")


def _rho(run: Run) -> float:
    """Coverage's share; 1 for the whole tree, NaN for what is no coverage."""
    if run["kind"] == "full":
        return 1.0
    share = setting(run, "selection.rho")
    return math.nan if share is None else float(share)


def _tick(row: Run) -> str:
    if row["kind"] == "coverage":
        return f"ρ={row['rho']:g}"
    return f"ρ=1, {row['method_label']}" if row["kind"] == "full" else str(row["method_label"])


def _sweep_block(data: Collection, engine: str, temperature: float) -> Collection:
    """The timing block with plain decoding and the most shares rho; then with the most runs."""
    found = []
    for block in blocks(timing(data)):
        here = block.runs[
            (block.runs["engine"] == engine) & (block.runs["temperature"] == temperature)
        ]
        rhos = {setting(run, "selection.rho") for run in here.to_dict("records")} - {None}
        if rhos and (here["baseline"] == "plain").any():
            found.append((len(rhos), len(here), block))
    if not found:
        raise Missing(
            f"no coverage sweep beside plain decoding with engine {engine} at T={temperature:g}; "
            f"run: {COMMAND} engine={engine} temperature={temperature:g}"
        )
    return max(found, key=lambda one: one[:2])[2]


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """A panel per engine and temperature; EVICT's speedup and interval run across as a band."""
    found = list(settings(frame))
    ticks = list(dict.fromkeys(frame["tick"]))
    figure, axes = panels(len(found), 1, 1.0 + 1.35 * len(found), sharex=True)
    for axis, (label, _, rows) in zip(axes[:, 0], found, strict=True):
        _sweep(axis, rows, ticks)
        _band(axis, rows[rows["kind"] == "cost"].iloc[0])
        axis.axhline(1.0, **REFERENCE_LINE)
        axis.set_title(label, loc="left")
        axis.set_ylabel("speedup over\nplain decoding (×)")
        axis.margins(y=0.12)
    slant_ticks(axes[-1, 0], ticks)
    axes[-1, 0].set_xlabel("selection (ρ: share of the tree's score verified)")
    note_below(figure, frame)
    return figure


def _sweep(axis: Axes, rows: pd.DataFrame, ticks: list[str]) -> None:
    places = rows["tick"].map(ticks.index)
    swept = rows["kind"].isin(["coverage", "full"])
    line = LOOKS["coverage"]
    axis.plot(places[swept], rows.loc[swept, "ratio"], color=line.colour, linestyle=line.line)
    for kind, arm in rows.groupby("kind", sort=False):
        axis.errorbar(
            places[arm.index],
            arm["ratio"],
            yerr=whiskers(arm["ratio"], arm["low"], arm["high"]),
            linestyle="none",
            **LOOKS[str(kind)].points,
        )


def _band(axis: Axes, evict: pd.Series) -> None:
    colour = LOOKS["cost"].colour
    if not math.isnan(evict["ratio"]):
        axis.axhline(evict["ratio"], color=colour, linewidth=0.8, zorder=1.5)
    if not math.isnan(evict["low"]):
        axis.axhspan(evict["low"], evict["high"], color=colour, alpha=0.13, linewidth=0, zorder=1)

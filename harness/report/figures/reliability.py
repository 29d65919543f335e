"""Does a draft score mean what it says? Acceptance rate against score, per benchmark."""

from __future__ import annotations

import math

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.reliability import expected_calibration_error, reliability_bins
from harness.report.blocks import recorded_runs
from harness.report.doubt import COUNTS, counts_doubt, invalid
from harness.report.figures.arms import each_setting
from harness.report.figures.style import (
    BENCHMARKS,
    REFERENCE_LINE,
    by_engine,
    legend_above,
    note_below,
    panels,
    settings,
    styled,
    whiskers,
)
from harness.report.spec import Missing
from harness.report.tables.each import benchmark_order
from harness.trees import node_verdicts

COMMAND = "python run.py +experiment=trees"
BINS = 10
COLUMNS = 3
METHOD = ["experiment", "settings_hash", "method_hash"]
THOUSAND = 1000
FEWEST_NODES = 10
FACT_PT = 8.5


def frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature, benchmark and bin of width 0.1 of the draft score.

    mean_score, rate with rate_low, rate_high (95 % Wilson), count: the drafted nodes in the bin
    and the share that the target accepts; with fewer than 10 nodes a bin is not `drawn`. ece,
    nodes: of the whole benchmark, thin bins included. All N nodes of a recorded tree have a
    verdict, whatever the live policy verified; the root is not counted. An invalid run has one row
    without numbers.
    """
    return each_setting(data, _frame, COMMAND, recorded_runs)


def _frame(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    runs = _recorded(data, engine, temperature)
    found = []
    for name in benchmark_order(runs["benchmark"]):
        own = runs[runs["benchmark"] == name]
        trees = [tree for run in own["run"] for tree in data.recorded_trees(run)]
        scores, _, accepted = node_verdicts(trees)
        if len(scores):
            bins, doubt = _bins(scores.tolist(), accepted.tolist()), counts_doubt(own)
            if invalid(doubt):
                nothing = dict.fromkeys(bins.columns, math.nan)
                bins = bins.head(1).assign(**nothing).assign(drawn=False)
            found.append(bins.assign(**{"benchmark": name, COUNTS: doubt}))
    if not found:
        raise Missing(f"recorded runs without a drafted node; run: {COMMAND}")
    table = pd.concat(found)
    return table[["benchmark", *(column for column in table if column != "benchmark")]]


def _recorded(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    """Recorded runs of one method with equal settings: the one with most trees, then in rank."""
    runs = recorded_runs(data).runs
    runs = runs[(runs["engine"] == engine) & (runs["temperature"] == temperature)]
    sizes = data.trees.groupby("run").size() if len(data.trees) else pd.Series(dtype=int)
    counted = runs.assign(trees=runs["run"].map(sizes).fillna(0))
    methods = counted.groupby(METHOD).agg(trees=("trees", "sum"), rank=("rank", "first"))
    best = methods.sort_values(["trees", "rank"], ascending=[False, True], kind="stable").index[0]
    return runs[(runs[METHOD] == list(best)).all(axis=1)]


def _bins(scores: list[float], accepted: list[bool]) -> pd.DataFrame:
    bins = reliability_bins(scores, accepted, BINS)
    return pd.DataFrame(
        {
            "low": one.low,
            "high": one.high,
            "mean_score": one.mean_score,
            "rate": one.rate,
            "rate_low": one.interval[0],
            "rate_high": one.interval[1],
            "count": one.count,
            "drawn": one.count >= FEWEST_NODES,
        }
        for one in bins
    ).assign(ece=expected_calibration_error(scores, accepted, BINS), nodes=len(scores))


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """Small multiples, three benchmarks in a row; the diagonal is a score that holds exactly."""
    names = benchmark_order(frame["benchmark"])
    engines = by_engine(frame)
    columns, deep = min(COLUMNS, len(names)), -(-len(names) // COLUMNS)
    rows = deep * len(engines)
    figure, axes = panels(rows, columns, 0.55 + 1.3 * rows, sharex=True, sharey=True)
    for i, (engine, bins) in enumerate(engines):
        places = list(axes[deep * i :][:deep].flat)
        for axis, name in zip(places, names, strict=False):
            word = BENCHMARKS.get(name, name)
            _diagram(axis, bins[bins["benchmark"] == name], f"{engine}\n{word}".strip())
        for axis in places[len(names) :]:
            axis.set_visible(False)
    figure.supxlabel("draft score (probability)", fontsize=8)
    figure.supylabel("acceptance rate (share of nodes)", fontsize=8)
    note_below(figure, frame)
    legend_above(figure, axes[0, 0], 3)
    return figure


def _diagram(axis: Axes, rows: pd.DataFrame, name: str) -> None:
    axis.plot([0, 1], [0, 1], label="score = rate", **REFERENCE_LINE)
    facts = []
    for label, look, bins in settings(rows):
        facts.append(_facts(label, bins.iloc[0]))
        seen = bins[bins["drawn"]]
        around = whiskers(seen["rate"], seen["rate_low"], seen["rate_high"])
        style = {**look.curve, "markersize": 3, "linewidth": 0.9, "elinewidth": 0.7}
        axis.errorbar(seen["mean_score"], seen["rate"], yerr=around, label=label, **style)
    axis.set(xlim=(-0.03, 1.03), ylim=(-0.03, 1.03), xticks=[0, 0.5, 1], yticks=[0, 0.5, 1])
    axis.set_aspect("equal")
    axis.set_title(name, pad=3 + FACT_PT * len(facts))
    lines = "\n".join(facts)
    axis.text(0.5, 1.02, lines, transform=axis.transAxes, ha="center", va="bottom", fontsize=6)


def _facts(label: str, first: pd.Series) -> str:
    if math.isnan(first["ece"]):
        return f"{label}: invalid"
    return f"{label}: ECE {first['ece']:.3f} ({_count(int(first['nodes']))})"


def _count(nodes: int) -> str:
    digits = 1 if nodes < 10 * THOUSAND else 0
    return f"{nodes / THOUSAND:.{digits}f}k" if nodes >= THOUSAND else str(nodes)

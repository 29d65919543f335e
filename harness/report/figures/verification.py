"""What is verified and what it costs, against the accepted length of a request (paper, fig. 5)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.report.blocks import main_block, method_labels
from harness.report.doubt import COUNTS, TIME, counts_doubt, invalid, time_doubt
from harness.report.figures.arms import arms, each_setting, with_kinds
from harness.report.figures.style import (
    LOOKS,
    by_engine,
    legend_above,
    note_below,
    panels,
    settings,
    styled,
)
from harness.report.spec import Missing

COMMAND = "python run.py +experiment=fig5"
BIN = 0.5
FEWEST_PROMPTS = 3
KEY = ["run", "prompt_id", "turn", "repeat"]
METHOD = ["rank", "method_label", "kind"]
ROWS = (
    ("verified", "verified nodes\nper step"),
    ("experts_per_layer", "experts\nper layer"),
    ("verify_ms", "verify latency\n(ms per step)"),
)

Choose = Callable[[Collection], pd.DataFrame]


def compared(block: Collection) -> pd.DataFrame:
    """The runs that the paper compares: the whole tree, and EVICT."""
    return arms(block, ["full", "cost"])


def drafting(block: Collection) -> pd.DataFrame:
    """The runs of every method that drafts."""
    runs = with_kinds(block.runs)
    return runs[~runs["kind"].isin(["plain", "replica"])]


def frame(data: Collection, choose: Choose = compared) -> pd.DataFrame:
    """A row per engine, temperature, method and bin of width 0.5 of a request's own Mat.

    A request's Mat: its committed decode tokens / steps. verified (nodes, root included),
    experts_per_layer, verify_ms: means over the bin's requests of their mean step. requests,
    prompts: how many are in the bin; with fewer than 3 prompts it is not `drawn`. A method whose
    counts are invalid has one row without numbers, one whose times are no verify_ms.
    """

    def one(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
        block = main_block(data, engine, temperature)
        return _binned(block, choose(block))

    return each_setting(data, one, COMMAND)


def _binned(block: Collection, runs: pd.DataFrame) -> pd.DataFrame:
    labels = method_labels(block.runs)
    named = runs.assign(method_label=[labels[str(key)] for key in runs["method_hash"]])
    steps = block.steps.assign(expert_union=pd.to_numeric(block.steps["expert_union"]))
    steps = steps.merge(named[["run", "method_label", "kind", "rank"]], on="run")
    requests = steps.groupby([*METHOD, *KEY], as_index=False).agg(
        mat=("committed", "mean"),
        verified=("verified", "mean"),
        experts_per_layer=("expert_union", "mean"),
        verify_ms=("verify_ms", "mean"),
    )
    requests["mat_low"] = np.floor(requests["mat"] / BIN) * BIN
    found = requests.groupby([*METHOD, "mat_low"], as_index=False).agg(
        requests=("mat", "size"),
        prompts=("prompt_id", "nunique"),
        mat=("mat", "mean"),
        **{name: (name, "mean") for name, _ in ROWS},
    )
    drawn = found["prompts"] >= FEWEST_PROMPTS
    if not drawn.any():
        raise Missing(f"no bin of Mat with {FEWEST_PROMPTS} prompts; run: {COMMAND} limit=null")
    parts = [_judged(rows, named) for _, rows in found.assign(drawn=drawn).groupby(METHOD)]
    return pd.concat(parts, ignore_index=True)


def _judged(rows: pd.DataFrame, runs: pd.DataFrame) -> pd.DataFrame:
    """The bins of one method, without what the verdicts on its runs say is invalid."""
    own = runs[runs["method_label"] == rows["method_label"].iloc[0]]
    counts, times = counts_doubt(own), time_doubt(own)
    if invalid(counts):
        nothing = dict.fromkeys(rows.columns.difference(METHOD), float("nan"))
        rows = rows.head(1).assign(**nothing).assign(drawn=False)
    if invalid(times):
        rows = rows.assign(verify_ms=float("nan"))
    return rows.assign(**{COUNTS: counts, TIME: times})


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """Three rows of panels per engine, a column per temperature; only bins that are `drawn`."""
    engines = by_engine(frame)
    columns = frame["temperature"].nunique()
    size = len(ROWS) * len(engines), columns
    figure, axes = panels(*size, 0.5 + 3.8 * len(engines), sharex=True, sharey="row")
    for i, (engine, rows) in enumerate(engines):
        _draw_engine(axes[len(ROWS) * i :][: len(ROWS)], engine, rows)
    figure.supxlabel("Mat of the request (committed tokens per step)", fontsize=8)
    note_below(figure, frame)
    figure.align_ylabels(axes[:, 0])
    legend_above(figure, axes[0, 0], 3)
    return figure


def _draw_engine(axes: np.ndarray, engine: str, frame: pd.DataFrame) -> None:
    found = list(settings(frame))
    for column, (label, _, rows) in zip(axes.T, found, strict=False):
        column[0].set_title(f"{engine}, {label}" if engine else label)
        for axis, (quantity, _) in zip(column, ROWS, strict=True):
            for (_, name, kind), arm in rows.groupby(METHOD):
                seen = arm[arm["drawn"]]
                centres = seen["mat_low"] + BIN / 2
                axis.plot(centres, seen[quantity], label=name, **LOOKS[str(kind)].curve)
    for axis in axes[:, len(found) :].flat:
        axis.set_visible(False)
    for axis, (_, label) in zip(axes[:, 0], ROWS, strict=True):
        axis.set_ylabel(label)
        axis.set_ylim(0, 1.08 * axis.get_ylim()[1])

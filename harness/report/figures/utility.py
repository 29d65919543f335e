"""How well policies choose k on recorded trees: what they leave, and their k beside hindsight's."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.report.blocks import method_labels, recorded_runs, replay_blocks
from harness.report.doubt import COUNTS, counts_doubt, invalid, merged
from harness.report.figures.arms import arms
from harness.report.figures.doubts import refuse_invalid
from harness.report.figures.style import LOOKS, legend_above, note_below, panels, settings, styled
from harness.report.spec import Missing
from harness.report.tables.replay import regret
from harness.report.tables.sources import Sources
from harness.report.tables.summary import OVERALL

COMMAND = "python run.py +experiment=replay"
KINDS = ("cost", "hindsight")
EDGE = 0.5
BARS = 0.8


def regret_frame(data: Collection) -> pd.DataFrame:
    """The regret table's rows over all benchmarks, by rank and mean k (tables.replay.regret)."""
    return _largest(data, _regrets)


def length_frame(data: Collection) -> pd.DataFrame:
    """A row per temperature, method (EVICT, hindsight) and verify length k = 1..largest chosen.

    steps: recorded steps at which the method chose k; share of the method's steps.
    """
    return _largest(data, _lengths)


def _largest(
    data: Collection, build: Callable[[Collection, Collection], pd.DataFrame]
) -> pd.DataFrame:
    """`build` of each temperature's replay block, of that with the most steps if there are more.

    Missing with the first reason where no block has what is needed.
    """
    reasons = [f"no replay of recorded trees; run: {COMMAND}"]
    found: dict[float, pd.DataFrame] = {}
    for block in sorted(replay_blocks(data), key=lambda one: len(one.steps)):
        try:
            found[float(block.runs["temperature"].iloc[0])] = build(data, block)
        except Missing as gap:
            reasons.append(str(gap))
    refuse_invalid(found.values(), COMMAND)
    if not found:
        raise Missing(reasons[-1])
    return pd.concat([found[temperature] for temperature in sorted(found)], ignore_index=True)


def _regrets(data: Collection, block: Collection) -> pd.DataFrame:
    sources = recorded_runs(data).runs
    found = regret(data.select({*block.runs["run"], *(sources["run"] if len(sources) else ())}))
    if found["benchmark"].nunique() > 1:
        found = found[found["benchmark"] == OVERALL]
    columns = ["engine", "temperature", "method_label", "rank", "recorded_method", "steps"]
    numbers = ["mean_k", "tokens_per_ms", "best", "regret", "hindsight_regret", COUNTS]
    return found[[*columns, *numbers]].sort_values(["rank", "mean_k"])


def _lengths(data: Collection, block: Collection) -> pd.DataFrame:
    runs, labels = arms(block, KINDS), method_labels(block.runs)
    verified = block.steps.merge(runs[["run", "kind", "method_hash"]], on="run")
    sources = set(Sources.of(data).find(block).values())
    recorded = counts_doubt(data.runs[data.runs["run"].isin(sources)])
    doubts = {
        str(key): merged([counts_doubt(own), recorded]) for key, own in runs.groupby("method_hash")
    }
    good = verified[~verified["method_hash"].map(doubts).map(invalid)]
    ks = range(1, 1 + int(good["verified"].max())) if len(good) else range(0)
    rows: list[dict[str, Any]] = []
    for (kind, key), steps in verified.groupby(["kind", "method_hash"], sort=True):
        names = {"method_label": labels[str(key)], "kind": kind, COUNTS: doubts[str(key)]}
        counts = steps["verified"].value_counts().reindex(ks, fill_value=0).items()
        shares = [{"k": k, "steps": n, "share": n / len(steps)} for k, n in counts]
        if invalid(names[COUNTS]):
            shares = [dict.fromkeys(("k", "steps", "share"), math.nan)]
        rows += [names | share for share in shares]
    first = block.runs.iloc[0]
    found = pd.DataFrame(rows)
    found.insert(0, "engine", first["engine"])
    found.insert(1, "temperature", first["temperature"])
    return found


@styled
def draw_regret(frame: pd.DataFrame) -> Figure:
    """Bars per policy, one for each temperature; the numbers stand at their ends."""
    names = list(dict.fromkeys(frame["method_label"]))
    found = list(settings(frame))
    figure, axes = panels(1, 1, 0.8 + (0.11 + 0.1 * len(found)) * len(names))
    axis, height = axes[0, 0], BARS / len(found)
    for i, (label, look, rows) in enumerate(found):
        shift = height * (i - (len(found) - 1) / 2)
        known = rows.dropna(subset="regret")
        places = [names.index(name) + shift for name in known["method_label"]]
        bars = axis.barh(places, 100 * known["regret"], height=height, label=label, **look.bar)
        axis.bar_label(bars, fmt="%.1f", fontsize=6.5, padding=2)
    axis.set_yticks(range(len(names)), names)
    axis.set_ylim(len(names) - EDGE, -EDGE)
    axis.set_xlabel("predicted regret (%)")
    axis.grid(False, axis="y")
    axis.margins(x=0.12)
    note_below(figure, frame)
    legend_above(figure, axis, 4)
    return figure


@styled
def draw_lengths(frame: pd.DataFrame) -> Figure:
    """A panel per temperature: outlined shares over k; a mark on the axis at each mean."""
    found = list(settings(frame))
    figure, axes = panels(len(found), 1, 0.8 + 1.3 * len(found), sharex=True, sharey=True)
    for axis, (label, _, rows) in zip(axes[:, 0], found, strict=True):
        known = rows.dropna(subset="share")
        for (kind, name), arm in known.groupby(["kind", "method_label"], sort=True):
            look = LOOKS[str(kind)]
            edges = np.append(arm["k"] - 0.5, arm["k"].max() + 0.5)
            axis.stairs(
                100 * arm["share"],
                edges,
                label=name,
                color=look.colour,
                linestyle=look.line,
                linewidth=1.2,
            )
            mean = (arm["k"] * arm["share"]).sum()
            axis.plot(mean, 0, clip_on=False, zorder=4, **look.points)
        axis.set_title(label, loc="left")
        axis.set(ylabel="steps (%)", ylim=(0, None), xlim=(0.5, frame["k"].max() + 0.5))
    axes[-1, 0].set_xlabel("verified nodes k; marks on the axis: means")
    note_below(figure, frame)
    legend_above(figure, axes[0, 0], 2)
    return figure

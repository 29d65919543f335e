"""Figures of predictions: each says so on itself, whatever is printed around it."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.report.figures.style import (
    REFERENCE_LINE,
    SETTINGS,
    SMALL_PRINT,
    STAGES,
    panels,
    styled,
    whiskers,
)

MEASURES = {"tokens_per_s": "tokens/s", "mat": "Mat"}
SAID = "predicted by a cost and an acceptance model, not measured"
ROW_HEIGHT = 0.16


@styled
def draw_cells(frame: pd.DataFrame) -> Figure:
    """Predicted over published with 90 % bands: speeds left, Mats right, a look per model."""
    figure, axes = panels(1, 2, 2.3)
    for axis, (measure, label) in zip(axes[0], MEASURES.items(), strict=True):
        rows = frame[frame["measure"] == measure]
        ends = [rows[["published", "low"]].min().min(), rows[["published", "high"]].max().max()]
        axis.plot(ends, ends, **REFERENCE_LINE)
        for look, (model, own) in zip(SETTINGS, rows.groupby("model", sort=True), strict=False):
            error = whiskers(own["predicted"], own["low"], own["high"])
            axis.errorbar(
                own["published"],
                own["predicted"],
                yerr=error,
                linestyle="none",
                elinewidth=0.5,
                label=str(model),
                **look.points,
            )
        axis.set_xlabel(f"published {label}")
        axis.set_ylabel(f"predicted {label}")
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, ncols=3, loc="outside upper center")
    return _said(figure)


@styled
def draw_sensitivity(frame: pd.DataFrame) -> Figure:
    """Effect of each parameter's deviation on EVICT / EAGLE-3: model mean, whiskers over cells."""
    grouped = frame.groupby(["parameter", "model"], sort=True)["ratio"]
    found = grouped.agg(["mean", "min", "max"]).mul(100).reset_index()
    names = found.groupby("parameter")["mean"].apply(lambda x: x.abs().max()).sort_values().index
    models = sorted(found["model"].unique())
    figure, axes = panels(1, 1, 0.6 + ROW_HEIGHT * len(names) * len(models))
    axis: Axes = axes[0, 0]
    for i, (look, model) in enumerate(zip(SETTINGS, models, strict=False)):
        rows = found[found["model"] == model].set_index("parameter").loc[names]
        places = np.arange(len(names)) + 0.25 * (i - (len(models) - 1) / 2)
        error = whiskers(rows["mean"], rows["min"], rows["max"])
        axis.errorbar(
            rows["mean"],
            places,
            xerr=error,
            linestyle="none",
            elinewidth=0.7,
            label=model,
            **look.points,
        )
    axis.axvline(0, **REFERENCE_LINE)
    axis.set_yticks(range(len(names)), list(names))
    axis.set_xlabel("predicted change of EVICT / EAGLE-3, %")
    figure.legend(ncols=3, loc="outside upper center")
    return _said(figure)


@styled
def draw_savings(frame: pd.DataFrame) -> Figure:
    """Section 4.3's three savings: published, and predicted for each model per step."""
    rows = frame[frame["basis"] == "per step"]
    measures = list(dict.fromkeys(rows["measure"]))
    models = list(dict.fromkeys(rows["model"]))
    figure, axes = panels(1, 1, 2.3)
    axis: Axes = axes[0, 0]
    width = 0.8 / (len(models) + 1)
    published = rows.drop_duplicates("measure").set_index("measure")["published"]
    axis.bar(
        np.arange(len(measures)),
        100 * published.loc[measures],
        width,
        label="published",
        color="#7f7f7f",
    )
    for i, (look, model) in enumerate(zip(SETTINGS, models, strict=False), start=1):
        own = rows[rows["model"] == model].set_index("measure").loc[measures]
        places = np.arange(len(measures)) + i * width
        axis.bar(places, 100 * own["predicted"], width, label=f"{model}, predicted", **look.bar)
    middle = np.arange(len(measures)) + width * len(models) / 2
    axis.set_xticks(middle, [name.replace("_", " ") for name in measures])
    axis.set_ylabel("saved against EAGLE-3, %")
    figure.legend(ncols=2, loc="outside upper center")
    return _said(figure)


@styled
def draw_costs(frame: pd.DataFrame) -> Figure:
    """C(k) stacked by stage. frame: StepCost.table()."""
    figure, axes = panels(1, 1, 2.2)
    axis: Axes = axes[0, 0]
    stages = frame.pivot_table(index="k", columns="stage", values="predicted_ms", aggfunc="sum")
    base = np.zeros(len(stages))
    for stage, look in STAGES.items():
        if stage in stages:
            top = base + stages[stage].to_numpy()
            colour = look.colour
            axis.fill_between(stages.index, base, top, label=stage, color=colour, linewidth=0)
            base = top
    axis.set_xlabel("verify length k")
    axis.set_ylabel("predicted C(k), ms")
    axis.set_ylim(bottom=0)
    figure.legend(ncols=4, loc="outside upper center")
    return _said(figure)


@styled
def draw_lengths(frame: pd.DataFrame) -> Figure:
    """Share of steps by chosen k, a line per benchmark."""
    figure, axes = panels(1, 1, 2.2)
    axis: Axes = axes[0, 0]
    for look, (name, rows) in zip(SETTINGS, frame.groupby("benchmark", sort=True), strict=False):
        axis.plot(rows["k"], 100 * rows["predicted_share"], label=str(name), **look.curve)
    axis.set_xlabel("verify length k chosen by EVICT")
    axis.set_ylabel("predicted share, %")
    figure.legend(ncols=3, loc="outside upper center")
    return _said(figure)


@styled
def draw_batches(frame: pd.DataFrame) -> Figure:
    """Does the bottleneck survive batching? The gain by cause above, the experts in use below."""
    figure, axes = panels(2, 1, 3.6, sharex=True)
    above, below = axes[:, 0]
    first, second, third = SETTINGS[:3]
    above.fill_between(frame["batch"], frame["low"], frame["high"], alpha=0.15, color=first.colour)
    above.plot(frame["batch"], frame["predicted"], label="EVICT / EAGLE-3", **first.curve)
    above.plot(frame["batch"], frame["expert_part"], label="due to experts", **second.curve)
    above.plot(frame["batch"], frame["predicted_same_experts"], label="compute", **third.curve)
    above.axhline(1, **REFERENCE_LINE)
    above.set_ylabel("predicted gain")
    above.set_yscale("log", base=2)
    above.yaxis.set_major_formatter("{x:g}")
    below.plot(frame["batch"], 100 * frame["active_share"], label="experts", **second.curve)
    below.set_ylabel("active experts\nat k = 1, %")
    below.set_xlabel("requests decoded together")
    below.set_xscale("log", base=2)
    figure.legend(*above.get_legend_handles_labels(), ncols=3, loc="outside upper center")
    return _said(figure)


@styled
def draw_sparsity(frame: pd.DataFrame) -> Figure:
    """EVICT over EAGLE-3 by the number of experts E, a line per experts chosen by a token K."""
    figure, axes = panels(1, 1, 2.2)
    axis: Axes = axes[0, 0]
    grouped = frame.groupby("experts_per_token", sort=True)
    for look, (chosen, rows) in zip(SETTINGS, grouped, strict=False):
        axis.plot(rows["experts"], rows["predicted"], label=f"K = {chosen}", **look.curve)
    axis.axhline(1, **REFERENCE_LINE)
    axis.set_xscale("log", base=2)
    axis.set_xlabel("experts per layer E, of the same total size")
    axis.set_ylabel("predicted gain")
    figure.legend(ncols=5, loc="outside upper center")
    return _said(figure)


def _said(figure: Figure) -> Figure:
    figure.supxlabel(SAID, **SMALL_PRINT)
    return figure

"""What a step costs at each verify length, and the experts behind it (paper, figure 1)."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evict.cost import CostTable
from harness.collection import Collection
from harness.expert_union import uniform_union
from harness.report.blocks import timing
from harness.report.cost import cost_frame
from harness.report.figures.style import (
    REFERENCE_LINE,
    STAGES,
    UNIFORM_LINE,
    panels,
    save,
    styled,
)
from harness.report.spec import Missing

FACTS = ("engine", "model", "device", "dtype", "threads", "experts", "experts_per_token")


def frame(data: Collection) -> pd.DataFrame:
    """The cost table of each engine's newest timing run that has one: a row per engine and k."""
    runs = timing(data).runs
    if len(runs):
        runs = runs[runs["run"].isin(data.costs)]
    if runs.empty:
        raise Missing("no run with a cost table; run: python run.py profile=only")
    newest = runs.sort_values(["finished_at", "run"]).drop_duplicates("engine", keep="last")
    chosen = newest.sort_values("engine")["run"]
    return pd.concat([described(data.costs[run]) for run in chosen], ignore_index=True)


def described(cost: CostTable) -> pd.DataFrame:
    """`cost_frame` with the facts that the drawing prints and needs."""
    return cost_frame(cost).assign(**{name: cost.fingerprint[name] for name in FACTS})


@styled
def draw(frame: pd.DataFrame) -> Figure:
    """Per engine C(k) by stage above, the expert union per layer below."""
    engines = [rows for _, rows in frame.groupby("engine", sort=True)]
    figure, axes = panels(2 * len(engines), 1, 4.2 * len(engines))
    for i, rows in enumerate(engines):
        above, below = axes[2 * i, 0], axes[2 * i + 1, 0]
        _draw_stages(above, rows)
        _draw_union(below, rows)
        above.sharex(below)
        above.tick_params(labelbottom=False)
    return figure


def _draw_stages(axis: Axes, rows: pd.DataFrame) -> None:
    stages = [stage for stage in STAGES if f"{stage}_ms" in rows]
    drawn = axis.stackplot(
        rows["k"],
        *(rows[f"{stage}_ms"] for stage in stages),
        labels=stages,
        colors=[STAGES[stage].colour for stage in stages],
        alpha=0.6,
        linewidth=0,
    )
    for area, stage in zip(drawn, stages, strict=True):
        area.set(hatch=STAGES[stage].hatch, edgecolor="white")
    axis.errorbar(
        rows["k"],
        rows["step_ms"],
        yerr=rows["spread_ms"] / 2,
        color="black",
        linewidth=1.2,
        elinewidth=0.6,
        label="C(k), bar = IQR",
    )
    axis.axhline(rows["ar_ms"].iloc[0], label="plain step", **REFERENCE_LINE)
    axis.set(ylabel="step time (ms)", ylim=(0, None))
    handles, labels = axis.get_legend_handles_labels()
    axis.legend(handles, labels, ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1.0))
    axis.set_title(_title(rows.iloc[0]), pad=32)


def _title(facts: pd.Series) -> str:
    threads = int(facts["threads"])
    return f"{facts['model']} on {facts['device']}, {facts['dtype']}, {threads} thread" + "s" * (
        threads != 1
    )


def _draw_union(axis: Axes, rows: pd.DataFrame) -> None:
    experts, top_k = int(rows["experts"].iloc[0]), int(rows["experts_per_token"].iloc[0])
    if rows["expert_union"].notna().any():
        axis.plot(rows["k"], rows["expert_union"], color="black", label="measured")
    uniform = [uniform_union(experts, top_k, int(k)) for k in rows["k"]]
    axis.plot(rows["k"], uniform, label="uniform routing", **UNIFORM_LINE)
    axis.axhline(top_k, label="one token", **REFERENCE_LINE)
    axis.set(
        ylabel=f"experts per layer (of {experts})",
        xlabel="verify length k (nodes, root included)",
        ylim=(0, None),
        xlim=(1, rows["k"].max()),
    )
    axis.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.45, 1.0))


def cost_curve(cost: CostTable, folder: Path) -> list[Path]:
    """Draw and write the cost curve of one machine and model."""
    return save(draw(described(cost)), cost_frame(cost), folder, "cost_curve")

"""What a larger tree costs: experts, step latency and where the time goes (paper, figures 1, 2)."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.expert_union import uniform_union
from harness.report.blocks import fixed_k, main_block, tree_size_block
from harness.report.figures.arms import arms, each_setting
from harness.report.figures.style import (
    REFERENCE_LINE,
    STAGES,
    UNIFORM_LINE,
    legend_above,
    panels,
    settings,
    styled,
)
from harness.report.tables.measures import stage_share

COMMAND = "python run.py +experiment=fig1"
PLAIN = "plain"


def growth_frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature and fixed k, means over all decode steps of the sweep.

    experts_per_layer: distinct experts of a layer in a step. step_ms with quartiles: whole step.
    plain_ms, plain_experts: the same of plain decoding. uniform_experts: expected experts of k
    tokens under uniform routing, of the layer's `layer_experts`.
    """
    return each_setting(data, _growth, COMMAND)


def share_frame(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature and width ("plain", then each k): share of a step by stage.

    <stage>_share: sum of the stage's ms / sum of whole steps' ms. step_ms: mean whole step.
    """
    return each_setting(data, _shares, COMMAND)


def _growth(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    plain, sweep = _sweep(data, engine, temperature)
    layer = _layer(tree_size_block(data, engine, temperature))
    rows = [
        {
            "k": k,
            "steps": len(steps),
            "mean_verified": steps["verified"].mean(),
            "experts_per_layer": steps["expert_union"].astype(float).mean(),
            "step_ms": steps["total_ms"].mean(),
            "step_ms_q25": steps["total_ms"].quantile(0.25),
            "step_ms_q75": steps["total_ms"].quantile(0.75),
            "uniform_experts": uniform_union(*layer, k),
        }
        for k, steps in sweep.items()
    ]
    return pd.DataFrame(rows).assign(
        plain_ms=plain["total_ms"].mean(),
        plain_experts=plain["expert_union"].astype(float).mean(),
        layer_experts=layer[0],
    )


def _shares(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    plain, sweep = _sweep(data, engine, temperature)
    widths = {PLAIN: plain, **{str(k): steps for k, steps in sweep.items()}}
    return pd.DataFrame(
        {
            "width": width,
            "steps": len(steps),
            **{f"{stage}_share": stage_share(steps, stage) for stage in STAGES},
            "step_ms": steps["total_ms"].mean(),
        }
        for width, steps in widths.items()
    )


def _sweep(
    data: Collection, engine: str, temperature: float
) -> tuple[pd.DataFrame, dict[int, pd.DataFrame]]:
    """Steps of plain decoding and of each fixed k, ascending.

    Plain decoding comes from the sweep's own block, from the main block where that has none.
    """
    block = tree_size_block(data, engine, temperature)
    own = (block.runs["baseline"] == "plain").any()
    plain = _steps(block if own else main_block(data, engine, temperature), [PLAIN])
    ks = block.runs["parameters"].map(fixed_k)
    sweep = {
        int(k): block.steps[block.steps["run"].isin(set(block.runs.loc[ks == k, "run"]))]
        for k in sorted(ks.dropna().unique())
    }
    return plain, {k: steps for k, steps in sweep.items() if len(steps)}


def _steps(block: Collection, kinds: list[str]) -> pd.DataFrame:
    return block.steps[block.steps["run"].isin(set(arms(block, kinds)["run"]))]


def _layer(block: Collection) -> tuple[int, int]:
    """(experts, experts per token) of a MoE layer, as the engine read them back."""
    facts = block.runs["engine_facts"].iloc[0]
    return int(facts["experts"]), int(facts["experts_per_token"])


@styled
def draw_growth(frame: pd.DataFrame) -> Figure:
    """Experts per layer above, step latency below; a line per engine and temperature."""
    figure, axes = panels(2, 1, 3.7, sharex=True)
    experts, latency = axes[:, 0]
    for label, look, rows in settings(frame):
        experts.plot(rows["k"], rows["experts_per_layer"], label=label, **look.curve)
        latency.plot(rows["k"], rows["step_ms"], label=label, **look.curve)
        quartiles = rows["step_ms_q25"], rows["step_ms_q75"]
        latency.fill_between(rows["k"], *quartiles, color=look.colour, alpha=0.15, linewidth=0)
        latency.axhline(rows["plain_ms"].iloc[0], **{**REFERENCE_LINE, "color": look.colour})
    uniform = frame.drop_duplicates("k").sort_values("k")
    experts.plot(uniform["k"], uniform["uniform_experts"], label="uniform routing", **UNIFORM_LINE)
    experts.axhline(frame["plain_experts"].mean(), label="plain decoding", **REFERENCE_LINE)
    experts.set(ylabel="experts per layer", ylim=(0, None))
    latency.set(ylabel="step latency (ms)", ylim=(0, None), xlabel="tree size k (verified nodes)")
    latency.set_xticks(sorted(frame["k"].unique()))
    legend_above(figure, experts, 2)
    return figure


@styled
def draw_shares(frame: pd.DataFrame) -> Figure:
    """Stacked shares, a panel per engine and temperature; a step's mean ms stands on each bar."""
    found = list(settings(frame))
    figure, axes = panels(len(found), 1, 0.75 + 1.45 * len(found), sharex=False)
    for axis, (label, _, rows) in zip(axes[:, 0], found, strict=True):
        _stack(axis, rows)
        axis.set_title(label, loc="left", pad=12)
        axis.set(ylabel="share of a step (%)", ylim=(0, 100))
    axes[-1, 0].set_xlabel("tree size k (verified nodes); step time in ms on top")
    legend_above(figure, axes[0, 0], len(STAGES))
    return figure


def _stack(axis: Axes, rows: pd.DataFrame) -> None:
    places = range(len(rows))
    bottom = pd.Series(0.0, index=rows.index)
    for stage, look in STAGES.items():
        height = 100 * rows[f"{stage}_share"]
        axis.bar(places, height, bottom=bottom, width=0.72, label=stage, **look.bar)
        bottom += height
    for place, step_ms in zip(places, rows["step_ms"], strict=True):
        axis.text(place, 101.5, f"{step_ms:.3g}", ha="center", va="bottom", fontsize=6.5)
    axis.set_xticks(places, rows["width"])
    axis.grid(False, axis="x")

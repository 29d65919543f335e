"""What a larger tree costs: experts, step latency and where the time goes (paper, figures 1, 2)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from harness.collection import Collection
from harness.expert_union import uniform_union
from harness.report.blocks import fixed_k, main_block, tree_size_block
from harness.report.doubt import COUNTS, TIME, counts_doubt, time_doubt, withheld
from harness.report.figures.arms import arms, each_setting
from harness.report.figures.style import (
    REFERENCE_LINE,
    STAGES,
    UNIFORM_LINE,
    legend_above,
    note_below,
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
    tokens under uniform routing, of the layer's `layer_experts`. An invalid run leaves no number.
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
    base = plain.counts() | plain.times()
    rows = [
        {"k": k, "steps": len(width.steps), "uniform_experts": uniform_union(*layer, k)}
        | width.counts()
        | width.times()
        | {COUNTS: width.counts_doubt, TIME: width.time_doubt}
        for k, width in sweep.items()
    ]
    return pd.DataFrame(rows).assign(
        plain_ms=base["step_ms"],
        plain_experts=base["experts_per_layer"],
        layer_experts=layer[0],
        **{f"{PLAIN}_{COUNTS}": plain.counts_doubt, f"{PLAIN}_{TIME}": plain.time_doubt},
    )


def _shares(data: Collection, engine: str, temperature: float) -> pd.DataFrame:
    plain, sweep = _sweep(data, engine, temperature)
    widths = {PLAIN: plain, **{str(k): width for k, width in sweep.items()}}
    return pd.DataFrame(
        {"width": name, "steps": len(width.steps)}
        | width.shares()
        | {"step_ms": width.times()["step_ms"], TIME: width.time_doubt}
        for name, width in widths.items()
    )


@dataclass(frozen=True)
class _Width:
    """The runs that verify one number of nodes, and their steps."""

    runs: pd.DataFrame
    steps: pd.DataFrame

    @property
    def counts_doubt(self) -> str:
        return counts_doubt(self.runs)

    @property
    def time_doubt(self) -> str:
        return time_doubt(self.runs)

    def counts(self) -> dict[str, float | None]:
        union = self.steps["expert_union"].astype(float).mean()
        found = {"mean_verified": self.steps["verified"].mean(), "experts_per_layer": union}
        return withheld(self.counts_doubt, found)

    def times(self) -> dict[str, float | None]:
        ms = self.steps["total_ms"]
        quartiles = {f"step_ms_q{q}": ms.quantile(q / 100) for q in (25, 75)}
        return withheld(self.time_doubt, {"step_ms": ms.mean(), **quartiles})

    def shares(self) -> dict[str, float | None]:
        found = {f"{stage}_share": stage_share(self.steps, stage) for stage in STAGES}
        return withheld(self.time_doubt, found)


def _sweep(data: Collection, engine: str, temperature: float) -> tuple[_Width, dict[int, _Width]]:
    """Plain decoding and each fixed k, ascending.

    Plain decoding comes from the sweep's own block, from the main block where that has none.
    """
    block = tree_size_block(data, engine, temperature)
    own = (block.runs["baseline"] == "plain").any()
    home = block if own else main_block(data, engine, temperature)
    ks = block.runs["parameters"].map(fixed_k)
    sweep = {int(k): _width(block, block.runs[ks == k]) for k in sorted(ks.dropna().unique())}
    return _width(home, arms(home, [PLAIN])), {k: one for k, one in sweep.items() if len(one.steps)}


def _width(block: Collection, runs: pd.DataFrame) -> _Width:
    return _Width(runs, block.steps[block.steps["run"].isin(set(runs["run"]))])


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
    note_below(figure, frame)
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
    note_below(figure, frame)
    legend_above(figure, axes[0, 0], len(STAGES))
    return figure


def _stack(axis: Axes, rows: pd.DataFrame) -> None:
    places = range(len(rows))
    bottom = pd.Series(0.0, index=rows.index)
    for stage, look in STAGES.items():
        height = 100 * rows[f"{stage}_share"].astype(float)
        axis.bar(places, height, bottom=bottom, width=0.72, label=stage, **look.bar)
        bottom += height
    for place, step_ms in zip(places, rows["step_ms"], strict=True):
        if pd.isna(step_ms):
            continue
        axis.text(place, 101.5, f"{step_ms:.3g}", ha="center", va="bottom", fontsize=6.5)
    axis.set_xticks(places, rows["width"])
    axis.grid(False, axis="x")

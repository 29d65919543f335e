"""Figures: one function each, from data to PDF and PNG, with the CSV they were drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from evict.cost import CostTable
from harness.report.cost import cost_frame

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

STYLE: Any = {
    "font.size": 8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "figure.dpi": 100,
    "pdf.fonttype": 42,
    "legend.frameon": False,
}
LEGEND: Any = {"fontsize": 6.5, "borderaxespad": 0.2}
REFERENCE_LINE: Any = {"color": "#b03a2e", "linestyle": "--", "linewidth": 1}
COLOURS = {"verify": "#3b6ea5", "draft": "#e0a458", "extend": "#9a7aa0", "other": "#b8b8b8"}


def uniform_union(experts: int, top_k: int, tokens: np.ndarray) -> np.ndarray:
    """Expected union when routing is uniform and independent: E (1 - (1 - K/E)^n)."""
    return np.asarray(experts * (1 - (1 - top_k / experts) ** tokens))


def draw_cost(frame: pd.DataFrame, experts: int, top_k: int, title: str) -> Figure:
    """C(k) by stage above, the expert union per layer below (paper, figure 1)."""
    with plt.rc_context(STYLE):
        figure, (cost_axis, union_axis) = plt.subplots(
            2, 1, figsize=(3.5, 4.2), sharex=True, layout="constrained"
        )
        figure.suptitle(title, fontsize=8)
        _draw_stages(cost_axis, frame)
        _draw_union(union_axis, frame, experts, top_k)
    return figure


def _draw_stages(axis: Axes, frame: pd.DataFrame) -> None:
    stages = [stage for stage in COLOURS if f"{stage}_ms" in frame]
    axis.stackplot(
        frame["k"],
        *(frame[f"{stage}_ms"] for stage in stages),
        labels=stages,
        colors=[COLOURS[stage] for stage in stages],
        alpha=0.55,
        linewidth=0,
    )
    axis.errorbar(
        frame["k"],
        frame["step_ms"],
        yerr=frame["spread_ms"] / 2,
        color="black",
        linewidth=1.2,
        elinewidth=0.5,
        label="C(k), bar = IQR",
    )
    axis.axhline(frame["ar_ms"].iloc[0], label="plain step", **REFERENCE_LINE)
    axis.set_ylabel("step time (ms)")
    axis.set_ylim(bottom=0)
    axis.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.5, 1.0), **LEGEND)


def _draw_union(axis: Axes, frame: pd.DataFrame, experts: int, top_k: int) -> None:
    ks = frame["k"].to_numpy()
    axis.plot(ks, frame["expert_union"], color="black", label="measured union")
    uniform = uniform_union(experts, top_k, ks)
    axis.plot(ks, uniform, color="#777777", linestyle=":", label="uniform routing")
    axis.axhline(top_k, label="one token", **REFERENCE_LINE)
    axis.set_ylabel(f"experts per layer (of {experts})")
    axis.set_xlabel("verify length k (nodes, root included)")
    axis.set_ylim(bottom=0)
    axis.set_xlim(1, ks[-1])
    axis.legend(loc="lower right", bbox_to_anchor=(1.0, 0.14), **LEGEND)


def save(figure: Figure, frame: pd.DataFrame, folder: Path, stem: str) -> list[Path]:
    """Write stem.pdf, stem.png and stem.csv; fixed metadata keeps the bytes stable."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{stem}.{suffix}" for suffix in ("pdf", "png", "csv")]
    figure.savefig(paths[0], metadata={"CreationDate": None, "Producer": None, "Creator": None})
    figure.savefig(paths[1], dpi=200, metadata={"Software": None})
    frame.to_csv(paths[2], index=False)
    plt.close(figure)
    return paths


def cost_curve(cost: CostTable, folder: Path) -> list[Path]:
    """Draw and write the cost curve of one machine and model."""
    frame, facts = cost_frame(cost), cost.fingerprint
    title = f"{facts['model']} on {facts['device']}, {facts['dtype']}, {facts['threads']} thread(s)"
    experts, top_k = int(facts["experts"]), int(facts["experts_per_token"])
    return save(draw_cost(frame, experts, top_k, title), frame, folder, "cost_curve")

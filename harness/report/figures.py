"""Figures: one function each, from data to PDF and PNG, with the CSV they were drawn from."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd

from evict.cost import CostTable

matplotlib.use("Agg")
import matplotlib.pyplot as plt
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
COLOURS = {"verify": "#3b6ea5", "draft": "#e0a458", "extend": "#9a7aa0", "other": "#b8b8b8"}


def cost_frame(cost: CostTable) -> pd.DataFrame:
    """One row per verify length: C(k), its spread, stage medians, expert union."""
    frame = pd.DataFrame(
        {
            "k": range(1, cost.draft_tokens + 1),
            "step_ms": cost.step_ms,
            "spread_ms": cost.spread_ms,
            **{f"{stage}_ms": series for stage, series in (cost.stage_ms or {}).items()},
        }
    )
    frame["expert_union"] = cost.expert_union if cost.expert_union else np.nan
    frame["ar_ms"] = cost.ar_ms
    return frame


def uniform_union(experts: int, top_k: int, tokens: np.ndarray) -> np.ndarray:
    """Expected union when routing is uniform and independent: E (1 - (1 - K/E)^n)."""
    return np.asarray(experts * (1 - (1 - top_k / experts) ** tokens))


def draw_cost(frame: pd.DataFrame, experts: int, top_k: int, title: str) -> Figure:
    """C(k) by stage above, the expert union per layer below (paper, figure 1)."""
    ks = frame["k"].to_numpy()
    with plt.rc_context(STYLE):
        figure, (cost_axis, union_axis) = plt.subplots(
            2, 1, figsize=(3.5, 4.2), sharex=True, layout="constrained"
        )
        stages = [s for s in ("verify", "draft", "extend", "other") if f"{s}_ms" in frame]
        cost_axis.stackplot(
            ks,
            *(frame[f"{s}_ms"] for s in stages),
            labels=stages,
            colors=[COLOURS[s] for s in stages],
            alpha=0.55,
            linewidth=0,
        )
        cost_axis.errorbar(
            ks,
            frame["step_ms"],
            yerr=frame["spread_ms"] / 2,
            color="black",
            linewidth=1.2,
            elinewidth=0.5,
            label="C(k), bar = IQR",
        )
        cost_axis.axhline(
            frame["ar_ms"].iloc[0], color="#b03a2e", linestyle="--", linewidth=1, label="plain step"
        )
        cost_axis.set_ylabel("step time (ms)")
        cost_axis.set_ylim(bottom=0)
        cost_axis.legend(fontsize=6.5, ncols=2, loc="lower right")
        cost_axis.set_title(title, fontsize=8)
        union_axis.plot(ks, frame["expert_union"], color="black", label="measured union")
        union_axis.plot(
            ks,
            uniform_union(experts, top_k, ks),
            color="#777777",
            linestyle=":",
            label="uniform routing",
        )
        union_axis.axhline(top_k, color="#b03a2e", linestyle="--", linewidth=1, label="one token")
        union_axis.set_ylabel(f"experts per layer (of {experts})")
        union_axis.set_xlabel("verify length k (nodes, root included)")
        union_axis.set_ylim(bottom=0)
        union_axis.set_xlim(1, ks[-1])
        union_axis.legend(fontsize=6.5, loc="lower right")
    return figure


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

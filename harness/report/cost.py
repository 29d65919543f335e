"""A cost table as a frame and as text: what a step costs at each width, and why it grows."""

from __future__ import annotations

import numpy as np
import pandas as pd

from evict.cost import CostTable

SHOWN = (1, 2, 4, 8, 16, 24, 32)


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


def cost_text(cost: CostTable) -> list[str]:
    """A few widths with their times and unions, C(N)/C(1), C_AR and beta."""
    frame = cost_frame(cost).set_index("k")
    last = cost.draft_tokens
    lines = ["   k   C(k) ms     IQR  C(k)/C(1)  experts per layer"]
    for k in sorted({k for k in SHOWN if k < last} | {last}):
        row = frame.loc[k]
        union = "-" if np.isnan(row["expert_union"]) else f"{row['expert_union']:.1f}"
        lines.append(
            f"{k:4d}  {row['step_ms']:8.2f}  {row['spread_ms']:6.2f}  "
            f"{row['step_ms'] / cost.step_ms[0]:9.2f}  {union:>17}"
        )
    lines.append(
        f"C({last})/C(1) = {cost.step_ms[-1] / cost.step_ms[0]:.2f}, "
        f"C_AR = {cost.ar_ms:.2f} ms, beta = {cost.beta:.2f} (used with method.scores=beta)"
    )
    return lines

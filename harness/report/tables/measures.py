"""Speed and step measures of the pooled runs of one method in one block."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.doubt import COUNTS, TIME, counts_doubt, time_doubt, withheld

STAGES = ("draft", "verify", "extend", "other")


def good_requests(data: Collection, runs: pd.DataFrame) -> pd.DataFrame:
    """Requests of these runs that ended without an error."""
    rows = data.requests[data.requests["run"].isin(set(runs["run"]))]
    return rows[rows["error_class"].isna()]


def own_steps(data: Collection, runs: pd.DataFrame) -> pd.DataFrame:
    """Steps of these runs."""
    return data.steps[data.steps["run"].isin(set(runs["run"]))] if len(data.steps) else data.steps


def speed(data: Collection, runs: pd.DataFrame) -> dict[str, Any]:
    """decode_tokens_per_s, e2e_tokens_per_s and the number of good requests behind them.

    None where trees were recorded, where the runs were made on different machines, and where
    `time_doubt` says that a run is invalid.
    """
    rows = good_requests(data, runs)
    tokens = pd.to_numeric(rows["decode_tokens"]).sum()
    decode_ms, prefill_ms = rows["decode_ms"].sum(), rows["prefill_ms"].sum()
    comparable = is_speed(runs)
    end_to_end = ratio(1e3 * (tokens + len(rows)), decode_ms + prefill_ms)
    speeds = {
        "decode_tokens_per_s": ratio(1e3 * tokens, decode_ms) if comparable else None,
        "e2e_tokens_per_s": end_to_end if comparable else None,
    }
    doubt = time_doubt(runs)
    return {"requests": len(rows), **withheld(doubt, speeds), TIME: doubt}


def is_speed(runs: pd.DataFrame) -> bool:
    """Whether the times of these runs may be pooled and called a speed."""
    machines = runs["machine_hash"]
    return bool(machines.notna().all() and machines.nunique() == 1 and not runs["recorded"].any())


def step_means(data: Collection, runs: pd.DataFrame) -> dict[str, Any]:
    """steps, mat, mean_k, experts_per_layer and each stage's share of the step time.

    Means over steps; None where there is no step, no time (recorded runs, stages that a server
    does not tell: no share), or where `counts_doubt`, for the shares `time_doubt`, is invalid.
    """
    steps = own_steps(data, runs)
    counts, times = counts_doubt(runs), time_doubt(runs)
    doubts = {COUNTS: counts, TIME: times}
    if steps.empty:
        names = ("mat", "mean_k", "experts_per_layer", *(f"{stage}_share" for stage in STAGES))
        return {"steps": 0, **dict.fromkeys(names), **doubts}
    timed = steps.iloc[:0] if runs["recorded"].any() else steps
    shares = {f"{stage}_share": stage_share(timed, stage) for stage in STAGES}
    return {
        "steps": len(steps),
        **withheld(counts, _means(steps)),
        **withheld(times, shares),
    } | doubts


def _means(steps: pd.DataFrame) -> dict[str, Any]:
    union = pd.to_numeric(steps["expert_union"]).dropna()
    return {
        "mat": ratio(steps["committed"].sum(), len(steps)),
        "mean_k": float(steps["verified"].mean()),
        "experts_per_layer": float(union.mean()) if len(union) else None,
    }


def stage_share(steps: pd.DataFrame, stage: str) -> float | None:
    """A stage's time over the whole time of the steps that have both; None where none has."""
    measured = steps[[f"{stage}_ms", "total_ms"]].apply(pd.to_numeric).dropna()
    return ratio(measured[f"{stage}_ms"].sum(), measured["total_ms"].sum())


def ratio(part: float, whole: float) -> float | None:
    """part / whole; None for nothing to divide by."""
    return float(part) / float(whole) if whole else None

"""How fast tokens come at most: the busiest second of any generation."""

from __future__ import annotations

import pandas as pd

from harness.collection import Collection
from harness.latency import Rate, token_rate
from harness.report.tables.measures import good_requests, own_steps

KEY = ["run", "prompt_id", "turn", "repeat"]


def peak_speed(data: Collection, runs: pd.DataFrame) -> float | None:
    """Most committed decode tokens per second in a window of a second or more; at least the mean.

    None where no generation has the time of every step.
    """
    decode_ms = good_requests(data, runs).set_index(KEY)["decode_ms"]
    peaks = [
        rate.peak
        for key, steps in own_steps(data, runs).groupby(KEY, sort=False)
        if (rate := _rate(steps, decode_ms.get(key))) is not None
    ]
    return max(peaks, default=None)


def _rate(steps: pd.DataFrame, decode_ms: float | None) -> Rate | None:
    """Of one generation; its steps lie inside its decode time but for rounding."""
    at_ms = pd.to_numeric(steps["total_ms"]).cumsum().clip(upper=decode_ms)
    if decode_ms is None or at_ms.isna().any():
        return None
    return token_rate(at_ms.tolist(), steps["committed"].tolist(), float(decode_ms))

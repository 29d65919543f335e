"""Whether the machine became slower or faster while runs were measured together."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.stats import t

from harness.records import TOKENLESS
from harness.stats import LEVEL

BLOCKS = 10
SHOWN_PERCENT = 1.0
MS_PER_HOUR = 3.6e6
CELL = ["run", "prompt_id", "turn"]
STAMPS, MEASURED = ["started_ms", "ended_ms"], ["decode_ms", "decode_tokens"]


@dataclass(frozen=True)
class Drift:
    """Change of decode time per token within one part; above 0 the machine became slower.

    over_run, low, high: percent from the first start to the last end, with its 95 % interval.
    generations: those that entered. hours: length of the part.
    """

    part: str
    generations: int
    hours: float
    over_run: float
    low: float
    high: float

    @property
    def per_hour(self) -> float:
        """Percent per hour, in proportion to the whole part."""
        return self.over_run / self.hours

    @property
    def shown(self) -> bool:
        """Whether the interval leaves out 0, and the change is large enough to matter."""
        return not self.low <= 0.0 <= self.high and abs(self.over_run) > SHOWN_PERCENT


def drifts(runs: pd.DataFrame, requests: pd.DataFrame) -> tuple[Drift, ...]:
    """One result per part in which these runs were measured, the largest part first.

    A generation is held against its own repeats, those of the same run, prompt and turn, so that
    what prompt and method cost cancels out, whatever they do to each other; one slope is common
    to all. Repeats of a benchmark lie close together where several were measured, and the
    interval says how little they then tell of the whole part. One repeat tells nothing, and gives
    no result: a prompt's generations lie seconds apart, so a slow prompt and a slow minute look
    alike. Nor is there one where no start was recorded (older runs), no time was measured
    (replays), or trees were kept.
    """
    rows = _timed(runs, requests)
    parts = [str(part) for part in rows["part"].unique()] if len(rows) else []
    found = [_drift(part, rows[rows["part"] == part]) for part in parts]
    return tuple(sorted((one for one in found if one), key=lambda one: -one.generations))


def _timed(runs: pd.DataFrame, requests: pd.DataFrame) -> pd.DataFrame:
    if runs.empty or requests.empty or "started_ms" not in requests:
        return pd.DataFrame()
    speeds = runs.loc[~runs["recorded"].astype(bool), "run"]
    good = requests["run"].isin(speeds) & requests["error_class"].isna()
    rows = requests[good & ~requests["finish_reason"].isin(TOKENLESS)]
    rows = rows.assign(**{name: pd.to_numeric(rows[name]) for name in [*STAMPS, *MEASURED]})
    usable = rows[STAMPS].notna().all(axis=1) & (rows[MEASURED] > 0).all(axis=1)
    return rows[usable].reset_index(drop=True)


def _drift(part: str, rows: pd.DataFrame) -> Drift | None:
    """None where fewer than two generations per block have a repeat."""
    cells = rows.groupby(CELL, sort=False).ngroup().to_numpy()
    rows = rows.assign(cell=cells)[np.bincount(cells)[cells] > 1].sort_values("started_ms")
    if len(rows) < 2 * BLOCKS:
        return None
    starts_R, ends_R = (rows[name].to_numpy() / MS_PER_HOUR for name in STAMPS)
    hours = float(ends_R.max() - starts_R[0])
    logs_R = np.log((rows["decode_ms"] / rows["decode_tokens"]).to_numpy())
    x_R = (starts_R - starts_R[0]) / hours
    slope, half = slope_interval(x_R, logs_R, rows["cell"].to_numpy())
    low, middle, high = (100.0 * math.expm1(one) for one in (slope - half, slope, slope + half))
    return Drift(part, len(rows), hours, middle, low, high)


def slope_interval(x_R: np.ndarray, y_R: np.ndarray, cells_R: np.ndarray) -> tuple[float, float]:
    """Slope of y on x with a level of its own per cell, and the half-width of its interval.

    Rows stand in order of time. Noise is alike within minutes, so the interval comes from leaving
    out one of BLOCKS equal stretches of time after the other (the delete-a-group jackknife), with
    Student's t for so few.
    """
    whole = _slope(x_R, y_R, cells_R)
    blocks_R = np.arange(len(x_R)) * BLOCKS // len(x_R)
    kept = [blocks_R != block for block in range(BLOCKS)]
    left_out = np.array([_slope(x_R[keep], y_R[keep], cells_R[keep]) for keep in kept])
    variance = (BLOCKS - 1) / BLOCKS * float(((left_out - whole) ** 2).sum())
    return whole, float(t.ppf(0.5 + LEVEL / 2, BLOCKS - 1)) * math.sqrt(variance)


def _slope(x_R: np.ndarray, y_R: np.ndarray, cells_R: np.ndarray) -> float:
    """Least squares within cells; 0 where no cell spans any time."""
    counts = np.maximum(np.bincount(cells_R), 1)
    inner_R = x_R - (np.bincount(cells_R, x_R) / counts)[cells_R]
    spread = float((inner_R**2).sum())
    return float((inner_R * y_R).sum()) / spread if spread > 0.0 else 0.0

"""How far draft scores hold as probabilities: ECE, Brier score, bins of a reliability diagram."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from evict.errors import InputError

LEVEL = 0.95
ROUNDING = 1e-6


@dataclass(frozen=True)
class Bin:
    """Nodes whose score lies in [low, high): their mean score and the share that was accepted.

    The last bin includes its upper edge. interval: 95 % Wilson bounds of the rate.
    """

    low: float
    high: float
    mean_score: float
    rate: float
    count: int

    @property
    def interval(self) -> tuple[float, float]:
        """Wilson bounds of `rate` for `count` nodes."""
        return wilson(round(self.rate * self.count), self.count)


def reliability_bins(
    scores: Sequence[float], accepted: Sequence[bool], bins: int = 10
) -> list[Bin]:
    """Equal-width bins over [0, 1] in ascending order; bins without a node are left out.

    scores[i] in [0, 1] was node i's draft score, accepted[i] whether the target kept it. InputError
    for lists of different lengths, scores outside [0, 1] or fewer than one bin.
    """
    return [
        Bin(
            low=b / bins,
            high=(b + 1) / bins,
            mean_score=float(score.mean()),
            rate=float(hit.mean()),
            count=len(score),
        )
        for b, score, hit in _binned(scores, accepted, bins)
    ]


def expected_calibration_error(
    scores: Sequence[float], accepted: Sequence[bool], bins: int = 10
) -> float:
    """ECE over equal-width bins: sum of |mean score - acceptance rate| weighted by bin size."""
    found = reliability_bins(scores, accepted, bins)
    return sum(b.count * abs(b.mean_score - b.rate) for b in found) / max(1, len(scores))


def brier_score(scores: Sequence[float], accepted: Sequence[bool]) -> float:
    """Mean squared difference of score and outcome; NaN without a node."""
    score, hit = _arrays(scores, accepted)
    return float(np.mean((score - hit) ** 2)) if len(score) else math.nan


def wilson(hits: int, count: int, level: float = LEVEL) -> tuple[float, float]:
    """Wilson score interval of a proportion: inside [0, 1] and sensible at 0 and 1 hits too."""
    if not 0 <= hits <= count or count == 0:
        raise InputError("hits of a proportion", seen=(hits, count), allowed="0..count, count >= 1")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate, shrink = hits / count, 1.0 + z * z / count
    centre = (rate + z * z / (2 * count)) / shrink
    half = z * math.sqrt(rate * (1 - rate) / count + (z / (2 * count)) ** 2) / shrink
    low = 0.0 if hits == 0 else centre - half
    return low, 1.0 if hits == count else centre + half


def _binned(
    scores: Sequence[float], accepted: Sequence[bool], bins: int
) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    if bins < 1:
        raise InputError("bins of a reliability diagram", seen=bins, allowed=">= 1", hint="bins=10")
    score, hit = _arrays(scores, accepted)
    index = np.clip((score * bins).astype(int), 0, bins - 1)
    for b in np.unique(index):
        chosen = index == b
        yield int(b), score[chosen], hit[chosen]


def _arrays(scores: Sequence[float], accepted: Sequence[bool]) -> tuple[np.ndarray, np.ndarray]:
    score, hit = np.asarray(scores, dtype=float), np.asarray(accepted, dtype=float)
    if score.shape != hit.shape:
        raise InputError("one verdict per score", seen=(len(score), len(hit)))
    outside = score[~((score >= -ROUNDING) & (score <= 1.0 + ROUNDING))]
    if len(outside):
        raise InputError("draft score is no probability", seen=float(outside[0]), allowed="0..1")
    return score, hit

"""A drafter that may doubt too much: a sharpness per temperature, a difficulty per benchmark."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd
from scipy.optimize import brentq

from evict.growth import FixedDepth
from harness.simulate.acceptance import Draws, Spread, grow_batch, propose
from harness.simulate.difficulty import MatCurve

Group = tuple[str, float]
SHARPNESS = (0.7, 2.0)
PRECISION = 0.01


@dataclass(frozen=True)
class FittedDrafter:
    """spreads: by temperature. difficulties: by (benchmark, temperature)."""

    spreads: Mapping[float, Spread]
    difficulties: Mapping[Group, float]

    def of(self, group: Group) -> tuple[Spread, float]:
        """The drafter of one benchmark at one temperature."""
        return self.spreads[group[1]], self.difficulties[group]


def fit_drafter(
    read: pd.DataFrame, spread: Spread, draws: Draws, tree: FixedDepth, draft_tokens: int
) -> FittedDrafter:
    """read: whole trees' `mat` and the drafter's own expectation `expected`, by (benchmark, T).

    At temperature 0 a node is accepted when it is the target's best token, not with its
    probability; one sharpness per temperature makes Mats and expectations agree on average.
    """
    spreads: dict[float, Spread] = {}
    difficulties: dict[Group, float] = {}
    for temperature, rows in read.groupby(level=1):
        fitted = _sharpness(rows, spread, draws, tree, draft_tokens)
        curve = MatCurve.make(draws, fitted, tree.steps, draft_tokens)
        spreads[float(cast(float, temperature))] = fitted
        for group, mat in rows["mat"].items():
            difficulties[cast(Group, group)] = curve.find(float(mat))
    return FittedDrafter(spreads, difficulties)


def _sharpness(
    rows: pd.DataFrame, spread: Spread, draws: Draws, tree: FixedDepth, draft_tokens: int
) -> Spread:
    wanted = float(rows["expected"].mean())

    def excess(sharpness: float) -> float:
        tried = replace(spread, sharpness=sharpness)
        curve = MatCurve.make(draws, tried, tree.steps, draft_tokens)
        found = [curve.find(float(mat)) for mat in rows["mat"]]
        trees = [grow_batch(propose(draws, tried, d), tree.steps, draft_tokens) for d in found]
        return float(np.mean([t.expected_SN()[:, -1].mean() for t in trees])) - wanted

    low, high = SHARPNESS
    if excess(low) <= 0 or excess(high) >= 0:
        return spread
    return replace(spread, sharpness=float(brentq(excess, low, high, xtol=PRECISION)))

"""What a draft score is worth: a monotone map, per depth, from score to acceptance rate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from evict.errors import InputError
from evict.tree import DraftTree

GRID = 65
FEWEST_POINTS = 50

Array = NDArray[np.float64]
Row = tuple[float, ...]


def knots() -> Array:
    """Scores at which a map is tabulated, float64 [GRID] on 0..1, uniform in their square root."""
    return np.linspace(0.0, 1.0, GRID) ** 2


@dataclass(frozen=True, slots=True)
class ScoreMap:
    """Acceptance probabilities at the `knots`, one row per depth from 1 on.

    table_DG: D >= 1 rows of GRID numbers in 0..1 that never fall; InputError for any other table.
    """

    table_DG: tuple[Row, ...]

    def __post_init__(self) -> None:
        if not isinstance(self.table_DG, tuple) or not self.table_DG:
            raise InputError(
                "score map without rows", seen=repr(self.table_DG), allowed="a row for each depth"
            )
        rows = tuple(_checked(row, depth) for depth, row in enumerate(self.table_DG, start=1))
        object.__setattr__(self, "table_DG", rows)

    @staticmethod
    def fit(scores: ArrayLike, depths: ArrayLike, accepted: ArrayLike) -> ScoreMap:
        """Isotonic regression of `accepted` on `scores`, for each depth on its own.

        scores: [M] in 0..1; depths: [M], 1 for a child of the root; accepted: [M], 0 or 1, whether
        the target took the node, for nodes whose fate is known. A depth with fewer than
        FEWEST_POINTS nodes gets the map of all nodes together. Between two fitted scores the map
        is linear, outside them constant. Raises InputError for other values or unequal lengths.
        """
        scores_M, depths_M, accepted_M = _points(scores, depths, accepted)
        pooled = _row(scores_M, accepted_M)
        rows = []
        for depth in range(1, int(depths_M.max()) + 1):
            here = depths_M == depth
            few = np.count_nonzero(here) < FEWEST_POINTS
            rows.append(pooled if few else _row(scores_M[here], accepted_M[here]))
        return ScoreMap(tuple(rows))

    def apply(self, scores_N: Tensor, depths_N: Tensor) -> Tensor:
        """Acceptance probability of each node, float32 [N]; 1 for the root, whose depth is 0.

        scores_N: float32 [N]; depths_N: int64 [N], where depths below the last row share it.
        Linear in the score between two knots. Tensor operations only; the first call on a device
        copies the table there.
        """
        table_DG, knots_G = _tensors(self.table_DG, scores_N.device)
        row_N = depths_N.clamp(1, table_DG.shape[0]) - 1
        scores = scores_N.double()
        low_N = (scores.sqrt() * (GRID - 1)).long().clamp(0, GRID - 2)
        low, high = knots_G[low_N], knots_G[low_N + 1]
        share_N = ((scores - low) / (high - low)).clamp(0.0, 1.0)
        rates_N = torch.lerp(table_DG[row_N, low_N], table_DG[row_N, low_N + 1], share_N)
        return torch.where(depths_N == 0, 1.0, rates_N).float()

    def expected(self, tree: DraftTree) -> Tensor:
        """S_N, float32 [N], from mapped scores, in the tree's own order.

        Prefixes stay those of the draft scores, hence closed: the map moves k and nothing else.
        """
        return self.apply(tree.scores_N, tree.depths_N).cumsum(0)

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {"table_DG": [list(row) for row in self.table_DG]}

    @staticmethod
    def from_dict(document: object) -> ScoreMap:
        """The map that `to_dict` wrote; InputError for anything else."""
        if not isinstance(document, Mapping) or set(document) != {"table_DG"}:
            raise InputError("not a score map", seen=repr(document)[:80], allowed="{table_DG: ...}")
        rows = document["table_DG"]
        if not isinstance(rows, list) or not all(isinstance(row, list) for row in rows):
            raise InputError(
                "score map: table_DG is no table", seen=repr(rows)[:80], allowed="a list of lists"
            )
        return ScoreMap(tuple(tuple(row) for row in rows))


@lru_cache(maxsize=32)
def _tensors(table_DG: tuple[Row, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    table = torch.tensor(table_DG, dtype=torch.float64, device=device)
    return table, torch.tensor(knots(), dtype=torch.float64, device=device)


def _checked(row: tuple[Any, ...], depth: int) -> Row:
    numbers = isinstance(row, tuple) and all(type(value) in (int, float) for value in row)
    if not numbers or len(row) != GRID:
        raise InputError(
            f"score map: row of depth {depth}", seen=repr(row)[:80], allowed=f"{GRID} numbers"
        )
    for low, high in zip((0.0, *row), (*row, 1.0), strict=True):
        if not low <= high:
            raise InputError(
                f"score map: row of depth {depth} leaves 0..1 or falls",
                seen=f"{low} before {high}",
                allowed="numbers in 0..1 that never fall",
            )
    return tuple(float(value) for value in row)


def _points(
    scores: ArrayLike, depths: ArrayLike, accepted: ArrayLike
) -> tuple[Array, NDArray[np.int64], Array]:
    scores_M = np.asarray(scores, dtype=np.float64)
    depths_M, accepted_M = np.asarray(depths), np.asarray(accepted, dtype=np.float64)
    shapes = [scores_M.shape, depths_M.shape, accepted_M.shape]
    if scores_M.ndim != 1 or not len(scores_M) or len(set(shapes)) > 1:
        raise InputError(
            "points to fit a score map to", seen=shapes, allowed="three lists of M >= 1 values"
        )
    for name, values, good, allowed in (
        ("score", scores_M, (scores_M >= 0) & (scores_M <= 1), "0..1"),
        ("depth", depths_M, (depths_M >= 1) & (depths_M % 1 == 0), "1, 2, ..."),
        ("accepted", accepted_M, (accepted_M == 0) | (accepted_M == 1), "0 or 1"),
    ):
        if not good.all():
            raise InputError(f"{name} of a node", seen=values[~good][0], allowed=allowed)
    return scores_M, depths_M.astype(np.int64), accepted_M


def _row(scores_M: Array, accepted_M: Array) -> Row:
    """Isotonic rates at the knots; nodes with one score count as one point of their weight."""
    from scipy.optimize import isotonic_regression

    distinct, group_M, weights = np.unique(scores_M, return_inverse=True, return_counts=True)
    rates = np.bincount(group_M, weights=accepted_M) / weights
    fitted = isotonic_regression(rates, weights=weights).x
    row = np.interp(knots(), distinct, fitted)
    return tuple(np.maximum.accumulate(row).clip(0.0, 1.0).tolist())

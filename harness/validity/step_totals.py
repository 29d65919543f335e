"""What the steps of each run add up to, and which of them cannot be true; one pass for all runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from harness.validity.limits import LIMITS

NONE = (0, 0)
PLACE = ["run", "prompt_id", "turn", "repeat"]


@dataclass(frozen=True)
class OddStep:
    """The first of `count` steps that cannot be true, with its counts; verified with its root."""

    count: int
    step: int
    drafted: int
    verified: int
    accepted: int
    union: float


@dataclass(frozen=True)
class StepTotals:
    """Sums over the steps of one run; drafted and accepted count draft nodes, verified the root.

    impossible: not accepted < verified <= drafted + 1. outside: an expert union that this many
    tokens cannot have. longest: nodes of the largest verified tree, root included.
    """

    steps: int = 0
    verified: int = 0
    committed: int = 0
    longest: int = 0
    impossible: OddStep | None = None
    outside: OddStep | None = None

    @property
    def mat(self) -> float | None:
        """Committed tokens per step; None without a step."""
        return self.committed / self.steps if self.steps else None


def step_totals(
    steps: pd.DataFrame, experts: Mapping[str, tuple[int, int]]
) -> dict[str, StepTotals]:
    """Totals by run. experts: experts per layer and per token of each run, (0, 0) for none."""
    if steps.empty:
        return {}
    codes_S, names = pd.factorize(steps["run"])
    sums = {name: np.bincount(codes_S, steps[name]) for name in ("verified", "committed")}
    longest_R = np.zeros(len(names), dtype=int)
    np.maximum.at(longest_R, codes_S, steps["verified"].to_numpy())
    experts_R = [experts.get(str(name), NONE) for name in names]
    impossible = _first(steps, codes_S, _impossible(steps))
    outside = _first(steps, codes_S, _outside(steps, codes_S, experts_R))
    return {
        str(name): StepTotals(
            steps=int(count),
            verified=int(sums["verified"][code]),
            committed=int(sums["committed"][code]),
            longest=int(longest_R[code]),
            impossible=impossible.get(code),
            outside=outside.get(code),
        )
        for code, (name, count) in enumerate(zip(names, np.bincount(codes_S), strict=True))
    }


def _impossible(steps: pd.DataFrame) -> np.ndarray:
    accepted, verified, drafted = (
        steps[name].to_numpy() for name in ("accepted", "verified", "drafted")
    )
    return ~((accepted >= 0) & (accepted < verified) & (verified <= drafted + 1))


def _outside(
    steps: pd.DataFrame, codes_S: np.ndarray, experts_R: list[tuple[int, int]]
) -> np.ndarray:
    all_S, top_k_S = np.array(experts_R)[codes_S].T
    union_S = pd.to_numeric(steps["expert_union"]).to_numpy(dtype=float)
    highest_S = np.minimum(all_S, top_k_S * steps["verified"].to_numpy())
    slack = LIMITS.union_rounding_experts
    within_S = (union_S >= top_k_S - slack) & (union_S <= highest_S + slack)
    found: np.ndarray = (all_S > 0) & ~np.isnan(union_S) & ~within_S
    return found


def _first(steps: pd.DataFrame, codes_S: np.ndarray, odd_S: np.ndarray) -> dict[int, OddStep]:
    places = np.flatnonzero(odd_S)
    codes, firsts, counts = np.unique(codes_S[places], return_index=True, return_counts=True)
    found = {}
    for code, first, count in zip(codes, places[firsts], counts, strict=True):
        row = steps.iloc[int(first)]
        union = row["expert_union"]
        found[int(code)] = OddStep(
            count=int(count),
            step=int(row["step"]),
            drafted=int(row["drafted"]),
            verified=int(row["verified"]),
            accepted=int(row["accepted"]),
            union=float("nan" if union is None else union),
        )
    return found


def tokens_by_request(requests: pd.DataFrame, steps: pd.DataFrame) -> np.ndarray:
    """Committed tokens that each request's steps add up to, row by row; NaN without a step."""
    if steps.empty or requests.empty:
        return np.full(len(requests), np.nan)
    sums = steps.groupby(PLACE, sort=False)["committed"].sum().reset_index()
    joined = requests[PLACE].merge(sums, on=PLACE, how="left")
    return joined["committed"].to_numpy(dtype=float)

"""What a perfect choice of verify lengths would have earned, in hindsight."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evict.errors import InputError


def best_rate(committed_SN: ArrayLike, cost_N: ArrayLike) -> tuple[float, NDArray[np.int64]]:
    """The largest total committed / total cost over all choices of one k per step, and the choice.

    committed_SN: float [S, N], tokens that step s commits when k nodes are verified (column k - 1);
    nan where the step's tree has fewer than k nodes. cost_N: float [N], C(k) > 0 in any unit.
    Returns tokens per unit of cost and one k_S, int64 [S], that earns it. Exact: Dinkelbach's
    iteration. At a given rate the best choice separates into argmax_k(committed - rate * C(k))
    for each step; the rate of that choice is the next one, until it no longer rises.

    This bounds the total rate of every policy on these steps. Taking the best ratio of each step
    by itself, argmax_k committed / C(k), does not: a long step with many tokens may be worth more
    than its own ratio says when other steps are poor.
    Raises InputError for other shapes, costs that are no times, or a step without k = 1.
    """
    committed, cost = _checked(committed_SN, cost_N)
    offered = np.where(np.isnan(committed), -np.inf, committed)
    steps = np.arange(len(committed))
    best = np.zeros(len(committed), dtype=np.int64)
    rate = _rate(committed, cost, steps, best)
    while True:
        choice = (offered - rate * cost).argmax(axis=1)
        risen = _rate(committed, cost, steps, choice)
        if not risen > rate:
            return rate, best + 1
        rate, best = risen, choice


def _rate(
    committed: NDArray[np.float64],
    cost: NDArray[np.float64],
    steps: NDArray[np.int64],
    choice: NDArray[np.int64],
) -> float:
    return float(committed[steps, choice].sum() / cost[choice].sum())


def _checked(
    committed_SN: ArrayLike, cost_N: ArrayLike
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    committed = np.asarray(committed_SN, dtype=np.float64)
    cost = np.asarray(cost_N, dtype=np.float64)
    if committed.ndim != 2 or not committed.size or cost.shape != committed.shape[1:]:
        raise InputError(
            "committed tokens and costs",
            seen=f"{committed.shape} and {cost.shape}",
            allowed="[S, N] and [N] with S, N >= 1",
        )
    wrong = ~(np.isfinite(cost) & (cost > 0))
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(f"cost at k={at + 1}", seen=cost[at], allowed="a finite number > 0")
    bad = ~(np.isnan(committed) | (np.isfinite(committed) & (committed >= 0)))
    bad[:, 0] |= np.isnan(committed[:, 0])
    if bad.any():
        step, at = (int(i) for i in np.argwhere(bad)[0])
        raise InputError(
            f"committed tokens of step {step} at k={at + 1}",
            seen=committed[step, at],
            allowed="a finite number >= 0, or nan where k > 1 exceeds the tree",
        )
    return committed, cost

"""How a draft tree grows: level by level, the best nodes of a level are expanded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, cast

import torch
from torch import Tensor

from evict.errors import InputError
from evict.tree import Candidates, stable_order


class Drafter(Protocol):
    """A draft model in the middle of one step; it keeps its own hidden states and cache."""

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        """Best children of the root: target ids int64 [1, topk], log-probabilities [1, topk]."""
        ...

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        """Best children of each frontier node: target ids [W, topk], log-probabilities [W, topk].

        tokens_W: int64 [W], the frontier. rows_W: int64 [W], for each of them the index of its
        parent in the frontier of the previous call (all 0 after `first`: the root).
        """
        ...


class Growth(Protocol):
    """A rule that turns a drafter's proposals into candidates."""

    @property
    def capacity(self) -> int:
        """Most candidates that one step can create."""
        ...

    def grow(self, drafter: Drafter) -> Candidates:
        """Run the drafter for one step."""
        ...


@dataclass(frozen=True, slots=True)
class FixedDepth:
    """EAGLE-2/3 growth: `steps` levels, `topk` nodes expanded per level (arXiv 2503.01840).

    Level 1 is the drafter's first call; `steps` counts levels below the root.
    """

    steps: int
    topk: int

    def __post_init__(self) -> None:
        check_shape(self.steps, self.topk)

    @property
    def capacity(self) -> int:
        return level_capacity(self.steps, self.topk)

    def keep_growing(self, depth: int, frontier_log_scores_W: Tensor) -> bool:
        return True

    def grow(self, drafter: Drafter) -> Candidates:
        return grow_levels(drafter, self.steps, self.topk, self.keep_growing)


@dataclass(frozen=True, slots=True)
class DynamicDepth:
    """DDD growth (arXiv 2409.00142): deeper only while the nodes to expand are likely enough.

    The levels are those of FixedDepth(steps, topk). After each depth in `check_depths`, growth
    stops when the log of the frontier's summed path probabilities is below `threshold`; -inf
    never stops. Each check reads one number back from the device. The paper checks at few depths
    for that reason, and gives no threshold.
    Raises InputError for a depth outside 1..steps - 1 or a threshold above 0.
    """

    steps: int
    topk: int
    threshold: float
    check_depths: Sequence[int]

    def __post_init__(self) -> None:
        check_shape(self.steps, self.topk)
        object.__setattr__(self, "threshold", _log_mass(self.threshold))
        object.__setattr__(self, "check_depths", _depths(self.check_depths, self.steps - 1))

    @property
    def capacity(self) -> int:
        return level_capacity(self.steps, self.topk)

    def keep_growing(self, depth: int, frontier_log_scores_W: Tensor) -> bool:
        if depth not in self.check_depths:
            return True
        return bool(frontier_log_scores_W.logsumexp(0) >= self.threshold)

    def grow(self, drafter: Drafter) -> Candidates:
        return grow_levels(drafter, self.steps, self.topk, self.keep_growing)


def check_shape(steps: int, topk: int) -> None:
    """Raise InputError unless there is at least one level of at least one node."""
    for name, value in (("steps", steps), ("topk", topk)):
        if value < 1:
            raise InputError(f"{name} of a draft tree", seen=value, allowed=">= 1")


def level_capacity(steps: int, topk: int) -> int:
    """Candidates of `steps` full levels: topk at depth 1, topk^2 at every deeper one."""
    return topk + (steps - 1) * topk**2


def grow_levels(
    drafter: Drafter,
    steps: int,
    topk: int,
    keep_growing: Callable[[int, Tensor], bool],
) -> Candidates:
    """Grow at most `steps` levels; every child of an expanded node becomes a candidate.

    keep_growing(depth, frontier_log_scores_W) is asked after each level but the last, with the
    levels grown so far and the cumulative log-scores of the nodes to be expanded next.
    """
    tokens, log_probs = drafter.first(topk)
    levels = [_level(tokens, log_probs, tokens.new_full((1,), -1), log_probs.new_zeros(1), 1)]
    first_index = 0
    for depth in range(2, steps + 1):
        last = levels[-1]
        frontier_W = stable_order(last.log_scores_M)[:topk]
        scores_W = last.log_scores_M.index_select(0, frontier_W)
        if not keep_growing(depth - 1, scores_W):
            break
        rows_W = frontier_W.div(tokens.shape[1], rounding_mode="floor")
        tokens, log_probs = drafter.expand(last.tokens_M.index_select(0, frontier_W), rows_W, topk)
        levels.append(_level(tokens, log_probs, frontier_W + first_index, scores_W, depth))
        first_index += last.tokens_M.shape[0]
    return _join(levels)


def _level(
    tokens_Wt: Tensor, log_probs_Wt: Tensor, parents_W: Tensor, scores_W: Tensor, depth: int
) -> Candidates:
    # A log-probability above 0 by rounding would let a child outrank its parent.
    scores_Wt = scores_W.float().unsqueeze(1) + log_probs_Wt.float().clamp(max=0.0)
    parents_M = parents_W.unsqueeze(1).expand_as(tokens_Wt).flatten()
    return Candidates(
        tokens_M=tokens_Wt.flatten(),
        parents_M=parents_M,
        depths_M=torch.full_like(parents_M, depth),
        log_scores_M=scores_Wt.flatten(),
    )


def _join(levels: list[Candidates]) -> Candidates:
    return Candidates(
        tokens_M=torch.cat([level.tokens_M for level in levels]),
        parents_M=torch.cat([level.parents_M for level in levels]),
        depths_M=torch.cat([level.depths_M for level in levels]),
        log_scores_M=torch.cat([level.log_scores_M for level in levels]),
    )


def _log_mass(threshold: object) -> float:
    if type(threshold) not in (int, float) or not cast(float, threshold) <= 0:
        raise InputError(
            "threshold of dynamic depth: log of a summed probability",
            seen=repr(threshold),
            allowed="a number <= 0, or -.inf to never stop",
            hint="method.growth.threshold=-1.0",
        )
    return float(cast(float, threshold))


def _depths(check_depths: object, deepest: int) -> tuple[int, ...]:
    depths = tuple(check_depths) if isinstance(check_depths, Sequence) else (None,)
    if not all(type(depth) is int and 1 <= depth <= deepest for depth in depths):
        raise InputError(
            "check_depths of dynamic depth: levels after which growth may stop",
            seen=repr(check_depths),
            allowed=f"whole numbers in 1..{deepest}" if deepest else "none: there is one level",
            hint=f"method.growth.check_depths=[{deepest}]" if deepest else "raise steps",
        )
    return tuple(sorted(set(depths)))

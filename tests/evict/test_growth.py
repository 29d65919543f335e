"""A fixed-depth tree expands the best nodes of each level and records every child."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
import torch
from torch import Tensor

from evict.errors import InputError
from evict.growth import FixedDepth, grow_levels
from evict.tree import DraftTree


@dataclass
class TableDrafter:
    """Draws log-probabilities from a function of the path, and tracks paths through rows_W."""

    seed: int = 0
    vocabulary: int = 16
    log_prob: float | None = None
    frontier: list[tuple[int, ...]] = field(default_factory=list)
    frontiers: list[list[tuple[int, ...]]] = field(default_factory=list)

    def children(self, path: tuple[int, ...], topk: int) -> tuple[list[int], list[float]]:
        if self.log_prob is not None:
            return list(range(topk)), [self.log_prob] * topk
        generator = torch.Generator().manual_seed(hash((self.seed, *path)) % 2**31)
        best = torch.randn(self.vocabulary, generator=generator).log_softmax(0).topk(topk)
        return best.indices.tolist(), best.values.tolist()

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        self.frontier = [()]
        tokens, log_probs = self.children((), topk)
        return torch.tensor([tokens]), torch.tensor([log_probs])

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        pairs = zip(rows_W.tolist(), tokens_W.tolist(), strict=True)
        self.frontier = [(*self.frontier[row], token) for row, token in pairs]
        self.frontiers.append(self.frontier)
        tokens, log_probs = zip(*(self.children(p, topk) for p in self.frontier), strict=True)
        return torch.tensor(tokens), torch.tensor(log_probs)


def reference_growth(
    drafter: TableDrafter, steps: int, topk: int
) -> tuple[list[tuple[int, ...]], list[int], list[float]]:
    """Paths, parents and cumulative log-scores, in creation order, by plain loops."""
    paths: list[tuple[int, ...]] = []
    parents: list[int] = []
    scores: list[float] = []
    frontier = [-1]
    for _ in range(steps):
        created: list[int] = []
        for parent in frontier:
            path, score = ((), 0.0) if parent < 0 else (paths[parent], scores[parent])
            for token, log_p in zip(*drafter.children(path, topk), strict=True):
                created.append(len(paths))
                paths.append((*path, token))
                parents.append(parent)
                scores.append(score + log_p)
        frontier = sorted(created, key=lambda i: (-scores[i], i))[:topk]
    return paths, parents, scores


@pytest.mark.parametrize(("steps", "topk"), [(1, 1), (1, 4), (2, 3), (4, 1), (3, 4), (4, 8)])
@pytest.mark.parametrize("seed", [0, 1])
def test_growth_equals_plain_loops(steps: int, topk: int, seed: int) -> None:
    candidates = FixedDepth(steps, topk).grow(TableDrafter(seed))
    paths, parents, scores = reference_growth(TableDrafter(seed), steps, topk)
    assert candidates.tokens_M.tolist() == [path[-1] for path in paths]
    assert candidates.parents_M.tolist() == parents
    assert candidates.depths_M.tolist() == [len(path) for path in paths]
    assert candidates.log_scores_M.dtype == torch.float32
    assert candidates.log_scores_M.tolist() == pytest.approx(scores, abs=1e-5)


def test_frontier_rows_name_parents_in_the_previous_frontier() -> None:
    """The drafter rebuilds each path from rows alone; they are the paths of the reference."""
    drafter = TableDrafter(3)
    FixedDepth(4, 3).grow(drafter)
    paths, _, scores = reference_growth(TableDrafter(3), 4, 3)
    assert len(drafter.frontiers) == 3
    for depth, frontier in enumerate(drafter.frontiers, start=1):
        level = [i for i, path in enumerate(paths) if len(path) == depth]
        best = sorted(level, key=lambda i: (-scores[i], i))[:3]
        assert frontier == [paths[i] for i in best]


@pytest.mark.parametrize(("steps", "topk", "capacity"), [(1, 8, 8), (4, 8, 200), (5, 1, 5)])
def test_capacity_is_what_full_growth_creates(steps: int, topk: int, capacity: int) -> None:
    growth = FixedDepth(steps, topk)
    assert growth.capacity == capacity
    assert growth.grow(TableDrafter()).tokens_M.shape == (capacity,)


@pytest.mark.parametrize("log_prob", [0.0, -0.7, float("-inf"), 1e-6])
def test_ties_and_rounding_above_one_leave_every_prefix_closed(log_prob: float) -> None:
    candidates = FixedDepth(4, 4).grow(TableDrafter(log_prob=log_prob))
    for draft_tokens in range(1, candidates.tokens_M.shape[0] + 2):
        assert DraftTree.build(0, candidates, draft_tokens).is_closed()


@pytest.mark.parametrize(("dtype", "log_p"), [(torch.float16, -2.37), (torch.bfloat16, -2.36)])
def test_half_precision_log_probs_add_up_in_float32(dtype: torch.dtype, log_p: float) -> None:
    """Three times each value cannot be held in its own precision."""

    class Half(TableDrafter):
        def first(self, topk: int) -> tuple[Tensor, Tensor]:
            tokens, log_probs = super().first(topk)
            return tokens, log_probs.to(dtype)

        def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
            tokens, log_probs = super().expand(tokens_W, rows_W, topk)
            return tokens, log_probs.to(dtype)

    scores = FixedDepth(3, 2).grow(Half(log_prob=log_p)).log_scores_M
    one = float(torch.tensor(log_p, dtype=dtype))
    assert scores.dtype == torch.float32
    assert scores[-1].item() == pytest.approx(3 * one, abs=1e-6)


def test_a_rule_may_stop_growth_early() -> None:
    asked: list[tuple[int, int]] = []

    def stop_after_two(depth: int, frontier_log_scores_W: Tensor) -> bool:
        asked.append((depth, frontier_log_scores_W.shape[0]))
        assert frontier_log_scores_W.tolist() == sorted(
            frontier_log_scores_W.tolist(), reverse=True
        )
        return depth < 2

    candidates = grow_levels(TableDrafter(), 5, 3, stop_after_two)
    assert asked == [(1, 3), (2, 3)]
    assert candidates.depths_M.max() == 2
    assert candidates.tokens_M.shape == (3 + 9,)


@pytest.mark.parametrize(("steps", "topk", "name"), [(0, 8, "steps"), (4, 0, "topk")])
def test_empty_shapes_are_refused(steps: int, topk: int, name: str) -> None:
    with pytest.raises(InputError, match=f"{name}.*seen: 0; allowed: >= 1"):
        FixedDepth(steps, topk)

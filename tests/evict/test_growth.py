"""A fixed-depth tree expands the best nodes of each level and records every child."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth, grow_levels
from evict.tree import Candidates, DraftTree


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


def same(left: Candidates, right: Candidates) -> bool:
    names = ("tokens_M", "parents_M", "depths_M", "log_scores_M")
    return all(torch.equal(getattr(left, name), getattr(right, name)) for name in names)


def depth_of(candidates: Candidates) -> int:
    return int(candidates.depths_M.max())


@given(
    st.integers(0, 50),
    st.lists(st.integers(1, 4), max_size=4),
    st.floats(-6.0, 0.0) | st.just(-math.inf),
)
@settings(max_examples=60, deadline=None)
def test_dynamic_depth_stops_where_the_mass_first_falls_below(
    seed: int, check_depths: list[int], threshold: float
) -> None:
    """Frontier masses come from plain loops over the drafter's table, not from the growth."""
    paths, _, scores = reference_growth(TableDrafter(seed), 5, 3)
    masses = {}
    for depth in range(1, 5):
        level = [scores[i] for i, path in enumerate(paths) if len(path) == depth]
        masses[depth] = math.log(sum(math.exp(s) for s in sorted(level, reverse=True)[:3]))
    below = [d for d in sorted(check_depths) if masses[d] < threshold]
    near = [d for d in check_depths if abs(masses[d] - threshold) < 1e-5]
    candidates = DynamicDepth(5, 3, threshold, check_depths).grow(TableDrafter(seed))
    if not near:
        assert depth_of(candidates) == (below[0] if below else 5)
    whole = FixedDepth(5, 3).grow(TableDrafter(seed))
    kept = whole.depths_M <= depth_of(candidates)
    assert candidates.tokens_M.tolist() == whole.tokens_M[kept].tolist()
    assert candidates.log_scores_M.tolist() == whole.log_scores_M[kept].tolist()


@pytest.mark.parametrize("check_depths", [[1], [2], [3], [2, 3]])
def test_a_halving_mass_stops_at_the_first_check_below(check_depths: list[int]) -> None:
    """Two children of 1/4 each halve the frontier's mass: 1/2, 1/4 (2 of 4 kept: 1/8), ..."""
    masses = {1: 0.5, 2: 2 / 16, 3: 2 / 64}
    for threshold in (0.3, 0.1, 0.01):
        growth = DynamicDepth(4, 2, math.log(threshold), check_depths)
        stops = [depth for depth in check_depths if masses[depth] < threshold]
        candidates = growth.grow(TableDrafter(log_prob=math.log(0.25)))
        assert depth_of(candidates) == (stops[0] if stops else 4)


@pytest.mark.parametrize("log_prob", [None, -math.inf, -2.0])
def test_a_threshold_of_minus_infinity_is_fixed_depth(log_prob: float | None) -> None:
    growth = DynamicDepth(5, 3, -math.inf, [1, 2, 3, 4])
    whole = FixedDepth(5, 3)
    left, right = (g.grow(TableDrafter(4, log_prob=log_prob)) for g in (growth, whole))
    assert same(left, right)
    assert growth.capacity == whole.capacity == len(right.tokens_M)


@pytest.mark.parametrize("first", [1, 2, 3])
def test_a_threshold_of_zero_stops_at_the_first_check(first: int) -> None:
    candidates = DynamicDepth(5, 3, 0, [first, 4]).grow(TableDrafter())
    assert depth_of(candidates) == first


def test_certain_drafts_are_followed_to_the_end() -> None:
    """Their mass is 1, and its log is not below the largest threshold there is."""
    assert depth_of(DynamicDepth(4, 1, 0.0, [1, 2, 3]).grow(TableDrafter(log_prob=0.0))) == 4


def test_growth_is_a_value_whatever_sequence_named_the_depths() -> None:
    """Cost tables are keyed by the growth's text: the same rule must read the same."""
    listed, tupled = DynamicDepth(5, 3, -1, [3, 1, 3]), DynamicDepth(5, 3, -1.0, (1, 3))
    assert listed == tupled
    assert hash(listed) == hash(tupled)
    assert repr(listed) == repr(tupled)
    assert listed.check_depths == (1, 3)


@pytest.mark.parametrize("check_depths", [[0], [4], [1, 5], [True], [1.0], "12", 2, None])
def test_check_depths_outside_the_tree_are_refused(check_depths: object) -> None:
    with pytest.raises(InputError, match=r"check_depths.*whole numbers in 1\.\.3") as caught:
        DynamicDepth(4, 8, -1.0, check_depths)  # type: ignore[arg-type]
    assert caught.value.seen == repr(check_depths)


def test_a_single_level_has_no_depth_to_check() -> None:
    assert DynamicDepth(1, 8, -1.0, []).capacity == 8
    with pytest.raises(InputError, match="raise steps"):
        DynamicDepth(1, 8, -1.0, [1])


@pytest.mark.parametrize("threshold", [1e-9, math.inf, math.nan, True, "-1", None])
def test_a_threshold_above_zero_is_refused(threshold: object) -> None:
    with pytest.raises(InputError, match=r"threshold.*<= 0.*threshold=-1\.0"):
        DynamicDepth(4, 8, threshold, [1])  # type: ignore[arg-type]


def test_dynamic_depth_checks_its_shape_first() -> None:
    with pytest.raises(InputError, match=r"steps.*seen: 0"):
        DynamicDepth(0, 8, -1.0, [])

"""A draft tree is ordered so that every prefix is a tree, and knows its ancestors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from evict import tree as tree_module
from evict.errors import InputError
from evict.tree import Candidates, DraftTree

PROBABILITIES = st.one_of(
    st.sampled_from([0.0, 1.0, 1e-30, 0.5]), st.floats(0.0, 1.0, allow_nan=False)
)


def make_candidates(parents: list[int], probabilities: list[float]) -> Candidates:
    """Candidate i has token 100 + i; scores add up in float32 as a drafter's would."""
    log_scores: list[np.float32] = []
    depths: list[int] = []
    for parent, probability in zip(parents, probabilities, strict=True):
        log_p = np.float32(math.log(probability) if probability > 0 else -math.inf)
        log_scores.append(log_p if parent < 0 else log_scores[parent] + log_p)
        depths.append(1 if parent < 0 else depths[parent] + 1)
    return Candidates(
        tokens_M=torch.arange(100, 100 + len(parents)),
        parents_M=torch.tensor(parents, dtype=torch.int64),
        depths_M=torch.tensor(depths, dtype=torch.int64),
        log_scores_M=torch.tensor(np.array(log_scores, dtype=np.float32)),
    )


@st.composite
def candidate_lists(draw: st.DrawFn) -> Candidates:
    size = draw(st.integers(1, 40))
    parents = [draw(st.integers(-1, i - 1)) for i in range(size)]
    return make_candidates(parents, draw(st.lists(PROBABILITIES, min_size=size, max_size=size)))


def assert_every_prefix_is_a_tree(candidates: Candidates) -> None:
    parents = candidates.parents_M.tolist()
    scores = candidates.log_scores_M.tolist()
    reference = sorted(range(len(scores)), key=lambda i: (-scores[i], i))
    whole = DraftTree.build(7, candidates, len(scores) + 1)
    assert [token - 100 for token in whole.tokens_N[1:].tolist()] == reference
    for draft_tokens in range(1, len(scores) + 2):
        tree = DraftTree.build(7, candidates, draft_tokens)
        chosen = [token - 100 for token in tree.tokens_N[1:].tolist()]
        assert chosen == reference[: draft_tokens - 1]
        assert tree.tokens_N[0] == 7
        positions = {-1: 0} | {created: at for at, created in enumerate(chosen, start=1)}
        for at, created in enumerate(chosen, start=1):
            assert positions[parents[created]] < at
            assert tree.parents_N[at] == positions[parents[created]]
            assert tree.depths_N[at] == candidates.depths_M[created]
        assert all(tree.prefix(k).is_closed() for k in range(1, draft_tokens + 1))


@given(candidate_lists())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_every_prefix_is_closed_and_in_reference_order(candidates: Candidates) -> None:
    assert_every_prefix_is_a_tree(candidates)


def test_the_property_notices_ties_broken_by_latest_creation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def latest_first(scores_M: torch.Tensor) -> torch.Tensor:
        last = scores_M.shape[0] - 1
        return last - torch.sort(scores_M.flip(0), descending=True, stable=True).indices

    monkeypatch.setattr(tree_module, "stable_order", latest_first)

    @given(candidate_lists())
    @settings(
        max_examples=200,
        deadline=None,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow],
    )
    def broken_property(candidates: Candidates) -> None:
        assert_every_prefix_is_a_tree(candidates)

    with pytest.raises(AssertionError):
        broken_property()


@pytest.mark.parametrize("probability", [1.0, 0.0, 1e-30])
def test_a_chain_of_equal_scores_keeps_creation_order(probability: float) -> None:
    """Enough exact ties that an unstable sort would show."""
    first = [probability] + [1.0] * 199
    tree = DraftTree.build(7, make_candidates(list(range(-1, 199)), first), 150)
    assert tree.tokens_N[1:].tolist() == list(range(100, 249))
    assert tree.parents_N.tolist() == list(range(-1, 149))


@pytest.mark.parametrize("parents", [[-1, 2, 0], [-1, 1, 0], [0, 0, 0], [-1, -1, 0]])
def test_a_tree_with_an_orphan_is_not_closed(parents: list[int]) -> None:
    tree = DraftTree(
        tokens_N=torch.arange(3),
        parents_N=torch.tensor(parents),
        depths_N=torch.tensor([0, 1, 1]),
        scores_N=torch.ones(3),
    )
    assert not tree.is_closed()


def test_a_child_kept_without_its_parent_is_not_closed() -> None:
    candidates = make_candidates([-1, 0], [0.5, 1.0])
    candidates.log_scores_M[1] = 0.0
    assert not DraftTree.build(7, candidates, 2).is_closed()


@given(candidate_lists(), st.data())
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_mask_is_the_ancestor_relation(candidates: Candidates, data: st.DataObject) -> None:
    tree = DraftTree.build(7, candidates, data.draw(st.integers(1, len(candidates.tokens_M) + 1)))
    parents = tree.parents_N.tolist()
    expected = torch.zeros(tree.size, tree.size, dtype=torch.bool)
    for node in range(tree.size):
        ancestor = node
        while ancestor >= 0:
            expected[node, ancestor] = True
            ancestor = parents[ancestor]
    mask = tree.mask()
    assert mask.dtype == torch.bool
    assert torch.equal(mask, expected)
    assert mask.sum(1).tolist() == (tree.depths_N + 1).tolist()
    for k in range(1, tree.size + 1):
        assert torch.equal(tree.prefix(k).mask(), mask[:k, :k])


@pytest.mark.parametrize("size", [1, 2, 3, 31, 32, 33, 64, 65, 300])
def test_mask_of_a_chain_is_lower_triangular(size: int) -> None:
    chain = make_candidates(list(range(-1, size - 2)), [1.0] * (size - 1)) if size > 1 else None
    chain = chain or make_candidates([-1], [1.0])
    mask = DraftTree.build(7, chain, size).mask()
    assert torch.equal(mask, torch.ones(size, size).tril().bool())


def test_expected_is_one_plus_the_best_path_products() -> None:
    tree = DraftTree.build(7, make_candidates([-1, -1, 0, 1], [0.6, 0.3, 0.5, 0.5]), 5)
    assert tree.scores_N.dtype == torch.float32
    assert tree.scores_N.tolist() == pytest.approx([1.0, 0.6, 0.3, 0.3, 0.15])
    assert tree.scores_N[0] == 1.0
    assert tree.tokens_N.tolist() == [7, 100, 101, 102, 103]
    assert tree.expected().tolist() == pytest.approx([1.0, 1.6, 1.9, 2.2, 2.35])


def test_prefix_shares_memory_and_refuses_sizes_outside() -> None:
    tree = DraftTree.build(7, make_candidates([-1, 0, 1], [0.5, 0.5, 0.5]), 4)
    part = tree.prefix(2)
    assert part.size == 2
    assert part.tokens_N.data_ptr() == tree.tokens_N.data_ptr()
    for k in (0, 5):
        with pytest.raises(InputError, match=r"seen: \d; allowed: 1\.\.4"):
            tree.prefix(k)


@given(candidate_lists(), st.integers(1, 60))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_tree_has_at_most_what_was_created(candidates: Candidates, draft_tokens: int) -> None:
    """Growth may stop early: the tree then holds every candidate, in the order of any tree."""
    created = len(candidates.tokens_M)
    tree, whole = (DraftTree.build(7, candidates, n) for n in (draft_tokens, created + 1))
    assert tree.size == min(draft_tokens, created + 1)
    assert tree.is_closed()
    assert tree.tokens_N.tolist() == whole.tokens_N[: tree.size].tolist()
    assert tree.scores_N.tolist() == whole.scores_N[: tree.size].tolist()


def test_without_candidates_the_root_is_alone() -> None:
    tree, single = DraftTree.build(7, make_candidates([], []), 32), DraftTree.single(7)
    for name in ("tokens_N", "parents_N", "depths_N", "scores_N"):
        built, alone = getattr(tree, name), getattr(single, name)
        assert torch.equal(built, alone)
        assert built.dtype == alone.dtype
    assert tree.mask().tolist() == [[True]]
    assert tree.expected().tolist() == [1.0]


@pytest.mark.parametrize("draft_tokens", [0, -3])
def test_a_tree_without_its_root_is_refused(draft_tokens: int) -> None:
    with pytest.raises(InputError, match=rf"counts the root; seen: {draft_tokens}; allowed: >= 1"):
        DraftTree.build(7, make_candidates([-1, 0], [0.5, 0.5]), draft_tokens)


def test_large_token_ids_survive() -> None:
    tree = DraftTree.build(2**31 + 1, make_candidates([-1], [0.5]), 2)
    assert tree.tokens_N.tolist() == [2**31 + 1, 100]
    assert tree.tokens_N.dtype == torch.int64


def test_error_leaves_out_missing_parts() -> None:
    assert str(InputError("bad k")) == "bad k"
    error = InputError("bad k", seen=0, hint="set k=1")
    assert str(error) == "bad k; seen: 0; try: set k=1"
    assert (error.what, error.seen, error.allowed, error.hint) == ("bad k", 0, None, "set k=1")
    assert isinstance(error, ValueError)


def test_case_12_verified_nodes_have_verified_parents() -> None:
    """A tree of 60 cut to 12 stays a tree: 1 <= verified <= drafted, every parent is inside."""
    generator = torch.Generator().manual_seed(12)
    parents = [int(torch.randint(-1, max(i, 1), (1,), generator=generator)) for i in range(200)]
    parents[0] = -1
    probabilities = torch.rand(200, generator=generator, dtype=torch.float64).tolist()
    tree = DraftTree.build(7, make_candidates(parents, probabilities), 60)
    verified = tree.prefix(12)
    assert 1 <= verified.size <= tree.size == 60
    assert verified.is_closed()
    assert all(parent < 12 for parent in verified.parents_N.tolist())

"""Candidates as SGLang's draft loop collects them come out in the order of `evict.tree`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.growth import FixedDepth
from evict.sglang.candidates import OrderedCandidates, order_candidates, tree_parents
from evict.tree import DraftTree, stable_order

# log2 of draft probabilities: sums and powers are exact, so ties in either form are the same.
CERTAIN, NEVER = 0.0, float("-inf")
Pick = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Drawn:
    """What a draft model would say: log2 probabilities and tokens [B, levels, topk, topk].

    Row w of a level holds the children of the w-th expanded node, best first; the first level has
    row 0 only.
    """

    log2_BLtt: Tensor
    tokens_BLtt: Tensor

    @property
    def shape(self) -> tuple[int, int, int]:
        requests, levels, topk, _ = self.log2_BLtt.shape
        return requests, levels, topk

    def collected(self, pick: Pick) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Scores, tokens and parents by level, in the form of SGLang's draft loop.

        pick: [B, topk * topk] scores to the order in which nodes are expanded.
        """
        requests, levels, topk = self.shape
        beam_Bt = self.log2_BLtt[:, 0, 0].exp2()
        scores, tokens = [beam_Bt.unsqueeze(1)], [self.tokens_BLtt[:, 0, 0]]
        parents = [torch.arange(-1, topk).expand(requests, -1)]
        for level in range(1, levels):
            grown_BM = (beam_Bt.unsqueeze(2) * self.log2_BLtt[:, level].exp2()).flatten(1)
            scores.append(grown_BM.view(requests, topk, topk))
            tokens.append(self.tokens_BLtt[:, level].flatten(1))
            chosen_Bt = pick(grown_BM)[:, :topk]
            parents.append(chosen_Bt + topk + topk**2 * (level - 1))
            beam_Bt = grown_BM.gather(1, chosen_Bt)
        return scores, tokens, parents

    def ordered(self, draft_tokens: int, pick: Pick) -> OrderedCandidates:
        return order_candidates(*self.collected(pick), draft_tokens)


class Scripted:
    """One tree's draft model for `evict.growth`."""

    def __init__(self, drawn: Drawn, request: int) -> None:
        self._log2_Ltt, self._tokens_Ltt = drawn.log2_BLtt[request], drawn.tokens_BLtt[request]
        self._level = 0

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        return self._tokens_Ltt[0, :1], self._log2_Ltt[0, :1]

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        self._level += 1
        return self._tokens_Ltt[self._level], self._log2_Ltt[self._level]


def by_score(scores_BM: Tensor) -> Tensor:
    return torch.stack([stable_order(row_M) for row_M in scores_BM])


def any_of_equals(seed: int) -> Pick:
    """By score, equal ones in random order: what `torch.topk` may do."""

    def pick(scores_BM: Tensor) -> Tensor:
        shuffled_M = torch.randperm(
            scores_BM.shape[1], generator=torch.Generator().manual_seed(seed)
        )
        return shuffled_M[by_score(scores_BM[:, shuffled_M])]

    return pick


@st.composite
def draws(draw: st.DrawFn, values: tuple[float, ...] = (CERTAIN, -1.0, -3.0, NEVER)) -> Drawn:
    requests, levels, topk = (draw(st.integers(1, most)) for most in (3, 4, 5))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    shape = (requests, levels, topk, topk)
    choice = torch.randint(len(values), shape, generator=generator)
    log2_BLtt = torch.tensor(values)[choice].sort(-1, descending=True).values
    return Drawn(log2_BLtt, torch.randint(900, shape, generator=generator))


def assert_prefixes_closed(nodes: OrderedCandidates, topk: int) -> None:
    for parents in tree_parents(nodes.indices_Bn, nodes.parents_BP, topk).tolist():
        assert parents[0] == -1
        assert all(0 <= parent < place for place, parent in enumerate(parents[1:], start=1))


@given(draws(), st.integers(2, 110))
@settings(max_examples=200, deadline=None)
def test_order_is_that_of_the_draft_tree(drawn: Drawn, draft_tokens: int) -> None:
    requests, levels, topk = drawn.shape
    nodes = drawn.ordered(draft_tokens, by_score)
    parents_BN = tree_parents(nodes.indices_Bn, nodes.parents_BP, topk)
    assert nodes.scores_Bn.dtype == torch.float32
    for request in range(requests):
        candidates = FixedDepth(levels, topk).grow(Scripted(drawn, request))
        tree = DraftTree.build(7, candidates, draft_tokens)
        assert nodes.tokens_Bn[request].tolist() == tree.tokens_N[1:].tolist()
        assert parents_BN[request].tolist() == tree.parents_N.tolist()
        best = stable_order(candidates.log_scores_M)[: tree.size - 1]
        assert torch.equal(nodes.scores_Bn[request], candidates.log_scores_M[best].exp2())


@given(draws(), st.integers(2, 110), st.integers(0, 2**31))
@settings(max_examples=200, deadline=None)
def test_every_prefix_is_a_tree_however_equals_were_expanded(
    drawn: Drawn, draft_tokens: int, seed: int
) -> None:
    assert_prefixes_closed(drawn.ordered(draft_tokens, any_of_equals(seed)), drawn.shape[2])


@pytest.mark.parametrize("log2", [CERTAIN, NEVER])
def test_all_scores_equal_keep_the_order_of_creation(log2: float) -> None:
    shape = (2, 4, 8, 8)
    drawn = Drawn(torch.full(shape, log2), torch.arange(2 * 4 * 64).view(shape))
    nodes = drawn.ordered(32, any_of_equals(3))
    assert nodes.indices_Bn.tolist() == [list(range(31))] * 2
    assert_prefixes_closed(nodes, 8)


@given(st.integers(0, 2**31), st.integers(2, 60))
@settings(max_examples=100, deadline=None)
def test_ordinary_probabilities(seed: int, draft_tokens: int) -> None:
    """float32 products round: a child still never outranks its parent."""
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(2, 4, 4, 4, generator=generator) * 6
    chances = logits.softmax(-1).sort(-1, descending=True).values
    drawn = Drawn(chances.log2(), torch.zeros(2, 4, 4, 4, dtype=torch.int64))
    nodes = drawn.ordered(draft_tokens, by_score)
    assert_prefixes_closed(nodes, 4)
    assert (nodes.scores_Bn.diff(dim=1) <= 0).all()


@given(draws(), st.integers(2, 110))
@settings(max_examples=100, deadline=None)
def test_indices_parents_and_tokens_are_sglangs_own(drawn: Drawn, draft_tokens: int) -> None:
    """SGLang's tree builder finds a parent through the list, at the group of topk children."""
    _, tokens, parents = drawn.collected(by_score)
    nodes = drawn.ordered(draft_tokens, by_score)
    assert torch.equal(nodes.tokens_Bn, torch.cat(tokens, 1).gather(1, nodes.indices_Bn))
    _, levels, topk = drawn.shape
    assert nodes.parents_BP.shape[1] == (topk * (levels - 1) + 1 if levels > 1 else 0)
    if levels > 1:
        assert torch.equal(nodes.parents_BP, torch.cat(parents[:-1], 1))


def test_a_node_whose_parent_was_left_out_is_told_apart() -> None:
    drawn = Drawn(torch.zeros(1, 2, 2, 2), torch.zeros(1, 2, 2, 2, dtype=torch.int64))
    nodes = drawn.ordered(6, by_score)
    orphaned = nodes.indices_Bn[:, 1:]
    assert orphaned.tolist() == [[1, 2, 3, 4]]
    assert tree_parents(orphaned, nodes.parents_BP, 2).tolist() == [[-1, 0, 5, 5, 1]]

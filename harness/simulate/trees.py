"""One simulated step through the real code: a drafter for evict.growth, a target for acceptance."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evict.growth import Growth
from evict.tree import Candidates, DraftTree, stable_order
from harness.simulate.acceptance import Proposals


@dataclass
class SimulatedDrafter:
    """evict.growth.Drafter over one step's proposals; tokens are the children's ranks."""

    log_probs_DWt: Tensor
    depth: int = 0

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        """The root's children."""
        self.depth = 0
        return self._children(1, topk)

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        """Children of the next level's frontier; slot w has its own draw, whoever stands there."""
        self.depth += 1
        return self._children(len(tokens_W), topk)

    def _children(self, width: int, topk: int) -> tuple[Tensor, Tensor]:
        log_probs_Wt = self.log_probs_DWt[self.depth, :width, :topk]
        return torch.arange(topk).expand(width, topk), log_probs_Wt


@dataclass(frozen=True, eq=False)
class SimulatedStep:
    """A real DraftTree of N nodes and what the target says after each of them.

    probs_NV: float64 [N, topk + 1], the last column for every token that was not drafted.
    argmax_N: int64 [N], the target's choice there as a token. places: (depth, slot) of each node
    that was expanded, None for the others. levels: how many the drafter drew.
    """

    tree: DraftTree
    probs_NV: Tensor
    argmax_N: Tensor
    places: list[tuple[int, int] | None]
    levels: int


def simulate_step(
    proposals: Proposals, step: int, growth: Growth, draft_tokens: int
) -> SimulatedStep:
    """Step number `step` as evict.growth and evict.tree build it."""
    drafter = SimulatedDrafter(proposals.log_probs_SDWt[step])
    candidates = growth.grow(drafter)
    tree = DraftTree.build(proposals.topk + 1, candidates, draft_tokens)
    slots = _slots(candidates, proposals.topk)
    kept = stable_order(candidates.log_scores_M)[: tree.size - 1].tolist()
    places: list[tuple[int, int] | None] = [(0, 0), *(slots.get(candidate) for candidate in kept)]
    missing = proposals.topk
    probs = torch.zeros(tree.size, missing + 1, dtype=torch.float64)
    probs[:, missing] = 1.0
    argmax = torch.full((tree.size,), missing, dtype=torch.long)
    for node, place in enumerate(places):
        if place is not None:
            children = proposals.target_SDWt[step][place]
            probs[node, :missing] = children
            probs[node, missing] = 1.0 - children.sum()
            argmax[node] = proposals.choices_SDW[step][place]
    return SimulatedStep(tree, probs.clamp(min=0.0), argmax, places, drafter.depth + 1)


def _slots(candidates: Candidates, topk: int) -> dict[int, tuple[int, int]]:
    """(depth, slot) at which a candidate was expanded, by its index; the root left out."""
    parents, depths = candidates.parents_M.tolist(), candidates.depths_M.tolist()
    first = {depth: depths.index(depth) for depth in set(depths)}
    return {
        parent: (depth - 1, (child - first[depth]) // topk)
        for child, (parent, depth) in enumerate(zip(parents, depths, strict=True))
        if parent >= 0
    }

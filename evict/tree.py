"""Draft trees: the candidates a drafter proposed, ordered so that every prefix is a tree."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from evict.errors import InputError


def stable_order(scores_M: Tensor) -> Tensor:
    """Indices of `scores_M` by (score descending, creation index ascending), int64 [M].

    The only place where the order of draft nodes is defined. A child never scores above its
    parent and is created after it, so a parent comes first even when both scores are equal.
    """
    return torch.sort(scores_M, descending=True, stable=True).indices


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Every node that a drafter proposed in one step, in order of creation.

    tokens_M: int64 [M], target token ids.
    parents_M: int64 [M], index of the parent in this list, smaller than the own one; -1 = root.
    depths_M: int64 [M], 1 for a child of the root.
    log_scores_M: float32 [M], sum of the draft log-probabilities on the path from the root.
    """

    tokens_M: Tensor
    parents_M: Tensor
    depths_M: Tensor
    log_scores_M: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class DraftTree:
    """The root and the best draft nodes, in the order in which they are worth verifying.

    tokens_N: int64 [N], the last committed token first.
    parents_N: int64 [N], position of the parent in this order; -1 for the root.
    depths_N: int64 [N], 0 for the root.
    scores_N: float32 [N], product of draft probabilities on the path; 1 for the root.
    """

    tokens_N: Tensor
    parents_N: Tensor
    depths_N: Tensor
    scores_N: Tensor

    @staticmethod
    def build(root_token: int, candidates: Candidates, draft_tokens: int) -> DraftTree:
        """The root and the `draft_tokens` - 1 best candidates, or all where there are fewer.

        Size min(draft_tokens, M + 1), read off the shapes: tensor operations only, no sync.
        """
        if draft_tokens < 1:
            raise InputError("draft_tokens counts the root", seen=draft_tokens, allowed=">= 1")
        created = candidates.log_scores_M.shape[0]
        size = min(draft_tokens, created + 1)
        best = stable_order(candidates.log_scores_M)[: size - 1]
        positions_N = torch.arange(size, device=best.device)
        # Slot 0 stands for the root. A candidate left out keeps the position N, past every
        # node, so that a tree with an orphan is seen by is_closed().
        position_of = best.new_full((created + 1,), size)
        position_of.index_copy_(0, pad(best + 1, (1, 0)), positions_N)
        parents = position_of.index_select(0, candidates.parents_M.index_select(0, best) + 1)
        return DraftTree(
            tokens_N=pad(candidates.tokens_M.index_select(0, best), (1, 0), value=root_token),
            parents_N=pad(parents, (1, 0), value=-1),
            depths_N=pad(candidates.depths_M.index_select(0, best), (1, 0)),
            scores_N=pad(candidates.log_scores_M.index_select(0, best), (1, 0)).exp_(),
        )

    @staticmethod
    def single(root_token: int, device: torch.device | str = "cpu") -> DraftTree:
        """The root alone: a plain decode step."""
        zero = torch.zeros(1, dtype=torch.long, device=device)
        return DraftTree(zero + root_token, zero - 1, zero, torch.ones(1, device=device))

    @property
    def size(self) -> int:
        """Number of nodes, root included."""
        return self.tokens_N.shape[0]

    def prefix(self, k: int) -> DraftTree:
        """The first `k` nodes, 1 <= k <= size, as views of this tree."""
        if not 1 <= k <= self.size:
            raise InputError("verify length outside the tree", seen=k, allowed=f"1..{self.size}")
        return DraftTree(
            self.tokens_N[:k], self.parents_N[:k], self.depths_N[:k], self.scores_N[:k]
        )

    def mask(self) -> Tensor:
        """bool [N, N]: row i is true at node i and at its ancestors. No sync.

        Pointer doubling: after t rounds a row covers the ancestors nearer than 2^t.
        """
        mask_NN = torch.eye(self.size, dtype=torch.bool, device=self.parents_N.device)
        ancestor_N = self.parents_N.clamp(min=0)
        for _ in range((self.size - 1).bit_length()):
            mask_NN = mask_NN | mask_NN.index_select(0, ancestor_N)
            ancestor_N = ancestor_N.index_select(0, ancestor_N)
        return mask_NN

    def expected(self) -> Tensor:
        """S_N, float32 [N]: expected tokens of a step that verifies the first k nodes, k = 1..N.

        The root's 1 stands for the token that the target yields by itself (EVICT, section 3).
        """
        return self.scores_N.cumsum(0)

    def is_closed(self) -> bool:
        """Whether every parent precedes its child, hence every prefix is a tree. Syncs."""
        parents = self.parents_N.tolist()
        return parents[0] == -1 and all(0 <= parents[i] < i for i in range(1, len(parents)))

"""SGLang's candidates in the order in which they are worth verifying.

SGLang keeps the best N - 1 candidates and sorts them by index, which loses the order of scores.
Here they stay in `evict.tree.stable_order`, so that every prefix is a tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from evict.tree import stable_order


@dataclass(frozen=True, slots=True, eq=False)
class OrderedCandidates:
    """The best n - 1 candidates of each of B trees, best first.

    tokens_Bn, indices_Bn: int64 [B, n - 1], target token ids and SGLang's flat candidate indices.
    scores_Bn: float32 [B, n - 1], product of draft probabilities on the path.
    parents_BP: int64 [B, topk * (levels - 1) + 1], flat index of the node that each group of topk
    candidates descends from; the first group descends from the root. [B, 0] for one level.
    """

    tokens_Bn: Tensor
    indices_Bn: Tensor
    scores_Bn: Tensor
    parents_BP: Tensor

    def copied(self) -> OrderedCandidates:
        """The same in memory of its own: a graph's results are overwritten by later graphs."""
        parts = self.tokens_Bn, self.indices_Bn, self.scores_Bn, self.parents_BP
        return OrderedCandidates(*(part.clone() for part in parts))


def order_candidates(
    scores: Sequence[Tensor],
    tokens: Sequence[Tensor],
    parents: Sequence[Tensor],
    draft_tokens: int,
) -> OrderedCandidates:
    """Order what SGLang's draft loop collected, one entry per level.

    scores[i]: [B, W, topk] cumulative probabilities (W = 1 on the first level, topk after it);
    tokens[i]: [B, W * topk]; parents[i]: [B, topk] flat indices of the nodes expanded next, with a
    leading -1 on the first level. Flat indices grow from parent to child, so equal scores keep the
    parent first. Tensor operations only: no sync, no data-dependent shape.
    """
    scores_BM = torch.cat([level.flatten(1) for level in scores], dim=1)
    tokens_BM = torch.cat(list(tokens), dim=1)
    keep = min(draft_tokens - 1, scores_BM.shape[1])
    indices_Bn = stable_order(scores_BM)[:, :keep]
    first = parents[0]
    return OrderedCandidates(
        tokens_Bn=tokens_BM.gather(1, indices_Bn),
        indices_Bn=indices_Bn,
        scores_Bn=scores_BM.gather(1, indices_Bn).float(),
        parents_BP=torch.cat(list(parents[:-1]), dim=1) if len(parents) > 1 else first[:, :0],
    )


def tree_parents(indices_Bn: Tensor, parents_BP: Tensor, topk: int) -> Tensor:
    """Position of each node's parent in score order, int64 [B, n]; -1 for the root at position 0.

    n is returned for a parent that is not among the nodes, which no ordered tree has.
    """
    group_Bn = indices_Bn // topk
    size = indices_Bn.shape[1] + 1
    if parents_BP.shape[1] == 0:
        positions_Bn = torch.zeros_like(indices_Bn)
    else:
        parent_Bn = parents_BP.gather(1, group_Bn)
        same_Bnn = parent_Bn.unsqueeze(2) == indices_Bn.unsqueeze(1)
        found_Bn = same_Bnn.any(2)
        place_Bn = same_Bnn.int().argmax(2) + 1
        positions_Bn = torch.where(found_Bn, place_Bn, torch.full_like(place_Bn, size))
        positions_Bn = positions_Bn.masked_fill(group_Bn == 0, 0)
    return torch.nn.functional.pad(positions_Bn, (1, 0), value=-1)

"""Where draft trees come from: nothing (plain decoding) or an EAGLE-3 head."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from evict.tree import DraftTree
from harness.engines.base import Method
from harness.engines.torch.eagle3 import Eagle3Head
from harness.engines.torch.layers import additive, causal


class Proposer(Protocol):
    """Draft side of one sequence."""

    @property
    def aux_layers(self) -> Sequence[int]:
        """Target layers whose input states it needs."""
        ...

    def propose(self, root: int, method: Method) -> DraftTree:
        """The full tree of `method.draft_tokens` nodes rooted at the last committed token."""
        ...

    def start(self, prompt: Sequence[int]) -> None:
        """Begin a request; called once, before the first `extend`."""
        ...

    def extend(self, states_TF: Tensor, committed_T: Sequence[int]) -> None:
        """Take in the target's states at T positions and the token that follows each of them."""
        ...

    def finish(self) -> None:
        """The request has ended."""
        ...

    def draft_rows(
        self, tree: DraftTree, path: Sequence[int], next_token: int
    ) -> list[tuple[Tensor, int]]:
        """(draft logits [D], draft id of the token the target chose) along the accepted path."""
        ...


class NoProposer:
    """Plain decoding: the tree is its root."""

    aux_layers: Sequence[int] = ()

    def __init__(self, device: str) -> None:
        self.device = device

    def start(self, prompt: Sequence[int]) -> None:
        """Nothing to prepare."""

    def finish(self) -> None:
        """Nothing to end."""

    def propose(self, root: int, method: Method) -> DraftTree:
        """A single node."""
        return DraftTree.single(root, self.device)

    def extend(self, states_TF: Tensor, committed_T: Sequence[int]) -> None:
        """Nothing to keep."""

    def draft_rows(
        self, tree: DraftTree, path: Sequence[int], next_token: int
    ) -> list[tuple[Tensor, int]]:
        """Nothing was drafted."""
        return []


class Eagle3Proposer:
    """Grows a tree with the head. Cache rows of tree nodes live behind the committed ones and are
    overwritten by the next step: only rows made from true target states persist (METHODS 1.6)."""

    def __init__(self, head: Eagle3Head, slots: int, beta: float) -> None:
        self.head = head
        self.aux_layers = head.config.aux_layers
        self.beta = beta
        self.cache = head.new_cache(slots)
        self._levels_alone: dict[int, Tensor] = {}

    def start(self, prompt: Sequence[int]) -> None:
        """The prompt comes with its states, by `extend`."""

    def finish(self) -> None:
        """The cache goes with the object."""

    def extend(self, states_TF: Tensor, committed_T: Sequence[int]) -> None:
        """Append T rows computed from true target states; the last one starts the next tree."""
        count, start = len(committed_T), self.cache.length
        device = self.head.device
        positions = torch.arange(start, start + count, device=device)
        mask = causal(count, start, self.head.dtype, device)
        tokens = torch.tensor(committed_T, device=device)
        state = self.head.forward(
            tokens, self.head.fuse(states_TF), positions, self.cache, mask, start
        )
        self.cache.length = start + count
        self._last_1H = state[-1:]

    def propose(self, root: int, method: Method) -> DraftTree:
        """Grow with the method's policy and keep its best `draft_tokens` nodes."""
        candidates = method.growth.grow(self)
        return DraftTree.build(root, candidates, method.draft_tokens)

    def first(self, topk: int) -> tuple[Tensor, Tensor]:
        """Children of the root: (target ids [1, topk], log-probabilities [1, topk])."""
        self._frontier_WH = self._last_1H
        self._mask_WS = self._last_1H[:, :0]
        self._levels: list[tuple[Tensor, Tensor]] = []
        self._logits: list[Tensor] = []
        return self._children(topk)

    def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
        """Children of W frontier nodes, whose parents are rows of the previous frontier."""
        start, drawn = self.cache.length, self._mask_WS.shape[1]
        seen_WS = self._mask_WS.index_select(0, rows_W)
        self._mask_WS = torch.cat((seen_WS, self._alone(len(tokens_W))), dim=1)
        positions = torch.full_like(tokens_W, start + len(self._levels))
        self._levels.append((tokens_W, rows_W))
        self._frontier_WH = self.head.forward(
            tokens_W,
            self._frontier_WH.index_select(0, rows_W),
            positions,
            self.cache,
            F.pad(self._mask_WS, (start, 0)),
            start + drawn,
        )
        return self._children(topk)

    def draft_rows(
        self, tree: DraftTree, path: Sequence[int], next_token: int
    ) -> list[tuple[Tensor, int]]:
        """Rows stop where the path leaves the expanded frontier; uncovered targets are left out."""
        tokens = [int(tree.tokens_N[node]) for node in path[1:]] + [next_token]
        rows, row = [], 0
        for level, token in enumerate(tokens[: len(self._logits)]):
            draft_id = (self.head.target_ids_D == token).nonzero()
            if len(draft_id):
                rows.append((self._logits[level][row], int(draft_id)))
            if level == len(self._levels):
                break
            frontier_W, parents_W = self._levels[level]
            match = ((frontier_W == token) & (parents_W == row)).nonzero()
            if not len(match):
                break
            row = int(match)
        return rows

    def _alone(self, width: int) -> Tensor:
        """Additive mask of one level: each node sees itself and none of its siblings."""
        if width not in self._levels_alone:
            eye = torch.eye(width, dtype=torch.bool, device=self.head.device)
            self._levels_alone[width] = additive(eye, 0, self.head.dtype)
        return self._levels_alone[width]

    def _children(self, topk: int) -> tuple[Tensor, Tensor]:
        logits_WD = self.head.logits(self._frontier_WH)
        self._logits.append(logits_WD)
        if self.beta != 1.0:
            logits_WD = logits_WD * self.beta
        top_WK, ids_WK = logits_WD.topk(topk, dim=-1)
        log_probs_WK = top_WK - logits_WD.logsumexp(dim=-1, keepdim=True)
        return self.head.target_ids_D[ids_WK], log_probs_WK.clamp_(max=0.0)

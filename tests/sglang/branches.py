"""Whose keys a draft node attends to, made the same in two engines.

SGLang drafts with topk branches and gives each its own cache slots. From level to level the best
nodes are dealt to the branches by rank, whatever branch their parent has: below depth 2 a node sees
the keys of its branch's former nodes ("slots") where EAGLE means its ancestors' ("paths"). SGLang
leaves it so (issue 7523, pull request 8409); it moves scores, never the tokens that come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from unittest.mock import patch

Drafting = Callable[[], AbstractContextManager[Any]]


@contextmanager
def _sglang_paths() -> Iterator[None]:
    """Before a level is drafted, each branch gets the keys of its new node's ancestors."""
    from sglang.srt.speculative import eagle_worker_v2

    from evict.sglang.draft_worker import EvictDraftWorker

    stock_forward, stock_select = (
        EvictDraftWorker.draft_forward,
        eagle_worker_v2.select_top_k_tokens,
    )

    def forward(worker: Any, forward_batch: Any) -> Any:
        pool = worker.draft_runner.token_to_kv_pool
        branches_TS = forward_batch.out_cache_loc.view(worker.topk, -1).clone()

        def select(step: int, *parts: Any) -> Any:
            chosen = stock_select(step, *parts)
            if step:
                # Flat candidate indices: topk of level 1, then topk * topk of each level.
                topk = worker.topk
                first = topk + (step - 1) * topk * topk
                parents_T = (chosen[3][2][0] - first) // topk
                moved_TL = branches_TS[:, :step]
                pool.move_kv_cache(moved_TL.flatten(), moved_TL[parents_T].flatten())
            return chosen

        with patch.object(eagle_worker_v2, "select_top_k_tokens", select):
            return stock_forward(worker, forward_batch)

    with patch.object(EvictDraftWorker, "draft_forward", forward):
        yield


@contextmanager
def _sglang_shifted() -> Iterator[None]:
    """A fault: every draft node is one position too far."""
    from evict.sglang.draft_worker import EvictDraftWorker

    stock_forward = EvictDraftWorker.draft_forward

    def forward(worker: Any, forward_batch: Any) -> Any:
        forward_batch.positions.add_(1)
        return stock_forward(worker, forward_batch)

    with patch.object(EvictDraftWorker, "draft_forward", forward):
        yield


@contextmanager
def _torch_slots() -> Iterator[None]:
    """The embedded engine's head with SGLang's rule."""
    import torch
    from torch import Tensor

    from harness.engines.torch import proposers
    from harness.engines.torch.proposer import Eagle3Proposer

    class SlotProposer(Eagle3Proposer):
        def expand(self, tokens_W: Tensor, rows_W: Tensor, topk: int) -> tuple[Tensor, Tensor]:
            if not self._levels:
                return super().expand(tokens_W, rows_W, topk)
            self._frontier_WH = self._frontier_WH.index_select(0, rows_W)
            children = super().expand(tokens_W, torch.arange(len(tokens_W)), topk)
            self._levels[-1] = (tokens_W, rows_W)
            return children

    with patch.object(proposers, "Eagle3Proposer", SlotProposer):
        yield


SGLANG: dict[str, Drafting] = {
    "slots": nullcontext,
    "paths": _sglang_paths,
    "shifted": _sglang_shifted,
}
TORCH: dict[str, Drafting] = {"slots": _torch_slots, "paths": nullcontext}

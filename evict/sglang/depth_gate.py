"""Dynamic Depth Decoding inside SGLang: drafting stops when the beam is unlikely enough."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from evict.growth import DynamicDepth, level_capacity
from evict.sglang import compat
from evict.sglang.draft_worker import EvictDraftWorker


class _Stop(Exception):
    """Leaves the parent's draft loop after a level; the levels drawn so far are the tree."""


class DepthGatedDraftWorker(EvictDraftWorker):
    """The parent's draft loop, left early by the rule of `evict.growth.DynamicDepth`.

    After each depth in the rule's `check_depths` one number is read back from the device, which is
    inherent to the method.
    """

    growth: DynamicDepth

    def tree_sizes(self) -> set[int]:
        """Nodes of the trees that each depth can leave."""
        depths = {*self.growth.check_depths, self.speculative_num_steps}
        return {
            min(self.speculative_num_draft_tokens, level_capacity(depth, self.topk) + 1)
            for depth in depths
        }

    def draft_forward(self, forward_batch: Any) -> Any:
        """The parent's loop over levels, asked after each whether to go on."""
        levels: list[tuple[Tensor, Tensor, Tensor]] = []

        def select(step: int, *parts: Any) -> Any:
            chosen = compat.select_top_k_tokens(step, *parts)
            levels.append(chosen[3])
            log_scores_BW = chosen[2].log()
            depth = step + 1
            if depth < self.speculative_num_steps and not self._go_on(depth, log_scores_BW):
                raise _Stop
            return chosen

        try:
            with compat.swapped(select_top_k_tokens=select):
                return super().draft_forward(forward_batch)
        except _Stop:
            scores, tokens, parents = (list(column) for column in zip(*levels, strict=True))
            width = self.speculative_num_draft_tokens
            parents_BP, indices_Bn, tokens_Bn = self.finalise(scores, tokens, parents, width)
            return parents_BP, indices_Bn, tokens_Bn, None

    def _go_on(self, depth: int, log_scores_BW: Tensor) -> bool:
        """One decision per batch: on while any of its beams is likely enough."""
        return any(self.growth.keep_growing(depth, row_W) for row_W in log_scores_BW)

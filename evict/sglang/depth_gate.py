"""Dynamic Depth Decoding inside SGLang: drafting stops when the beam is unlikely enough."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from evict.growth import DynamicDepth, level_capacity
from evict.sglang import compat
from evict.sglang.depth_segments import DepthSegmentsGraphRunner
from evict.sglang.draft_worker import EvictDraftWorker


class _Stop(Exception):
    """Leaves the parent's draft loop after a level; the levels drawn so far are the tree."""


class DepthGatedDraftWorker(EvictDraftWorker):
    """Drafts until the rule of `evict.growth.DynamicDepth` stops it.

    After each depth in the rule's `check_depths` the beam's scores are read back from the device,
    which is inherent to the method. Eagerly the parent's loop is left early; with CUDA graphs the
    loop is captured in segments. captured: what stands in for the loop while it is captured.
    """

    growth: DynamicDepth
    captured: Callable[[Any], Any] | None = None

    def tree_sizes(self) -> set[int]:
        """Nodes of the trees that each depth can leave."""
        depths = {*self.growth.check_depths, self.speculative_num_steps}
        return {
            min(self.speculative_num_draft_tokens, level_capacity(depth, self.topk) + 1)
            for depth in depths
        }

    def draft_forward(self, forward_batch: Any) -> Any:
        """The parent's loop over levels, asked after each whether to go on."""
        if self.captured is not None:
            return self.captured(forward_batch)
        levels: list[tuple[Tensor, Tensor, Tensor]] = []

        def select(step: int, *parts: Any) -> Any:
            chosen = compat.select_top_k_tokens(step, *parts)
            levels.append(chosen[3])
            depth = step + 1
            if depth in self.growth.check_depths and not self.go_on(depth, chosen[2].cpu()):
                raise _Stop
            return chosen

        try:
            with compat.swapped(select_top_k_tokens=select):
                return super().draft_forward(forward_batch)
        except _Stop:
            scores, tokens, parents = (list(column) for column in zip(*levels, strict=True))
            width = self.speculative_num_draft_tokens
            return (*self.finalise(scores, tokens, parents, width), None)

    def go_on(self, depth: int, scores_BW: Tensor) -> bool:
        """One decision per batch: on while any of its beams is likely enough.

        scores_BW: path probabilities of the nodes to expand next, on the host.
        """
        return any(self.growth.keep_growing(depth, row_W.log()) for row_W in scores_BW)

    def drew(self, depth: int) -> None:
        """A graph runner tells how many levels the step's tree has."""
        self._levels = depth

    def _capture_cuda_graphs(self) -> None:
        """The parent's captures, with the draft loop in segments."""
        with compat.swapped(EAGLEDraftCudaGraphRunner=DepthSegmentsGraphRunner):
            super()._capture_cuda_graphs()

"""Dynamic depth from CUDA graphs: the draft loop captured in segments, one host read between two.

A captured graph cannot decide to stop. So each check depth ends a graph of its own, which leaves
the tree so far complete; the next one goes on from the tensors that this one left.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from evict.sglang import compat


@dataclass(frozen=True, slots=True, eq=False)
class Beam:
    """The draft loop between two levels, B trees of W = topk branches (R = B * W rows).

    levels: scores, tokens and parents of every level drawn, as SGLang's tree builder takes them.
    tokens_R, hidden_RH: what the next draft forward reads. scores_BW: path probabilities.
    """

    levels: tuple[tuple[Tensor, Tensor, Tensor], ...]
    tokens_R: Tensor
    hidden_RH: Tensor
    scores_BW: Tensor


class DepthSegmentsGraphRunner(compat.EAGLEDraftCudaGraphRunner):  # type: ignore[misc]
    """SGLang's draft graph runner with one graph per check depth of its worker's growth rule.

    Static inputs, padding and attention metadata are the parent's, prepared once per step for all
    segments. The worker is asked `go_on(depth, scores)` between two segments and told with
    `drew(depth)` how many levels the step has.
    """

    backend: Any

    def __init__(self, eagle_worker: Any, **keywords: Any) -> None:
        worker = eagle_worker
        self.depths: tuple[int, ...] = (*worker.growth.check_depths, worker.speculative_num_steps)
        self._beams: dict[tuple[int, int], Beam] = {}
        self._frontier: _Frontier | None = None
        super().__init__(eagle_worker, **keywords)

    def capture_one_shape(self, *args: Any, **keywords: Any) -> None:
        """The parent's capture of one batch size, split where it would capture the loop."""
        if self._frontier is None:
            self._frontier = _Frontier(self.max_bs, self.topk, self.device)
        backend, worker = self.backend, self.eagle_worker
        self.backend = _Split(backend, self._capture_segments)
        worker.captured = partial(self._draw, None, self.depths[-1])
        try:
            super().capture_one_shape(*args, **keywords)
        finally:
            self.backend, worker.captured = backend, None

    def _capture_segments(self, backend: Any, size: int, *args: Any, **keywords: Any) -> None:
        """Capture each segment, then replay it: the next one's warm-up reads what it leaves."""
        before = None
        for depth in self.depths:
            self.eagle_worker.captured = partial(self._draw, before, depth)
            key = self._make_graph_key(size, variant_label=_label(depth))
            backend.capture_one(key, *args, **keywords)
            backend.replay(key, None)
            before = depth

    def _make_graph_key(
        self, bs: int, stream_idx: int | None = None, variant_label: str | None = None
    ) -> Any:
        label = variant_label or _label(self.depths[-1])
        return super()._make_graph_key(bs, stream_idx, label)

    def _draw(self, before: int | None, depth: int, forward_batch: Any) -> tuple[Any, ...]:
        """Levels after `before` up to `depth`, and the tree of all of them; captured."""
        size, worker = forward_batch.batch_size, self.eagle_worker
        beam = None if before is None else self._beams[size, before]
        beam = draw_levels(worker, forward_batch, beam, depth)
        self._beams[size, depth] = beam
        assert self._frontier is not None
        self._frontier.keep(beam.scores_BW)
        scores, tokens, parents = zip(*beam.levels, strict=True)
        width = worker.speculative_num_draft_tokens
        return (*worker.finalise(scores, tokens, parents, width), None)

    def _replay_graph(self, shape_key: Any, forward_batch: Any) -> Any:
        """Segment after segment, until the rule stops or the loop ends; the last one's tree."""
        assert self._frontier is not None
        for depth in self.depths:
            key = self._make_graph_key(shape_key.size, variant_label=_label(depth))
            tree = super()._replay_graph(key, forward_batch)
            last = depth == self.depths[-1]
            if last or not self.eagle_worker.go_on(depth, self._frontier.read(self.raw_bs)):
                break
        self.eagle_worker.drew(depth)
        return tree


def draw_levels(worker: Any, forward_batch: Any, beam: Beam | None, depth: int) -> Beam:
    """The draft loop from `beam` (None: its beginning) to `depth` levels.

    Leaves the batch's positions steps - 1 further, as SGLang's whole loop does, which the capture
    takes back. Tensor operations only.
    """
    steps, topk, positions_R = worker.speculative_num_steps, worker.topk, forward_batch.positions
    slots = compat.per_step_draft_out_cache_loc(
        forward_batch.out_cache_loc, forward_batch.batch_size, topk, steps
    )
    if beam is None:
        spec = forward_batch.spec_info
        proposal = spec.topk_p, _target_ids(worker, spec.topk_index), spec.hidden_states
        beam = _selected((), 0, proposal, None, topk)
    drawn = len(beam.levels)
    positions_R.add_(drawn - 1)
    for level in range(drawn, depth):
        proposal = _forward(worker, forward_batch, beam, slots[level - 1], level - 1)
        beam = _selected(beam.levels, level, proposal, beam.scores_BW, topk)
    positions_R.add_(steps - depth)
    return beam


def _forward(
    worker: Any, forward_batch: Any, beam: Beam, slots_R: Tensor, level: int
) -> tuple[Tensor, Tensor, Tensor]:
    """One draft forward: the children's probabilities and target ids [R, topk], hidden states."""
    forward_batch.input_ids, forward_batch.out_cache_loc = beam.tokens_R, slots_R
    forward_batch.spec_info.hidden_states = beam.hidden_RH
    attention = compat.ForwardContext(attn_backend=worker.draft_attn_backend.attn_backends[level])
    with compat.forward_context(attention, forward_batch=forward_batch):
        output = worker.draft_runner.forward(forward_batch).logits_output
    forward_batch.positions.add_(1)
    probabilities = compat.renorm_draft_probs(
        output.next_token_logits, forward_batch.sampling_info, False
    )
    best, ids = compat.fast_topk(probabilities, worker.topk, dim=-1)
    return best, _target_ids(worker, ids), output.hidden_states


def _selected(
    levels: tuple[tuple[Tensor, Tensor, Tensor], ...],
    level: int,
    proposal: tuple[Tensor, Tensor, Tensor],
    scores_BW: Tensor | None,
    topk: int,
) -> Beam:
    tokens_R, hidden_RH, scores, drawn = compat.select_top_k_tokens(
        level, *proposal, scores_BW, topk
    )
    return Beam((*levels, drawn), tokens_R, hidden_RH, scores)


def _target_ids(worker: Any, ids: Tensor) -> Tensor:
    """The draft head's own ids in the target's vocabulary."""
    return ids if worker.hot_token_id is None else worker.hot_token_id[ids]


def _label(depth: int) -> str:
    return f"depth{depth}"


@dataclass(frozen=True)
class _Split:
    """Stands in for a graph backend while one batch size is captured."""

    backend: Any
    capture: Callable[..., None]

    def capture_one(self, shape_key: Any, *args: Any, **keywords: Any) -> None:
        self.capture(self.backend, shape_key.size, *args, **keywords)


class _Frontier:
    """Path probabilities of the beams, float32 [B, topk], outside the graphs' memory."""

    def __init__(self, max_batch: int, topk: int, device: torch.device | str) -> None:
        self._scores_BW = torch.zeros(max_batch, topk, device=device)
        on_device = self._scores_BW.is_cuda
        self._host_BW = torch.zeros(max_batch, topk, pin_memory=on_device)
        self._copied = torch.cuda.Event() if on_device else None

    def keep(self, scores_BW: Tensor) -> None:
        """Captured: the scores of this segment's last level."""
        self._scores_BW[: scores_BW.shape[0]].copy_(scores_BW)

    def read(self, batch: int) -> Tensor:
        """On the host, the first `batch` rows: the wait between two segments."""
        self._host_BW[:batch].copy_(self._scores_BW[:batch], non_blocking=True)
        if self._copied is not None:
            self._copied.record()
            self._copied.synchronize()
        return self._host_BW[:batch]

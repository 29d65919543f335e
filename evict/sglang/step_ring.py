"""Records of steps, kept without waiting for the device; written out when it is idle anyway."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from evict.errors import InputError
from evict.sglang.stage_timer import Moment, StageTimer, StageTimes


@dataclass(frozen=True, slots=True)
class StepFacts:
    """What the host knows of a step while it is launched.

    rids, context: one per request of the batch; context is the committed length before the step.
    k: nodes verified, root included. drafted: nodes drawn, root excluded. depth: levels drawn.
    graph: the verification was a graph replay. epoch: of the orders followed.
    """

    epoch: int
    rids: tuple[str, ...]
    context: tuple[int, ...]
    k: int
    drafted: int
    depth: int
    graph: bool

    def __post_init__(self) -> None:
        if not self.rids or len(self.rids) != len(self.context):
            raise InputError(
                "a step record needs one context length per request, at least one",
                seen=f"{len(self.rids)} requests, {len(self.context)} lengths",
            )


@dataclass(frozen=True, slots=True)
class TreeTensors:
    """The whole tree of every request, root first: tokens, parents, scores, each [B, N]."""

    tokens_BN: Tensor
    parents_BN: Tensor
    scores_BN: Tensor


@dataclass(frozen=True, slots=True)
class StepTensors:
    """What only the device knows of a step when it is launched.

    expected: S_k; full: S_N; the root's 1 included in both, one per request [B] or their mean [].
    accept_lens_B: tokens emitted, the bonus token included. union_L: distinct experts per MoE
    layer; loads_L: routed choices per MoE layer.
    """

    expected: Tensor
    full: Tensor
    accept_lens_B: Tensor
    union_L: Tensor | None = None
    loads_L: Tensor | None = None
    tree: TreeTensors | None = None

    def named(self) -> dict[str, Tensor]:
        """The tensors that there are, by field."""
        found = {"expected": self.expected, "full": self.full, "lens": self.accept_lens_B}
        if self.union_L is not None:
            found["union"] = self.union_L
        if self.loads_L is not None:
            found["loads"] = self.loads_L
        if self.tree is not None:
            found["tokens"] = self.tree.tokens_BN
            found["parents"] = self.tree.parents_BN
            found["scores"] = self.tree.scores_BN
        return found


class _HostRows:
    """Host memory of one quantity, a row for every slot; pinned for a CUDA source."""

    def __init__(self, slots: int, like: Tensor) -> None:
        self._dtype, self._pinned = like.dtype, like.is_cuda
        self._width = max(1, like.numel())
        with torch.inference_mode(False):
            self._rows = torch.empty(slots, self._width, dtype=like.dtype, pin_memory=self._pinned)

    def fits(self, value: Tensor) -> bool:
        kind = (value.dtype, value.is_cuda) == (self._dtype, self._pinned)
        return kind and value.numel() <= self._width

    def copy(self, slot: int, value: Tensor) -> Tensor:
        """Queue the copy behind the work launched so far; the host tensor it will fill."""
        row = self._rows[slot, : value.numel()].view(value.shape)
        return row.copy_(value.detach(), non_blocking=True)


@dataclass(frozen=True, slots=True)
class _Slot:
    """Row `index` of every quantity; what was copied to it is there once `fence` is reached."""

    index: int
    fence: Moment


@dataclass(frozen=True, slots=True)
class _Held:
    """A step with its values in host memory."""

    step: int
    facts: StepFacts
    values: Mapping[str, Tensor]


class StepRing:
    """The records of the steps since the last `drain`; `push` never waits for the device.

    capacity: slots whose values may still be on their way. A step beyond it moves the oldest to
    plain host memory; its copy was queued `capacity` steps ago. timer: the one that marks the same
    steps; its numbers are the records' `step`. Only one ring may drain a timer.
    """

    def __init__(self, capacity: int, timer: StageTimer) -> None:
        if capacity < 1:
            raise InputError("a step ring needs a slot", seen=capacity, allowed=">= 1")
        self._timer = timer
        self._free = [_Slot(index, timer.clock()) for index in range(capacity)]
        self._capacity = capacity
        self._rows: dict[str, _HostRows] = {}
        self._waiting: deque[tuple[_Slot, _Held]] = deque()
        self._settled: list[_Held] = []
        self._last: int | None = None

    def __len__(self) -> int:
        """Records that `drain` would give."""
        return len(self._waiting) + len(self._settled)

    def push(self, facts: StepFacts, tensors: StepTensors) -> None:
        """Keep the step that the timer marked last; call it after `StageTimer.after_extend`.

        The tensors may be overwritten by work launched later on the same stream. Raises InputError
        while a step is open, for a step pushed before, and for lengths of another batch.
        """
        step = self._timer.last
        if step is None or step == self._last:
            raise InputError(
                "a record belongs to a complete step that has none yet",
                seen="no complete step" if step is None else f"step {step} again",
                hint="call push once, after the timer's after_extend()",
            )
        _check_batch(facts, tensors)
        values = tensors.named()
        self._make_room(values)
        slot = self._free.pop()
        copies = {name: self._rows[name].copy(slot.index, one) for name, one in values.items()}
        slot.fence.record()
        self._waiting.append((slot, _Held(step, facts, copies)))
        self._last = step

    def drain(self) -> list[dict[str, Any]]:
        """Every record since the last call as JSON-able objects, oldest first; waits for them all.

        Call it where no step follows directly: the last step's interval stays None.
        """
        times = {one.step: one for one in self._timer.drain(synchronize=True)}
        self._settle_all()
        settled, self._settled = self._settled, []
        return [_record(held.facts, held.values, _times(times, held.step)) for held in settled]

    def _make_room(self, values: Mapping[str, Tensor]) -> None:
        for name, value in values.items():
            if name not in self._rows or not self._rows[name].fits(value):
                self._rows[name] = _HostRows(self._capacity, value)
        if not self._free:
            self._settle_oldest()

    def _settle_all(self) -> None:
        while self._waiting:
            self._settle_oldest()

    def _settle_oldest(self) -> None:
        slot, held = self._waiting.popleft()
        slot.fence.synchronize()
        own = {name: value.clone() for name, value in held.values.items()}
        self._settled.append(replace(held, values=own))
        self._free.append(slot)


def _check_batch(facts: StepFacts, tensors: StepTensors) -> None:
    batch, seen = len(facts.rids), tuple(tensors.accept_lens_B.shape)
    if seen != (batch,):
        raise InputError("accept_lens is not of this batch", seen=seen, allowed=f"({batch},)")


def _times(times: Mapping[int, StageTimes], step: int) -> StageTimes:
    if step not in times:
        raise InputError(
            "no stage times of a recorded step: its timer was drained by somebody else", seen=step
        )
    return times[step]


def _record(facts: StepFacts, values: Mapping[str, Tensor], times: StageTimes) -> dict[str, Any]:
    counted = {"loads": values["loads"].tolist()} if "loads" in values else {}
    return {
        "epoch": facts.epoch,
        "step": times.step,
        "rids": list(facts.rids),
        "batch": len(facts.rids),
        "k": facts.k,
        "drafted": facts.drafted,
        "depth": facts.depth,
        "expected": values["expected"].double().mean().item(),
        "full": values["full"].double().mean().item(),
        "accepted": (values["lens"] - 1).tolist(),
        "context": list(facts.context),
        "draft_ms": times.draft_ms,
        "verify_ms": times.verify_ms,
        "extend_ms": times.extend_ms,
        "gap_ms": times.gap_ms,
        "step_ms": times.step_ms,
        "graph": facts.graph,
        "union": values["union"].tolist() if "union" in values else None,
        **counted,
        "tree": _tree(values) if "tokens" in values else None,
    }


def _tree(values: Mapping[str, Tensor]) -> dict[str, Any]:
    return {name: values[name].tolist() for name in ("tokens", "parents", "scores")}

"""Times of a step's stages on the device's own timeline, read when reading them waits for nothing.

A step has four marks: its start, after the draft, after the verification, after the draft
extension. What a step costs is the interval from its start to the next step's start, so that the
gaps between the stages and between the steps are counted too.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol

import torch

from evict.errors import InputError

MARKS = ("start", "after_draft", "after_verify", "after_extend")


class Moment(Protocol):
    """One reusable point on a timeline; `torch.cuda.Event` is one."""

    def record(self) -> Any:
        """Set the point to now, in the order of the work launched so far; waits for nothing."""
        ...

    def synchronize(self) -> Any:
        """Return once the point has been reached."""
        ...

    def elapsed_time(self, end_event: Any) -> float:
        """Milliseconds from here to `end_event`, a moment of the same clock; both reached."""
        ...


Clock = Callable[[], Moment]


class WallMoment:
    """A moment of the host's clock: right where operations run as they are called."""

    def __init__(self, now: Callable[[], int] = time.perf_counter_ns) -> None:
        self._now = now
        self._at_ns = 0

    def record(self) -> None:
        self._at_ns = self._now()

    def synchronize(self) -> None:
        """Nothing to wait for: a host moment is reached when it is recorded."""

    def elapsed_time(self, end_event: WallMoment) -> float:
        return (end_event._at_ns - self._at_ns) / 1e6


def clock_of(device: torch.device | str) -> Clock:
    """Events of the current stream for a CUDA device, the host's clock for any other."""
    if torch.device(device).type == "cuda":
        return partial(torch.cuda.Event, enable_timing=True)
    return WallMoment


@dataclass(frozen=True, slots=True)
class StageTimes:
    """One step, in milliseconds; gap and step are None for the last step of a run.

    step: the number that `StageTimer.start` gave. gap_ms: end of this step to the start of the
    next consecutive one. step_ms: start to start, the sum of the other four.
    """

    step: int
    draft_ms: float
    verify_ms: float
    extend_ms: float
    gap_ms: float | None
    step_ms: float | None


class _Entry:
    """The moments of one step, used again for a later one."""

    def __init__(self, clock: Clock) -> None:
        self.moments = tuple(clock() for _ in MARKS)
        self.reuse(-1)

    def reuse(self, step: int) -> None:
        self.step, self.made, self.followed = step, 0, False

    def mark(self) -> None:
        self.moments[self.made].record()
        self.made += 1

    def times(self, following: Moment | None) -> StageTimes:
        """Waits for the last moment involved."""
        start, draft, verify, extend = self.moments
        (following or extend).synchronize()
        return StageTimes(
            step=self.step,
            draft_ms=start.elapsed_time(draft),
            verify_ms=draft.elapsed_time(verify),
            extend_ms=verify.elapsed_time(extend),
            gap_ms=extend.elapsed_time(following) if following else None,
            step_ms=start.elapsed_time(following) if following else None,
        )


class StageTimer:
    """Marks of the last `depth` steps; a step is read when its marks are needed for a new one.

    Reading is then `depth` steps late and finds its events reached; nothing is ever dropped.
    depth: at least 2, since an interval ends with the next step's start. clock: moments, by
    default those of `device`; all are made here, none per step. Times read are kept on the host
    until `drain`. Raises InputError for a smaller depth and for marks out of order.
    """

    def __init__(
        self, device: torch.device | str, depth: int = 64, clock: Clock | None = None
    ) -> None:
        if depth < 2:
            raise InputError(
                "too few steps in flight for a stage timer", seen=depth, allowed=">= 2"
            )
        self.clock: Clock = clock or clock_of(device)
        self._free = [_Entry(self.clock) for _ in range(depth)]
        self._pending: deque[_Entry] = deque()
        self._open: _Entry | None = None
        self._finished: list[StageTimes] = []
        self._steps = 0
        self._consecutive = False

    @property
    def last(self) -> int | None:
        """Number of the latest step with all its marks; None while a step is open or before one."""
        return None if self._open or not self._pending else self._pending[-1].step

    def start(self) -> int:
        """Mark the start of a step; its number, which grows by one with every start."""
        if self._open is not None:
            raise self._out_of_order("start", self._open)
        if not self._free:
            self._read_oldest()
        entry = self._free.pop()
        entry.reuse(self._steps)
        entry.mark()
        if self._pending:
            self._pending[-1].followed = self._consecutive
        self._pending.append(entry)
        self._open, self._consecutive = entry, True
        self._steps += 1
        return entry.step

    def after_draft(self) -> None:
        """Mark the end of drafting, the choice of k included."""
        self._mark("after_draft")

    def after_verify(self) -> None:
        """Mark the end of verification, sampling and the move of cache rows included."""
        self._mark("after_verify")

    def after_extend(self) -> None:
        """Mark the end of the draft extension: the step is complete."""
        self._mark("after_extend")
        self._open = None

    def break_run(self) -> None:
        """The next step does not follow directly (a prefill ran, the batch changed, a failure).

        The latest step's gap_ms and step_ms become None. A step left open is forgotten.
        """
        self._consecutive = False
        if self._open is not None:
            self._free.append(self._pending.pop())
            self._open = None
            self._unlink_last()

    def drain(self, *, synchronize: bool = False) -> list[StageTimes]:
        """The steps read since the last call, oldest first.

        synchronize: also read every step in flight, waiting for it; this ends the run, so call
        it where no step follows directly.
        """
        if synchronize:
            self.break_run()
            while self._pending:
                self._read_oldest()
        finished, self._finished = self._finished, []
        return finished

    def _mark(self, name: str) -> None:
        entry = self._open
        if entry is None or MARKS[entry.made] != name:
            raise self._out_of_order(name, entry)
        entry.mark()

    def _read_oldest(self) -> None:
        entry = self._pending.popleft()
        following = self._pending[0].moments[0] if entry.followed else None
        self._finished.append(entry.times(following))
        self._free.append(entry)

    def _unlink_last(self) -> None:
        if self._pending:
            self._pending[-1].followed = False

    @staticmethod
    def _out_of_order(name: str, entry: _Entry | None) -> InputError:
        return InputError(
            "a step's marks are made in order, each once",
            seen=name,
            allowed="start" if entry is None else MARKS[entry.made],
            hint="call break_run() where a step was left half way",
        )

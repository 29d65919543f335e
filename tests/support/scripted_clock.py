"""A clock that stands still until told, and knows when it was read."""

from __future__ import annotations

from evict.sglang.stage_timer import StageTimer


class ScriptedClock:
    """Makes moments of one timeline; a moment may be read only after it was waited for.

    now_ms: the time on it. made: moments made so far. waits: `now_ms` at each wait.
    """

    def __init__(self) -> None:
        self.now_ms = 0.0
        self.made = 0
        self.waits: list[float] = []

    def __call__(self) -> ScriptedMoment:
        self.made += 1
        return ScriptedMoment(self)


class ScriptedMoment:
    def __init__(self, clock: ScriptedClock) -> None:
        self._clock = clock
        self.at_ms: float | None = None

    def record(self) -> None:
        self.at_ms = self._clock.now_ms

    def synchronize(self) -> None:
        assert self.at_ms is not None, "waited for a moment that was never recorded"
        self._clock.waits.append(self._clock.now_ms)

    def elapsed_time(self, end_event: ScriptedMoment) -> float:
        assert self._clock.waits, "read before it was waited for"
        assert self.at_ms is not None
        assert end_event.at_ms is not None
        return end_event.at_ms - self.at_ms


def step(timer: StageTimer, clock: ScriptedClock, stages: tuple[int, ...]) -> None:
    """One step: draft, verify, extend and the gap after it, in ms."""
    timer.start()
    for mark, spent in zip(
        (timer.after_draft, timer.after_verify, timer.after_extend), stages, strict=False
    ):
        clock.now_ms += spent
        mark()
    clock.now_ms += stages[3]


def quick_step(timer: StageTimer) -> int:
    number = timer.start()
    timer.after_draft()
    timer.after_verify()
    timer.after_extend()
    return number

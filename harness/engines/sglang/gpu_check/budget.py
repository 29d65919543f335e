"""The time that a check may take: asked before every costly step, enforced by an alarm."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


class OutOfBudget(Exception):
    """No time left for a step, or the whole budget ran out during one."""


class Budget:
    """Seconds from its creation on. clock: monotonic seconds."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.seconds, self._clock = seconds, clock
        self._began = clock()
        self._longest: dict[str, float] = {}

    def spent(self) -> float:
        """Seconds since the start."""
        return self._clock() - self._began

    def left(self) -> float:
        """Seconds that remain, never below 0."""
        return max(0.0, self.seconds - self.spent())

    def need(self, seconds: float, what: str) -> None:
        """OutOfBudget unless that many seconds remain."""
        if self.left() < seconds:
            raise OutOfBudget(
                f"{what} takes about {seconds:.0f} s; "
                f"{self.left():.0f} s of {self.seconds:.0f} s are left"
            )

    @contextmanager
    def timed(self, what: str, guess_s: float) -> Iterator[None]:
        """Do something of which the longest so far, or `guess_s`, must still fit."""
        self.need(self._longest.get(what, guess_s), what)
        began = self.spent()
        yield
        self._longest[what] = max(self._longest.get(what, 0.0), self.spent() - began)


@contextmanager
def alarm(budget: Budget) -> Iterator[None]:
    """Interrupt the block with OutOfBudget when the budget ends; main thread only.

    Nothing rings twice, so that what the block started can be stopped in peace.
    """

    def ring(number: int, frame: FrameType | None) -> None:
        raise OutOfBudget(f"all {budget.seconds:.0f} s are spent")

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, max(budget.left(), 1e-3))
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
        signal.signal(signal.SIGALRM, before)

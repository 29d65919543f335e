"""A clock that stands still until it is told, for anything that takes a source of seconds."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass
class FakeClock:
    """Stands in for time.perf_counter: `Clock(read=FakeClock())`. Seconds."""

    seconds: float = 100.0

    def __call__(self) -> float:
        """The time now."""
        return self.seconds

    def advance(self, seconds: float) -> None:
        """Let time pass; ValueError for a negative amount, which go_back is for."""
        if seconds < 0:
            raise ValueError(f"a clock does not advance by {seconds} s; say go_back")
        self.seconds += seconds

    def go_back(self, seconds: float) -> None:
        """What a monotonic clock never does, and a clock that was set by hand may."""
        self.seconds -= seconds

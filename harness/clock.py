"""The one clock of a process that measures: milliseconds since it began, never the time of day."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Clock:
    """`read` gives monotonic seconds; rows, warm-up and telemetry of one part share one Clock."""

    read: Callable[[], float] = time.perf_counter
    origin: float = field(init=False)

    def __post_init__(self) -> None:
        self.origin = self.read()

    def now_ms(self) -> float:
        """Milliseconds since this clock was made."""
        return (self.read() - self.origin) * 1e3

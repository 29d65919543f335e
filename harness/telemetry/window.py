"""What the measured loop sees of telemetry: a window around each generation, and its samples."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Protocol

from harness.telemetry.sample import Sample


@dataclass
class Window:
    """`samples` of every device, in time, complete once the window has closed."""

    samples: list[Sample] = field(default_factory=list)


class Telemetry(Protocol):
    """Samples inside windows only: one reading at each end, and some between.

    absent: what cannot be read here and why, by name ("cpu.energy": "no RAPL counter is readable").
    """

    absent: dict[str, str]

    def window(self) -> AbstractContextManager[Window]: ...

    def close(self) -> None: ...


class NoTelemetry:
    """Reads nothing: for engines whose times are not measured."""

    def __init__(self, reason: str = "not sampled") -> None:
        self.absent = {"cpu": reason, "gpu": reason}

    @contextmanager
    def window(self) -> Iterator[Window]:
        """A window without samples."""
        yield Window()

    def close(self) -> None:
        """Nothing to let go of."""

"""One line of the doctor's screen, and what checks may look at."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from harness.hardware.processes import Watch

OK, WARN, BAD = "ok", "warn", "bad"
LEVELS = (OK, WARN, BAD)


@dataclass(frozen=True)
class Check:
    """level: ok | warn (a measurement may suffer) | bad (it would be worthless or fail)."""

    name: str
    level: str
    text: str
    hint: str = ""


@dataclass(frozen=True)
class Here:
    """results: where runs would go. watch: the load that others make, seen since this was made."""

    results: Path
    watch: Watch = field(default_factory=Watch)


Checker = Callable[[Here], list[Check]]


def fit(checks: Iterable[Check]) -> bool:
    """Whether nothing is bad."""
    return all(check.level != BAD for check in checks)

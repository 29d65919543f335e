"""What a fault-injection run came to, in one line."""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field

from tests.faults.phases import PHASES

KINDS = ("lost", "duplicates", "wrongly ok", "orphans", "outputs differ", "unexpected")


@dataclass
class Tally:
    """kills by phase; faults by kind; wrong: what did not hold, by kind, in words."""

    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in KINDS})
    sweeps: int = 0
    rows: int = 0
    again: int = 0
    rescued: int = 0
    seconds: float = 0.0

    @property
    def good(self) -> bool:
        """Whether everything held."""
        return not any(self.wrong.values())

    def add(self, found: dict[str, list[str]], when: str) -> None:
        """Take down what did not hold."""
        for kind, named in found.items():
            self.wrong[kind] += [f"{when}: {one}" for one in named]
            for one in named:
                print(f"{kind}: {when}: {one}", file=sys.stderr, flush=True)

    def join(self, other: Tally) -> None:
        """Take in what ran beside this one; the time is that of the longer."""
        self.kills += other.kills
        self.faults += other.faults
        for kind, named in other.wrong.items():
            self.wrong[kind] += named
        self.sweeps, self.rows = self.sweeps + other.sweeps, self.rows + other.rows
        self.again, self.rescued = self.again + other.again, self.rescued + other.rescued
        self.seconds = max(self.seconds, other.seconds)

    def line(self) -> str:
        """The whole figure."""
        kills = ", ".join(f"{phase} {self.kills[phase]}" for phase in PHASES)
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        held = ", ".join(f"{kind} {len(named)}" for kind, named in self.wrong.items())
        return (
            f"kills {self.kills.total()} ({kills}); faults {self.faults.total()} ({faults}); "
            f"sweeps {self.sweeps}, rows finished {self.rows}, {held}; "
            f"harmed rows measured again {self.again}, rescued {self.rescued}; "
            f"{self.seconds / 60:.1f} min"
        )

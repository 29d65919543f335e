"""Readings of the processor: our CPU time and memory, everyone's CPU time, the package's energy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.hardware.cpu import RaplCounter, busy_seconds
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sample import CPU, Sample

ENERGY = "cpu.energy"
LOAD = "cpu.load"


@dataclass
class CpuProbe:
    """One sample per reading. rapl: the energy counter, or why there is none.

    busy: busy seconds of all cores of the machine so far, None where nobody tells. absent: what
    is not read and why: "cpu.energy", "cpu.load".
    """

    tree: ProcessTree
    rapl: RaplCounter | str
    busy: Callable[[], float | None] = busy_seconds
    name: str = CPU
    absent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.rapl, str):
            self.absent[ENERGY] = self.rapl

    def prepare(self) -> None:
        """Look for processes that were started since; done before a window opens."""
        self.tree.refresh()

    def read(self, at_ms: float) -> list[Sample]:
        """The processor now. psutil.Error when this very process cannot be read."""
        machine = self.busy()
        if machine is None:
            self.absent[LOAD] = "the busy time of the processor cannot be read"
        seconds, resident_mib = self.tree.read()
        return [
            Sample(
                at_ms=at_ms,
                device=CPU,
                own_cpu_s=seconds,
                machine_cpu_s=machine,
                memory_mib=resident_mib,
                energy_j=self._energy(),
            )
        ]

    def close(self) -> None:
        """Nothing to let go of."""

    def _energy(self) -> float | None:
        if isinstance(self.rapl, str):
            return None
        try:
            return self.rapl.read_j()
        except (OSError, ValueError) as error:
            self.rapl = self.absent[ENERGY] = f"RAPL can no longer be read: {error}"
            return None

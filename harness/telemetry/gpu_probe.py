"""Readings of the GPUs that this process may use, and whether somebody else uses them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from harness.hardware.gpu import Gpu, GpuSession
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sample import Sample


@dataclass
class GpuProbe:
    """One sample per GPU and reading: "gpu0", "gpu1", .... tree: processes that are ours.

    absent: what the driver did not tell and why, by device and name ("gpu0.energy").
    """

    session: GpuSession
    tree: ProcessTree
    name: str = "gpu"
    absent: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.session.reason is not None:
            self.absent[self.name] = self.session.reason

    def prepare(self) -> None:
        """Look for processes that were started since; done before a window opens."""
        self.tree.refresh()

    def read(self, at_ms: float) -> list[Sample]:
        """All GPUs now."""
        return [self._one(gpu, at_ms) for gpu in self.session.gpus]

    def close(self) -> None:
        """Let go of the driver."""
        self.session.close()

    def _one(self, gpu: Gpu, at_ms: float) -> Sample:
        """A process that is not ours is looked up once more: it may have started since."""
        reading = gpu.read(self.tree.pids)
        if reading.foreign:
            self.tree.list_again()
            reading = gpu.read(self.tree.pids)
        device = f"gpu{gpu.index}"
        for name, reason in gpu.absent.items():
            self.absent[f"{device}.{_without_unit(name)}"] = reason
        return Sample(at_ms=at_ms, device=device, **asdict(reading))


def _without_unit(name: str) -> str:
    head, _, unit = name.rpartition("_")
    return head if unit in ("mhz", "w", "j", "mib", "c") else name

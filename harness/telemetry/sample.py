"""One reading of one device; the rows of telemetry.parquet. The schema, and nothing else."""

from __future__ import annotations

from dataclasses import dataclass

from harness.records import Plain

CPU = "cpu"


@dataclass(slots=True)
class Sample(Plain):
    """A reading at `at_ms` (the part's clock, as RequestRecord.started_ms). Unread values are None.

    device: "cpu" or "gpu0", "gpu1", .... Counters only grow: own_cpu_s is the CPU time of the
    harness and all its descendants, machine_cpu_s the busy time of all cores, energy_j the device's
    energy. memory_mib: resident memory of the own processes, or the GPU's memory in use. busy: the
    share of time the GPU was in use, 0..1. throttle: the reasons that lower its clocks,
    comma-separated, "" for none. foreign: processes on the GPU that are not ours.
    """

    at_ms: float
    device: str
    own_cpu_s: float | None = None
    machine_cpu_s: float | None = None
    memory_mib: float | None = None
    clock_mhz: float | None = None
    power_w: float | None = None
    energy_j: float | None = None
    busy: float | None = None
    temperature_c: float | None = None
    throttle: str | None = None
    foreign: int | None = None

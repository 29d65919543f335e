"""What a run's windows add up to: processor time, memory, energy, clocks, other users."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.telemetry.energy import total_energy
from harness.telemetry.readings import Floats, Readings, good_rows, readings

BUSY = 0.1
BLOCK_S = 2.0
LEAST_S = 0.5


@dataclass(frozen=True)
class Usage:
    """Good rows of one run, inside their windows only. None: not read, or not in every row.

    cpu_s: of the harness and its descendants. others_cores: see `others_cores`. memory: resident
    memory of the own processes; memory in use on the GPUs, summed. energy_j: of the GPUs if the run
    has any, else of the processor; energy_source names the devices, energy_reason says why there is
    none. j_per_token: over committed tokens, those of decode and the one of each prefill. A busy
    sample: the GPU was in use for a tenth of the time before it; foreign: the most at one time.
    All that is said of GPUs leaves out those that stood idle beside the run.
    """

    cpu_s: float | None = None
    others_cores: float | None = None
    memory_peak_mib: float | None = None
    gpu_memory_peak_mib: float | None = None
    energy_j: float | None = None
    energy_reason: str | None = None
    energy_source: str | None = None
    j_per_token: float | None = None
    gpu_clock_mhz: float | None = None
    busy_samples: int = 0
    busy_share: float | None = None
    throttle: tuple[str, ...] = ()
    foreign: int | None = None
    temperature_c_max: float | None = None


def usages(telemetry: pd.DataFrame, requests: pd.DataFrame) -> dict[str, Usage]:
    """By run, for every run with a row. Frames as in Collection: telemetry holds Sample's fields.

    J/token needs `decode_tokens` in every good row.
    """
    good = good_rows(requests)
    found = readings(telemetry, good)
    tokens = _tokens(good)
    return {
        str(run): _usage(found.get(str(run), []), tokens.get(str(run), np.empty(0)))
        for run in requests["run"].unique()
    }


def others_cores(cpu: Readings) -> float | None:
    """Cores that other processes kept busy: the median over blocks of generations, at least 0.

    Counters tick every 10 ms, so a generation of 0.4 s alone says this to a tenth of a core or
    worse. Generations are therefore pooled in blocks of about 2 s; the median over blocks tells a
    machine that is shared from one that was disturbed once. None below 0.5 s.
    """
    duration_W = cpu.across("at_ms") / 1e3
    others_W = cpu.across("machine_cpu_s") - cpu.across("own_cpu_s")
    known_W = (duration_W > 0) & ~np.isnan(others_W)
    duration_W, others_W = duration_W[known_W], others_W[known_W]
    total = float(duration_W.sum())
    if total < LEAST_S:
        return None
    blocks = max(1, int(total / BLOCK_S))
    middle_W = np.cumsum(duration_W) - duration_W / 2
    block_W = np.minimum((middle_W * blocks / total).astype(int), blocks - 1)
    seconds_B = np.bincount(block_W, duration_W, blocks)
    others_B = np.bincount(block_W, others_W, blocks)
    seen_B = seconds_B > 0
    return max(0.0, float(np.median(others_B[seen_B] / seconds_B[seen_B])))


def _tokens(good: pd.DataFrame) -> dict[str, Floats]:
    """Committed tokens of each good row, prefill's included; NaN where nobody counted."""
    decode = pd.to_numeric(good["decode_tokens"]).astype(float)
    groups = (decode + 1).groupby(good["run"].astype(str), sort=False)
    return {str(run): np.asarray(values, dtype=np.float64) for run, values in groups}


def _usage(devices: Sequence[Readings], tokens: Floats) -> Usage:
    cpus = [device for device in devices if device.is_cpu]
    gpus = _used([device for device in devices if not device.is_cpu])
    usage = _with_energy(Usage(), gpus or cpus, tokens)
    for cpu in cpus:
        usage = _with_cpu(usage, cpu, len(tokens))
    return _with_gpus(usage, gpus) if gpus else usage


def _used(gpus: Sequence[Readings]) -> list[Readings]:
    """Those that were busy at some time, or may have been; all where none was."""
    used = [gpu for gpu in gpus if not _most(gpu, "busy") < BUSY]
    return used or list(gpus)


def _with_energy(usage: Usage, devices: Sequence[Readings], tokens: Floats) -> Usage:
    energy_j, reason = total_energy(devices, len(tokens))
    committed = float(tokens.sum())
    per_token = energy_j / committed if energy_j is not None and committed > 0 else None
    source = " + ".join(device.device for device in devices)
    return replace(
        usage,
        energy_j=energy_j,
        energy_reason=reason,
        energy_source=source if energy_j is not None else None,
        j_per_token=per_token,
    )


def _with_cpu(usage: Usage, cpu: Readings, generations: int) -> Usage:
    own_W = cpu.across("own_cpu_s")
    complete = len(own_W) == generations
    return replace(
        usage,
        cpu_s=_known(own_W.sum()) if complete else None,
        others_cores=others_cores(cpu),
        memory_peak_mib=_known(_most(cpu, "memory_mib")),
    )


def _with_gpus(usage: Usage, gpus: Sequence[Readings]) -> Usage:
    busy_N, clock_N = (_joined(gpus, name) for name in ("busy", "clock_mhz"))
    in_use_N = busy_N >= BUSY
    told = int(np.count_nonzero(~np.isnan(busy_N)))
    clocks = clock_N[in_use_N & ~np.isnan(clock_N)]
    texts = set(np.concatenate([gpu.throttle for gpu in gpus]))
    return replace(
        usage,
        gpu_memory_peak_mib=_known(sum(_most(gpu, "memory_mib") for gpu in gpus)),
        gpu_clock_mhz=float(np.median(clocks)) if len(clocks) else None,
        busy_samples=int(np.count_nonzero(in_use_N)),
        busy_share=float(np.count_nonzero(in_use_N) / told) if told else None,
        throttle=tuple(sorted({word for text in texts for word in text.split(",")} - {""})),
        foreign=_foreign(_joined(gpus, "foreign")),
        temperature_c_max=_known(np.fmax.reduce(_joined(gpus, "temperature_c"))),
    )


def _foreign(foreign_N: Floats) -> int | None:
    """The most that was seen; none at all only if that was told every time."""
    most = np.fmax.reduce(foreign_N)
    return int(most) if most > 0 or not np.isnan(foreign_N).any() else None


def _joined(devices: Sequence[Readings], name: str) -> Floats:
    return np.concatenate([device.numbers[name] for device in devices])


def _most(device: Readings, name: str) -> float:
    """The largest value that was read, NaN if none was."""
    return float(np.fmax.reduce(device.numbers[name]))


def _known(value: float) -> float | None:
    return None if np.isnan(value) else float(value)

"""What a device can move and multiply: data-sheet peaks, and the shares of them that are real."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf

from evict.errors import InputError
from harness.hardware.memory import memory_facts

FOLDER = Path(__file__).resolve().parents[2] / "conf" / "hardware"
THIS = "this"
MEASURED_MIB = 64
MATRIX_SIZE = 768
REPEATS = 5


@dataclass(frozen=True)
class Hardware:
    """One device. Units are in the names; the two efficiencies are shares in (0, 1].

    bandwidth_gb_s, matrix_tflops: the data sheet's peaks (BF16, dense). link_gb_s: one direction.
    kernel_us: start, ramp and drain of one kernel of a replayed graph. collective_us: one small
    all-reduce. host_us: time per step outside the graphs.
    """

    name: str
    label: str
    memory_gib: float
    bandwidth_gb_s: float
    matrix_tflops: float
    link_gb_s: float
    bandwidth_efficiency: float
    matrix_efficiency: float
    kernel_us: float
    collective_us: float
    host_us: float

    def __post_init__(self) -> None:
        for field in fields(self)[2:]:
            _check(self.name, field.name, getattr(self, field.name))

    def move_ms(self, amount_bytes: float) -> float:
        """Milliseconds to read this many bytes from memory."""
        return amount_bytes / (self.bandwidth_gb_s * self.bandwidth_efficiency * 1e6)

    def multiply_ms(self, flops: float) -> float:
        """Milliseconds for this many floating-point operations in matrix products."""
        return flops / (self.matrix_tflops * self.matrix_efficiency * 1e9)

    def reduce_ms(self, amount_bytes: float, devices: int) -> float:
        """Milliseconds of one small all-reduce over `devices`; 0 for one device.

        In one shot, as decode uses it: every device reads the whole message of all others.
        """
        if devices == 1:
            return 0.0
        return self.collective_us / 1e3 + amount_bytes * (devices - 1) / (self.link_gb_s * 1e6)


def known_hardware(folder: Path = FOLDER) -> dict[str, Path]:
    """The devices of conf/hardware with a data sheet, by name; `this` machine has none."""
    return {file.stem: file for file in sorted(folder.glob("*.yaml")) if file.stem != THIS}


def load_hardware(name: str, folder: Path = FOLDER) -> Hardware:
    """The device of conf/hardware/<name>.yaml, or `this` machine, measured in about a second."""
    if name == THIS:
        return measure_this()
    known = known_hardware(folder)
    if name not in known:
        raise InputError(
            "unknown hardware",
            seen=name,
            allowed=", ".join([*known, THIS]),
            hint="hardware=a100_80",
        )
    return from_document(OmegaConf.to_container(OmegaConf.load(known[name])), str(known[name]))


def from_document(document: Any, source: str) -> Hardware:
    """A device from plain data; InputError for unknown or missing entries."""
    names = {field.name for field in fields(Hardware)}
    given = set(document) if isinstance(document, dict) else set()
    if wrong := given ^ names:
        raise InputError(
            f"{source}: unknown or missing entries",
            seen=", ".join(sorted(map(str, wrong))),
            allowed=", ".join(sorted(names)),
        )
    return Hardware(**document)


def measure_this() -> Hardware:
    """Bandwidth, float32 matrix rate and the cost of a small operation of this processor."""
    source = torch.ones(MEASURED_MIB * 2**20 // 4)
    target = torch.empty_like(source)
    matrix = torch.ones(MATRIX_SIZE, MATRIX_SIZE)
    small = torch.ones(8)
    moved_bytes = 2.0 * source.numel() * source.element_size()
    bandwidth = moved_bytes / _fastest_s(lambda: target.copy_(source)) / 1e9
    rate = 2.0 * MATRIX_SIZE**3 / _fastest_s(lambda: matrix @ matrix) / 1e12
    return Hardware(
        name=THIS,
        label="this machine (measured)",
        memory_gib=memory_facts()["usable_gib"],
        bandwidth_gb_s=bandwidth,
        matrix_tflops=rate,
        link_gb_s=bandwidth,
        bandwidth_efficiency=1.0,
        matrix_efficiency=1.0,
        kernel_us=_fastest_s(lambda: small.add(1.0)) * 1e6,
        collective_us=0.0,
        host_us=0.0,
    )


def _fastest_s(work: Callable[[], object]) -> float:
    work()
    times = []
    for _ in range(REPEATS):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return max(min(times), 1e-9)


def _check(device: str, name: str, value: object) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    zero_allowed = name.endswith("_us")
    low = number and (value >= 0 if zero_allowed else value > 0)  # type: ignore[operator]
    high = not name.endswith("_efficiency") or (number and value <= 1)  # type: ignore[operator]
    if not (number and low and high):
        share = "a share in (0, 1]" if name.endswith("_efficiency") else "a positive number"
        raise InputError(f"hardware {device}: {name}", seen=repr(value), allowed=share)

"""Readings of GPUs through NVML's stand-in: values, units, devices, and whose processes run."""

from __future__ import annotations

import os
import subprocess
import sys

import pynvml
import pytest

from harness.hardware.gpu import open_gpus
from harness.telemetry.gpu_probe import GpuProbe
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sample import Sample
from tests.support.fake_clock import FakeClock
from tests.support.fake_nvml import LOST, NOT_SUPPORTED, FakeGpu, FakeNvml

ELSE = 2**22 + 7  # above the largest process id


def probe(*gpus: FakeGpu, **nvml: object) -> GpuProbe:
    return GpuProbe(open_gpus(FakeNvml(gpus, **nvml)), ProcessTree(FakeClock()))  # type: ignore[arg-type]


def test_a_sample_holds_what_the_driver_tells() -> None:
    gpu = FakeGpu(
        clock_mhz=1965,
        power_w=412.5,
        energy_j=1234.5,
        busy=0.5,
        memory_used_mib=2048,
        temperature_c=61,
        throttle=pynvml.nvmlClocksEventReasonSwThermalSlowdown,
        processes=(os.getpid(),),
    )
    assert probe(gpu).read(7.0) == [
        Sample(
            at_ms=7.0,
            device="gpu0",
            memory_mib=2048.0,
            clock_mhz=1965.0,
            power_w=412.5,
            energy_j=1234.5,
            busy=0.5,
            temperature_c=61.0,
            throttle="sw_thermal",
            foreign=0,
        )
    ]


def test_each_gpu_has_a_name_of_its_own() -> None:
    samples = probe(FakeGpu(power_w=100.0), FakeGpu(power_w=300.0)).read(0.0)
    assert [(one.device, one.power_w) for one in samples] == [("gpu0", 100.0), ("gpu1", 300.0)]


def test_what_is_not_told_is_none_and_named() -> None:
    found = probe(FakeGpu(), FakeGpu(energy_j=NOT_SUPPORTED, temperature_c=NOT_SUPPORTED))
    first, second = found.read(0.0)
    assert first.energy_j is not None
    assert (second.energy_j, second.temperature_c) == (None, None)
    assert second.power_w is not None
    assert found.absent == {"gpu1.energy": "Not Supported", "gpu1.temperature": "Not Supported"}


def test_a_gpu_that_is_lost_later_is_named() -> None:
    found = probe(FakeGpu(clock_mhz=[1980, LOST]))
    assert found.read(0.0)[0].clock_mhz == 1980.0
    assert found.absent == {}
    assert found.read(1.0)[0].clock_mhz is None
    assert found.absent == {"gpu0.clock": "GPU is lost"}


def test_no_driver_is_named_and_gives_no_sample() -> None:
    found = probe(init=pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND))
    assert found.read(0.0) == []
    assert "driver" in found.absent["gpu"]


@pytest.mark.parametrize(
    ("processes", "foreign"),
    [((), 0), ((os.getpid(),), 0), ((ELSE,), 1), ((os.getpid(), ELSE, ELSE + 1), 2)],
)
def test_only_processes_of_others_are_foreign(processes: tuple[int, ...], foreign: int) -> None:
    assert probe(FakeGpu(processes=processes)).read(0.0)[0].foreign == foreign


def test_whose_a_process_of_another_namespace_is_nobody_can_tell() -> None:
    found = probe(FakeGpu(processes=(ELSE,)), unseen=frozenset({ELSE}))
    assert found.read(0.0)[0].foreign is None
    assert "namespace" in found.absent["gpu0.foreign"]


def test_an_engine_that_was_started_since_is_not_foreign() -> None:
    """Its process is not listed yet, and the list is not due: a run must not fail for that."""
    gpu = FakeGpu()
    found = probe(gpu)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as engine:
        gpu.processes = (engine.pid,)
        assert engine.pid not in found.tree.pids
        assert found.read(0.0)[0].foreign == 0
        engine.communicate(b"\n")


def test_close_lets_go_of_the_driver() -> None:
    nvml = FakeNvml()
    found = GpuProbe(open_gpus(nvml), ProcessTree())
    assert nvml.opened == 1
    found.close()
    found.close()
    assert nvml.opened == 0

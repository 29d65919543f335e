from __future__ import annotations

import pynvml

from harness.doctor import gpus as gpu_checks
from harness.doctor.check import BAD, OK, WARN, Check
from harness.hardware.gpu import open_gpus
from tests.support.fake_nvml import LOST, NOT_SUPPORTED, FakeGpu, FakeNvml


def gpu_lines(*gpus: FakeGpu) -> list[Check]:
    return gpu_checks.gpu_lines(open_gpus(FakeNvml(gpus)), {1})


def troubles(gpu: FakeGpu) -> list[tuple[str, str]]:
    return [(line.level, line.text) for line in gpu_lines(gpu)[1:]]


def test_no_gpu_is_a_fact_and_no_fault() -> None:
    (line,) = gpu_lines()
    assert line.level == OK
    assert "sees no GPU" in line.text


def test_a_good_gpu_is_one_line_with_its_clocks_and_limits() -> None:
    (line,) = gpu_lines(FakeGpu(clock_mhz=1755, power_w=99, temperature_c=41))
    assert line.level == OK
    for words in ("H100", "80 GiB", "1755 of 1980 MHz", "99 of 700 W", "41 °C", "570.86.15"):
        assert words in line.text


def test_each_trouble_of_a_gpu_is_a_line_of_its_own() -> None:
    assert troubles(FakeGpu(processes=(1, 9))) == [(BAD, "others use it: process-9")]
    assert troubles(FakeGpu(processes=NOT_SUPPORTED))[0][0] == WARN
    hot = FakeGpu(throttle=pynvml.nvmlClocksEventReasonHwThermalSlowdown)
    assert troubles(hot) == [(WARN, "its clocks are lowered: hw_thermal")]
    assert "500 W" in troubles(FakeGpu(power_limit_w=500))[0][1]
    assert "unloads" in troubles(FakeGpu(persistent=False))[0][1]
    assert troubles(FakeGpu(energy_j=LOST)) == [
        (WARN, "its energy counter cannot be read: GPU is lost")
    ]
    assert len(gpu_lines(FakeGpu(), FakeGpu(persistent=False))) == 3

"""Cases 34, 46: runs and comparisons whose clocks, settings or neighbours put them in doubt.

Every run is written to files and judged from them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pynvml
import pytest

from harness.collect import collect
from harness.hardware.gpu import open_gpus
from harness.validity.foreign import foreign_processes
from tests.support.fake_nvml import FakeGpu, FakeNvml
from tests.support.recorded_run import Recorded, plain
from tests.support.verdicts import against, judged, on_gpu, row

FOREIGN_PID = 4_000_000  # above the kernel's largest pid
NO_DRIVER = pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)


def gpu_row(results: Path, nvml: FakeNvml, **changes: Any) -> dict[str, Any]:
    made = on_gpu(nvml, Recorded, **changes)(results)
    return row(collect(results), made)


def test_case_46_a_foreign_process_is_refused_or_warned_of_and_spoils_the_run(
    tmp_path: Path,
) -> None:
    """Careless: whoever else computes on the GPU is not looked for."""
    nvml = FakeNvml([FakeGpu(processes=(FOREIGN_PID,))])
    session = open_gpus(nvml)
    before = foreign_processes([gpu.state(own_pids=()) for gpu in session.gpus])
    assert before == [f"GPU 0: process-{FOREIGN_PID}"]
    found = gpu_row(tmp_path, nvml)
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["foreign_gpu_process"])
    assert found["counts_verdict"] == "valid"


def test_case_46_b_arms_at_other_clocks_are_not_compared(tmp_path: Path) -> None:
    """Careless: 1965 MHz against 1580 MHz is called a speedup of 1.24."""
    fast = on_gpu(FakeNvml([FakeGpu(clock_mhz=1965)]), Recorded)(tmp_path)
    slow = on_gpu(FakeNvml([FakeGpu(clock_mhz=1580)]), plain)(tmp_path)
    data = collect(tmp_path)
    assert {row(data, run)["verdict"] for run in (fast, slow)} == {"valid"}
    found = against(data, [fast], [slow])
    assert (found.verdict.state, found.verdict.codes) == ("invalid", ["clocks_differ"])
    assert "clocks differ 19.6 % (1965 and 1580 MHz)" in found.verdict.text()
    assert found.found.ratio is None


def test_case_46_b_clocks_that_wander_a_little_are_compared(tmp_path: Path) -> None:
    """Careless: no clock is ever the same twice, so nothing may be compared."""
    one = on_gpu(FakeNvml([FakeGpu(clock_mhz=1965)]), Recorded)(tmp_path)
    other = on_gpu(FakeNvml([FakeGpu(clock_mhz=1930)]), plain)(tmp_path)
    found = against(collect(tmp_path), [one], [other])
    assert (found.verdict.state, found.found.ratio) == ("valid", pytest.approx(2.0))


def test_case_46_c_ten_busy_samples_are_too_few(tmp_path: Path) -> None:
    """Careless: a median over a handful of samples."""
    found = gpu_row(tmp_path, FakeNvml(), prompts=5)
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["few_busy_samples"])
    assert "too few busy samples: 10" in found["verdict_text"]


def test_case_46_d_a_gpu_busy_for_a_third_of_the_samples_is_too_rarely_seen(
    tmp_path: Path,
) -> None:
    """Careless: enough busy samples, and nobody asks how many were idle."""
    busy = [0.9] * 24 + [0.0]
    found = gpu_row(tmp_path, FakeNvml([FakeGpu(busy=busy)]), prompts=40)
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["few_busy_samples"])
    assert "too few busy samples: 24, a share of 0.30" in found["verdict_text"]


def test_case_46_e_a_throttled_gpu_is_flagged(tmp_path: Path) -> None:
    """Careless: clocks that heat lowered are taken for the GPU's own."""
    hot = FakeNvml([FakeGpu(throttle=pynvml.nvmlClocksEventReasonHwThermalSlowdown)])
    found = gpu_row(tmp_path, hot)
    assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["throttled"])
    assert "hw_thermal" in found["verdict_text"]


def test_case_46_f_a_clean_gpu_is_valid(tmp_path: Path) -> None:
    """Careless: an alarm for every run, so that nobody reads it."""
    found = gpu_row(tmp_path, FakeNvml())
    assert (found["verdict"], found["verdict_text"]) == ("valid", "valid")


def test_case_46_no_nvml_is_unknown_never_ok(tmp_path: Path) -> None:
    """Careless: what nobody could look at is taken for clean."""
    found = gpu_row(tmp_path, FakeNvml(init=NO_DRIVER))
    assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["no_gpu_telemetry"])
    assert "no NVIDIA driver" in found["verdict_text"]


@pytest.mark.parametrize(
    ("gpu", "named"),
    [
        (FakeGpu(clock_mhz=pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)), "clocks"),
        (FakeGpu(processes=(FOREIGN_PID,)), "processes of others"),
        (FakeGpu(throttle=pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)), "throttle reasons"),
    ],
)
def test_case_46_an_nvml_that_tells_a_part_is_unknown_too(
    tmp_path: Path, gpu: FakeGpu, named: str
) -> None:
    """Careless: one readable value clears the run of all the others."""
    found = gpu_row(tmp_path, FakeNvml([gpu], unseen=frozenset({FOREIGN_PID})))
    assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["no_gpu_telemetry"])
    assert f"not told: {named}" in found["verdict_text"]


SERVER = {
    "speculative_algorithm": "EAGLE3",
    "max_running_requests": "4096",
    "disable_cuda_graph": "false",
    "attention_backend": "fa3",
    "mem_fraction_static": "0.85",
}
CHANGED = {
    "max_running_requests": "48",
    "disable_cuda_graph": "true",
    "attention_backend": "flashinfer",
    "mem_fraction_static": "0.7",
}


def test_case_34_fingerprints_that_differ_are_not_compared_and_say_in_what(tmp_path: Path) -> None:
    """Careless: speculation lowered the server's limits, and the speedup hides it."""
    method, base = Recorded(read_back=SERVER), plain(read_back={**SERVER, **CHANGED})
    found = against(judged(tmp_path, method, base), [method], [base])
    assert (found.verdict.state, found.verdict.codes) == ("invalid", ["not_comparable"])
    assert found.found.ratio is None
    for name, value in CHANGED.items():
        assert f"effective.{name}: {SERVER[name]} and {value}" in found.verdict.text()


def test_case_34_fingerprints_that_differ_in_speculation_alone_are_compared(
    tmp_path: Path,
) -> None:
    """Careless: the treatment itself is a reason not to compare."""
    method = Recorded(read_back=SERVER)
    base = plain(read_back={**SERVER, "speculative_algorithm": "none"})
    found = against(judged(tmp_path, method, base), [method], [base])
    assert (found.verdict.state, found.found.ratio) == ("valid", pytest.approx(2.0))

"""Readings of the processor: who used it, and its energy where a counter is readable."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from harness.clock import Clock
from harness.hardware.cpu import busy_seconds, open_rapl
from harness.telemetry.cpu_probe import CpuProbe
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sampler import Sampler, open_telemetry
from harness.telemetry.usage import Usage, usages
from tests.support.fake_clock import FakeClock
from tests.support.readings import requests, telemetry

SPIN = "import time\nend = time.time() + 60\nwhile time.time() < end: pass"
SECONDS = 1.2


@pytest.fixture
def powercap(tmp_path: Path) -> Path:
    package = tmp_path / "intel-rapl:0"
    package.mkdir()
    (package / "name").write_text("package-0\n")
    (package / "max_energy_range_uj").write_text("262143328850\n")
    (package / "energy_uj").write_text("5000000\n")
    return tmp_path


def test_energy_comes_from_the_package_until_it_cannot_be_read(powercap: Path) -> None:
    counter = powercap / "intel-rapl:0" / "energy_uj"
    probe = CpuProbe(ProcessTree(), open_rapl(powercap))
    assert probe.absent == {}
    before = probe.read(0.0)[0].energy_j
    counter.write_text("47000000\n")
    after = probe.read(1.0)[0].energy_j
    assert before is not None
    assert after is not None
    assert after - before == 42.0
    counter.unlink()
    assert probe.read(2.0)[0].energy_j is None
    assert probe.absent["cpu.energy"].startswith("RAPL can no longer be read")
    counter.write_text("48000000\n")
    assert probe.read(3.0)[0].energy_j is None, "asked again"


def test_without_a_counter_energy_is_none_and_says_why(tmp_path: Path) -> None:
    probe = CpuProbe(ProcessTree(), open_rapl(tmp_path))
    assert probe.read(0.0)[0].energy_j is None
    assert "RAPL" in probe.absent["cpu.energy"]


def test_a_machine_that_does_not_tell_its_load_is_named() -> None:
    probe = CpuProbe(ProcessTree(), "none", busy=lambda: None)
    sample = probe.read(0.0)[0]
    assert sample.machine_cpu_s is None
    assert sample.own_cpu_s is not None
    assert probe.absent["cpu.load"]


@contextmanager
def own_process() -> Iterator[psutil.Process]:
    """A child of this process that keeps a core busy."""
    child = subprocess.Popen([sys.executable, "-c", SPIN])
    try:
        yield psutil.Process(child.pid)
    finally:
        child.kill()
        child.wait()


@contextmanager
def foreign_process() -> Iterator[psutil.Process]:
    """The same with no parent of ours: it was left behind before anybody listed it."""
    code = (
        "import subprocess, sys\n"
        f"print(subprocess.Popen([sys.executable, '-c', {SPIN!r}], stdout=-3, stderr=-3).pid)"
    )
    left = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    process = psutil.Process(int(left.stdout))
    try:
        yield process
    finally:
        process.kill()


def measured(process: psutil.Process) -> tuple[Usage, float]:
    """What six windows of the real probes say, and what the process itself used in them."""
    sampler = open_telemetry("cpu", Clock(), 0.05)
    used, rows = 0.0, []
    for index in range(6):
        with sampler.window() as window:
            before = sum(process.cpu_times()[:2])
            time.sleep(SECONDS / 6)
            used += sum(process.cpu_times()[:2]) - before
        key = {"run": "run", "prompt_id": f"p{index}", "turn": 0, "repeat": 0}
        rows.append([{**key, **sample.to_dict()} for sample in window.samples])
    sampler.close()
    good = requests({f"p{index}": 9 for index in range(6)})
    return usages(telemetry(*rows), good)["run"], used


@pytest.mark.skipif(busy_seconds() is None, reason="this machine does not tell its load")
def test_load_of_others_is_seen_whatever_else_runs() -> None:
    with foreign_process() as process:
        usage, used = measured(process)
    assert used > 0.1
    assert usage.others_cores is not None
    assert usage.others_cores >= 0.7 * used / SECONDS
    assert usage.cpu_s is not None
    assert usage.cpu_s < 0.5 * used, "somebody else's time is taken for ours"


def test_time_of_a_child_is_ours() -> None:
    with own_process() as process:
        usage, used = measured(process)
    assert used > 0.1
    assert usage.cpu_s is not None
    assert usage.cpu_s >= 0.8 * used
    assert usage.memory_peak_mib is not None
    assert usage.memory_peak_mib > psutil.Process().memory_info().rss / 2**20


def test_processes_started_before_a_window_are_looked_for_as_it_opens() -> None:
    clock = FakeClock()
    tree = ProcessTree(clock)
    sampler = Sampler([CpuProbe(tree, "none")], Clock(), 60.0)
    with own_process() as process:
        clock.advance(2.0)
        with sampler.window():
            assert process.pid in tree.pids
    sampler.close()

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.config import ROOT
from harness.hardware import cpu
from harness.hardware.cgroup import core_quota, memory_limit

SECONDS = st.floats(0, 1e6)


def write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@given(user=SECONDS, system=SECONDS, stolen=SECONDS, idle=SECONDS, guest=SECONDS)
def test_busy_is_all_that_is_not_waiting_counted_once(
    user: float, system: float, stolen: float, idle: float, guest: float
) -> None:
    times = {"user": user, "system": system, "steal": stolen, "idle": idle, "iowait": idle}
    assert cpu.busy_of(times) == pytest.approx(user + system + stolen)
    assert cpu.busy_of({**times, "guest": guest}) == cpu.busy_of(times)


def test_what_this_process_burns_is_seen_on_the_machine() -> None:
    before, mine = cpu.busy_seconds(), time.process_time()
    while time.process_time() - mine < 0.3:
        pass
    after = cpu.busy_seconds()
    assert before is not None
    assert after is not None
    assert after - before >= 0.25  # the kernel counts in hundredths


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="no affinity here")
def test_usable_cores_are_those_of_the_affinity() -> None:
    code = "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]);"
    code += "from harness.hardware.cpu import usable_cores; print(usable_cores())"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "1"


def test_the_quota_of_a_control_group_above_ours_holds_too(tmp_path: Path) -> None:
    membership, mount = tmp_path / "cgroup", tmp_path / "mount"
    write(membership, "0::/pod/container\n")
    write(mount / "pod/container/cpu.max", "max 100000")
    write(mount / "pod/container/memory.max", "max")
    assert core_quota(membership, mount) is None
    assert memory_limit(membership, mount) is None
    write(mount / "pod/cpu.max", "150000 100000")
    write(mount / "pod/memory.max", str(2**31))
    assert core_quota(membership, mount) == 1.5
    assert memory_limit(membership, mount) == 2**31


def test_quotas_of_the_first_version_of_control_groups(tmp_path: Path) -> None:
    membership, mount = tmp_path / "cgroup", tmp_path / "mount"
    write(membership, "5:memory:/job\n4:cpu,cpuacct:/job\n")
    write(mount / "cpu,cpuacct/job/cpu.cfs_quota_us", "-1")
    write(mount / "cpu,cpuacct/job/cpu.cfs_period_us", "100000")
    write(mount / "memory/job/memory.limit_in_bytes", "9223372036854771712")  # none
    assert core_quota(membership, mount) is None
    assert memory_limit(membership, mount) is None
    write(mount / "cpu,cpuacct/job/cpu.cfs_quota_us", "400000")
    assert core_quota(membership, mount) == 4


@pytest.mark.parametrize(("quota", "cores"), [(0.5, 1), (1.5, 1), (None, None), (1e6, None)])
def test_a_quota_cuts_the_usable_cores_never_below_one(
    monkeypatch: pytest.MonkeyPatch, quota: float | None, cores: int | None
) -> None:
    monkeypatch.setattr(cpu, "core_quota", lambda: None)
    all_cores = cpu.usable_cores()
    monkeypatch.setattr(cpu, "core_quota", lambda: quota)
    assert cpu.usable_cores() == (cores or all_cores)


def test_governors_and_the_highest_clock_of_all_cores(tmp_path: Path) -> None:
    assert cpu.governor(tmp_path) is None
    assert cpu.clock_max_mhz(tmp_path) is None
    for core, (name, khz) in enumerate((("performance", 3_400_000), ("performance", 2_900_000))):
        write(tmp_path / f"cpu{core}/cpufreq/scaling_governor", name + "\n")
        write(tmp_path / f"cpu{core}/cpufreq/cpuinfo_max_freq", f"{khz}\n")
    assert cpu.governor(tmp_path) == "performance"
    assert cpu.clock_max_mhz(tmp_path) == 3400
    write(tmp_path / "cpu1/cpufreq/scaling_governor", "powersave")
    assert cpu.governor(tmp_path) == "performance, powersave"


def test_model_and_mean_clock_come_from_cpuinfo(tmp_path: Path) -> None:
    info = tmp_path / "cpuinfo"
    assert cpu.clock_mhz(info) is None
    lines = [f"processor\t: {i}\nmodel name\t: Chip 9\ncpu MHz\t\t: {1000 * i}.5\n" for i in (1, 3)]
    write(info, "\n".join(lines))
    assert cpu.cpu_model(info) == "Chip 9"
    assert cpu.clock_mhz(info) == 2000.5

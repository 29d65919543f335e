"""The processor: what it is, how many cores are ours, its clock, its load, its energy (RAPL)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

from harness.hardware.cgroup import core_quota

CPUINFO = Path("/proc/cpuinfo")
CPUS = Path("/sys/devices/system/cpu")
POWERCAP = Path("/sys/class/powercap")
WAITING = ("idle", "iowait")
COUNTED_TWICE = ("guest", "guest_nice")  # the kernel counts them as user time as well


def cpu_model(cpuinfo: Path = CPUINFO) -> str | None:
    """The processor's marketing name, as far as the system tells it."""
    return next(iter(_values(cpuinfo, "model name")), None) or platform.processor() or None


def busy_seconds() -> float | None:
    """Seconds that the cores of the whole machine have been busy so far, summed; only grows.

    Time that a hypervisor gave to others counts as busy: those cores were not ours.
    """
    try:
        times = psutil.cpu_times()
    except (OSError, RuntimeError):
        return None
    return busy_of(times._asdict())


def busy_of(times: Mapping[str, float]) -> float:
    """Busy seconds out of seconds by state (user, system, idle, ..)."""
    left_out = (*WAITING, *COUNTED_TWICE)
    return sum(seconds for state, seconds in times.items() if state not in left_out)


def usable_cores() -> int:
    """Cores that this process may use: its affinity, cut by the control group's quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    quota = core_quota()
    return allowed or 1 if quota is None else max(1, min(allowed or 1, int(quota)))


def governor(cpus: Path = CPUS) -> str | None:
    """How the kernel sets the clock ("performance"); several where cores differ, None unread."""
    found = {_text(file) for file in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")} - {None}
    return ", ".join(sorted(filter(None, found))) or None


def clock_mhz(cpuinfo: Path = CPUINFO) -> float | None:
    """Mean clock of all cores now, MHz; a virtual machine tells a constant or nothing."""
    clocks = [float(value) for value in _values(cpuinfo, "cpu MHz")]
    return sum(clocks) / len(clocks) if clocks else None


def clock_max_mhz(cpus: Path = CPUS) -> float | None:
    """The highest clock of any core, MHz."""
    texts = [_text(file) for file in cpus.glob("cpu[0-9]*/cpufreq/cpuinfo_max_freq")]
    return max((float(text) / 1e3 for text in texts if text), default=None)


def load_average() -> list[float] | None:
    """Processes that ran or waited to run, mean over 1, 5 and 15 minutes."""
    try:
        return list(os.getloadavg())
    except (AttributeError, OSError):
        return None


@dataclass
class Zone:
    """One package's counter: microjoules that wrap at `range_uj`, added up here."""

    file: Path
    range_uj: int
    last_uj: int
    total_uj: int = 0

    def read_uj(self) -> int:
        """Microjoules since it was opened; right as long as it is read once per wrap."""
        now = int(self.file.read_text())
        self.total_uj += (now - self.last_uj) % self.range_uj
        self.last_uj = now
        return self.total_uj


@dataclass
class RaplCounter:
    """Energy of all processor packages. Memory and graphics are not in it."""

    zones: list[Zone]

    def read_j(self) -> float:
        """Joules since it was opened; only grows. OSError when it can no longer be read."""
        return sum(zone.read_uj() for zone in self.zones) / 1e6


def open_rapl(powercap: Path = POWERCAP) -> RaplCounter | str:
    """The counter, or why there is none."""
    packages = [folder for folder in sorted(powercap.glob("*-rapl:*")) if _is_package(folder)]
    if not packages:
        return "this machine shows no RAPL counter (virtual machines have none)"
    try:
        return RaplCounter([_zone(folder) for folder in packages])
    except PermissionError as error:
        hint = f"sudo chmod a+r {powercap}/*-rapl:*/energy_uj"
        return f"RAPL may not be read ({Path(error.filename).name}); try: {hint}"
    except (OSError, ValueError) as error:
        return f"RAPL cannot be read: {error}"


def _is_package(folder: Path) -> bool:
    try:
        return (folder / "name").read_text().startswith("package")
    except OSError:
        return False


def _zone(folder: Path) -> Zone:
    file = folder / "energy_uj"
    largest = int((folder / "max_energy_range_uj").read_text())
    return Zone(file, largest, int(file.read_text()))


def _values(cpuinfo: Path, key: str) -> list[str]:
    lines = (_text(cpuinfo) or "").splitlines()
    return [line.split(":", 1)[1].strip() for line in lines if line.startswith(key)]


def _text(file: Path) -> str | None:
    try:
        return file.read_text(errors="replace").strip()
    except OSError:
        return None

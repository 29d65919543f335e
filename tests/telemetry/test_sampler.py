"""The sampler: readings inside windows only, at both ends, and a thread that sleeps otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from evict.errors import InputError
from harness.clock import Clock
from harness.telemetry.sample import Sample
from harness.telemetry.sampler import Sampler, open_telemetry
from tests.support.fake_clock import FakeClock
from tests.support.fake_nvml import FakeNvml

PATIENCE_S = 30.0


@dataclass
class Counting:
    """A probe that counts its readings, tells when it has made `wanted`, and may fail at one."""

    name: str = "cpu"
    wanted: int = 0
    fails_at: int = 0
    readings: int = 0
    prepared: int = 0
    closed: int = 0
    absent: dict[str, str] = field(default_factory=dict)
    enough: threading.Event = field(default_factory=threading.Event)

    def prepare(self) -> None:
        self.prepared += 1

    def read(self, at_ms: float) -> list[Sample]:
        self.readings += 1
        if self.readings == self.wanted:
            self.enough.set()
        if self.readings == self.fails_at:
            raise OSError("gone")
        return [Sample(at_ms, self.name, energy_j=float(self.readings))]

    def close(self) -> None:
        self.closed += 1


@pytest.fixture
def now() -> FakeClock:
    return FakeClock()


@pytest.fixture
def opened() -> Iterator[list[Sampler]]:
    """Samplers that are closed after the test."""
    samplers: list[Sampler] = []
    yield samplers
    for sampler in samplers:
        sampler.close()


def start(opened: list[Sampler], *probes: Counting, now: FakeClock, every: float = 60.0) -> Sampler:
    opened.append(Sampler(probes, Clock(now), every))
    return opened[-1]


def test_both_ends_are_read_on_the_rows_clock(opened: list[Sampler], now: FakeClock) -> None:
    probe = Counting()
    sampler = start(opened, probe, now=now)
    now.advance(2.0)
    with sampler.window() as window:
        assert probe.readings == 1, "the first reading is made before the block begins"
        now.advance(0.5)
    assert [sample.at_ms for sample in window.samples] == pytest.approx([2000.0, 2500.0])
    assert probe.prepared == 1


def test_nothing_is_read_before_the_interval_has_passed(
    opened: list[Sampler], now: FakeClock
) -> None:
    """Opening a window wakes the thread, which must not take that for time that passed."""
    with start(opened, Counting(), now=now).window() as window:
        time.sleep(0.05)
    assert len(window.samples) == 2


def test_it_reads_between_the_ends(opened: list[Sampler], now: FakeClock) -> None:
    probe = Counting(wanted=6)
    with start(opened, probe, now=now, every=0.001).window() as window:
        assert probe.enough.wait(PATIENCE_S), f"{probe.readings} readings only"
    assert len(window.samples) == probe.readings >= 7


def wake_ups(thread: threading.Thread) -> int:
    status = Path(f"/proc/self/task/{thread.native_id}/status").read_text()
    return sum(int(line.split()[1]) for line in status.splitlines() if "ctxt_switches" in line)


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="counts wake-ups in /proc")
def test_the_thread_sleeps_between_windows(opened: list[Sampler], now: FakeClock) -> None:
    probe = Counting(wanted=5)
    sampler = start(opened, probe, now=now, every=0.001)
    with sampler.window():
        assert probe.enough.wait(PATIENCE_S)
    time.sleep(0.05)
    readings, woken = probe.readings, wake_ups(sampler.thread)
    time.sleep(0.3)
    assert (probe.readings, wake_ups(sampler.thread)) == (readings, woken)
    with sampler.window():
        time.sleep(0.1)
    assert wake_ups(sampler.thread) > woken, "wake-ups are not seen at all"


def test_every_sample_lies_in_its_own_window(opened: list[Sampler]) -> None:
    """Many short windows against a thread that is always due."""
    clock = Clock()
    opened.append(Sampler([Counting()], clock, 1e-5))
    windows = []
    for _ in range(300):
        begin = clock.now_ms()
        with opened[0].window() as window:
            time.sleep(2e-4)
        windows.append((begin, window, clock.now_ms(), len(window.samples)))
    assert max(count for *_, count in windows) > 2, "nothing was read in between"
    for begin, window, end, count in windows:
        times = [begin, *(sample.at_ms for sample in window.samples), end]
        assert times == sorted(times)
        assert len(window.samples) == count >= 2, "a sample came after the window had closed"


def test_a_window_that_raises_is_complete(opened: list[Sampler], now: FakeClock) -> None:
    probe = Counting()
    sampler = start(opened, probe, now=now)
    with pytest.raises(ZeroDivisionError), sampler.window() as window:
        1 / 0  # noqa: B018
    assert len(window.samples) == 2
    with sampler.window() as after:
        pass
    assert len(after.samples) == 2


@pytest.mark.parametrize("reading", [1, 2, 3, 4])
def test_a_probe_that_fails_is_named_and_not_asked_again(
    opened: list[Sampler], now: FakeClock, reading: int
) -> None:
    """A window of which it saw the beginning only would give the energy of half a generation."""
    good, bad = Counting("cpu"), Counting("gpu", fails_at=reading)
    sampler = start(opened, bad, good, now=now)
    windows = []
    for _ in range(3):
        with sampler.window() as window:
            pass
        windows.append([sample.device for sample in window.samples])
    whole = (reading - 1) // 2
    assert windows == [["gpu", "cpu"] * 2] * whole + [["cpu"] * 2] * (3 - whole)
    assert sampler.absent == {"gpu": "OSError: gone"}
    assert (bad.readings, good.readings) == (reading, 6)


def test_close_ends_the_thread_and_lets_go_once(opened: list[Sampler], now: FakeClock) -> None:
    good, bad = Counting("cpu"), Counting("gpu", fails_at=1)
    sampler = start(opened, good, bad, now=now)
    with sampler.window():
        pass
    assert sampler.thread.daemon
    sampler.close()
    sampler.close()
    assert not sampler.thread.is_alive()
    assert (good.closed, bad.closed) == (1, 1), "one that failed holds its driver too"


def test_no_time_between_samples_is_refused(now: FakeClock) -> None:
    with pytest.raises(InputError, match="seen: 0; allowed: > 0"):
        Sampler([], Clock(now), 0)


@pytest.mark.parametrize(
    ("device", "devices"),
    [
        ("cpu", ["cpu"]),
        ("cpu (AMD EPYC 9B45)", ["cpu"]),
        ("NVIDIA H100 80GB HBM3", ["cpu", "gpu0"]),
    ],
)
def test_probes_follow_the_engines_device(device: str, devices: list[str], now: FakeClock) -> None:
    """An idle GPU beside an engine on the processor would lend it its energy and clocks."""
    nvml = FakeNvml()
    telemetry = open_telemetry(device, Clock(now), 60.0, nvml)
    with telemetry.window() as window:
        now.advance(1.0)
    telemetry.close()
    assert [sample.device for sample in window.samples] == devices * 2
    assert nvml.opened == 0


def test_the_processors_energy_is_never_read_beside_a_gpu(now: FakeClock) -> None:
    telemetry = open_telemetry("NVIDIA H100", Clock(now), 60.0, FakeNvml(init=_no_driver()))
    with telemetry.window() as window:
        pass
    telemetry.close()
    assert [sample.energy_j for sample in window.samples] == [None, None]
    assert telemetry.absent["cpu.energy"] == "the engine runs on a GPU"
    assert telemetry.absent["gpu"].startswith("no NVIDIA driver")


def _no_driver() -> Exception:
    import pynvml

    return pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

"""Which processes are ours, and which others use the processor."""

from __future__ import annotations

import time
from dataclasses import dataclass

import psutil

from harness.hardware.cpu import busy_seconds

Seconds = dict[psutil.Process, tuple[str, float]]


@dataclass(frozen=True)
class Busy:
    """A process that is not ours and the cores it kept busy."""

    pid: int
    name: str
    cores: float


def own_pids() -> frozenset[int]:
    """This process and everything that it started."""
    me = psutil.Process()
    return frozenset([me.pid, *(child.pid for child in me.children(recursive=True))])


@dataclass(frozen=True)
class Load:
    """What others did to the processor. cores: kept busy by them on average, None unread.

    busiest: those processes that can be seen from here, the busiest first.
    """

    cores: float | None
    busiest: list[Busy]


class Watch:
    """Watches the load that others make, from its making until `stop`."""

    def __init__(self) -> None:
        self._begin = time.monotonic()
        self._others = _others_seconds()
        self._before = _cpu_seconds()

    def stop(self, least_s: float) -> Load:
        """The load since it was made, over `least_s` seconds or more."""
        time.sleep(max(0.0, self._begin + least_s - time.monotonic()))
        others, after = _others_seconds(), _cpu_seconds()
        duration = time.monotonic() - self._begin
        cores = None
        if others is not None and self._others is not None:
            cores = max(0.0, others - self._others) / duration
        return Load(cores, _busiest(self._before, after, duration))


def _busiest(before: Seconds, after: Seconds, duration: float) -> list[Busy]:
    mine = own_pids()
    found = [
        Busy(process.pid, name, (seconds - before.get(process, (name, 0.0))[1]) / duration)
        for process, (name, seconds) in after.items()
        if process.pid not in mine
    ]
    return sorted((busy for busy in found if busy.cores > 0), key=lambda busy: -busy.cores)


def _others_seconds() -> float | None:
    """CPU seconds of the whole machine, without ours and our finished children's."""
    busy, mine = busy_seconds(), psutil.Process().cpu_times()
    if busy is None:
        return None
    return busy - float(mine.user + mine.system + mine.children_user + mine.children_system)


def _cpu_seconds() -> Seconds:
    """Name and CPU seconds so far; a process equals itself only, even where ids are used again."""
    found = {}
    for process in psutil.process_iter(["name", "cpu_times"]):
        times = process.info["cpu_times"]
        if times is not None:
            found[process] = (str(process.info["name"]), times.user + times.system)
    return found

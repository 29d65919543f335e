"""This process and everything it started: their CPU time and memory, added up."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

import psutil

REFRESH_S = 1.0
SHARE = 0.01
TRIES = 3
MIB = 2**20


@dataclass
class ProcessTree:
    """`cpu_s` never goes back: what a process used stays counted after it has ended.

    A process counts with the children it has waited for, so that one which was waited for moves
    into its parent's time; what nobody waited for is kept here. Descendants are listed anew by
    `refresh` and `list_again` only: that costs a look at every process of the machine. clock:
    monotonic seconds.
    """

    clock: Callable[[], float] = time.perf_counter
    _root: psutil.Process = field(default_factory=psutil.Process)
    _known: list[psutil.Process] = field(default_factory=list)
    _next: float = 0.0
    _kept: float = 0.0
    _last: float = 0.0

    def __post_init__(self) -> None:
        self.list_again()

    @property
    def pids(self) -> frozenset[int]:
        """Process ids of the harness and its descendants, as last listed."""
        return frozenset(process.pid for process in self._known)

    def refresh(self) -> None:
        """List descendants, unless that was less than a second or 100 times its cost ago."""
        if self.clock() >= self._next:
            self.list_again()

    def list_again(self) -> None:
        """List descendants, after their ancestors; those whose parent has ended stay ours."""
        begin = self.clock()
        found = [self._root, *self._root.children(recursive=True)]
        seen = set(found)
        orphans = [one for one in self._known if one not in seen and one.is_running()]
        self._known = [*found, *orphans]
        now = self.clock()
        self._next = now + max(REFRESH_S, (now - begin) / SHARE)

    def read(self) -> tuple[float, float]:
        """(CPU seconds so far, user and system; resident MiB now, shared pages counted per process)

        A process that ends while the others are read has moved into one read before: read again.
        """
        for _ in range(TRIES):
            before = len(self._known)
            seconds, resident = self._add_up()
            if len(self._known) == before:
                break
        self._kept += max(0.0, self._last - self._kept - seconds)
        self._last = self._kept + seconds
        return self._last, resident / MIB

    def _add_up(self) -> tuple[float, int]:
        """Ancestors first: a child that ends in between is then missed, never counted twice."""
        seconds, resident, alive = 0.0, 0, []
        for process in self._known:
            try:
                used, memory = process.cpu_times(), process.memory_info().rss
            except psutil.Error:
                if process is self._root:
                    raise
                continue
            seconds += used.user + used.system + used.children_user + used.children_system
            resident += memory
            alive.append(process)
        self._known = alive
        return seconds, resident

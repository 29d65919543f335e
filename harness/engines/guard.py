"""Stands between a harness and one process: whichever ends first, nothing of the process stays.

Run as a script by `guarded.Guarded`: `guard.py GRACE_S HARNESS_PID COMMAND...`. Its standard input
is a pipe whose other end the harness holds. STOP on it is the order to end everything within
GRACE_S; HURRY, or the end of the pipe however the harness ended, within HURRY_S, also when STOP
came before. A pipe is used and not PR_SET_PDEATHSIG of the harness because that signal follows
the thread that started the process, and code between fork and exec is unsafe where threads run.
On Linux the guard adopts orphans, so that what the process started stays below it even after a
setsid or a double fork. The process gets a session of its own: SGLang sends SIGQUIT to its parent
process and may kill its process group, and neither reaches the harness.
Exit status: the process's own (128 + n for signal n), 0 after an ordered stop, 127 if not started.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

PROC = Path("/proc")
LINUX = sys.platform == "linux"
SET_DEATH_SIGNAL, SET_ADOPTS_ORPHANS = 1, 36  # numbers of prctl(2)
TICK_S, SWEEP_S, KILL_S, HURRY_S = 1.0, 0.02, 10.0, 1.0
STOP, HURRY = b"s", b"h"


def descendants(root: int) -> list[int]:
    """Ids of the processes below `root`, zombies too; empty where the system has no /proc.

    A process whose first thread has ended shows as a zombie while its other threads run.
    """
    children: dict[int, list[int]] = {}
    for entry in PROC.glob("[0-9]*/stat") if LINUX else ():
        try:
            parent = entry.read_text(errors="replace").rpartition(")")[2].split()[1]
        except OSError:
            continue
        children.setdefault(int(parent), []).append(int(entry.parent.name))
    found: list[int] = []
    for pid in (waiting := list(children.get(root, ()))):
        found.append(pid)
        waiting.extend(children.get(pid, ()))
    return found


def main(arguments: list[str]) -> int:
    """Start the command, watch both sides, clean up; the exit status to give."""
    grace_s, harness, command = float(arguments[0]), Harness(int(arguments[1])), arguments[2:]
    prctl = _prctl()
    prctl(SET_ADOPTS_ORPHANS, 1)
    wake = _wake_on_signals()
    try:
        process = _start(command, prctl)
    except OSError as error:
        print(f"cannot start {command[0]}: {error}", file=sys.stderr, flush=True)
        return 127
    status = _watch(process, harness, wake)
    if not _end(process, harness, grace_s if status is None else 0.0):
        left = descendants(os.getpid())
        print(f"still there after SIGKILL: {left}", file=sys.stderr, flush=True)
    return 0 if status is None else status if status >= 0 else 128 - status


class Harness:
    """The other side: what it has ordered so far; its end is the order to hurry."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self.stops = self.hurries = False

    def listen(self) -> None:
        """Take note of an order that has come; never waits."""
        if os.getppid() != self._pid:
            self.hurries = True
        elif not self.hurries and select.select([0], [], [], 0)[0]:
            self.stops, self.hurries = True, os.read(0, 1) != STOP
        self.stops = self.stops or self.hurries or bool(_stops)


def _prctl() -> Callable[[int, int], object]:
    return ctypes.CDLL(None).prctl if LINUX else lambda option, value: None


def _wake_on_signals() -> int:
    """A pipe that becomes readable at any signal; handlers, unlike SIG_IGN, end at exec."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for name in ("SIGCHLD", "SIGQUIT", "SIGINT", "SIGHUP"):
        signal.signal(getattr(signal, name), lambda number, frame: None)
    signal.signal(signal.SIGTERM, lambda number, frame: _stops.append(number))
    return reading


_stops: list[int] = []


def _start(command: list[str], prctl: Callable[[int, int], object]) -> int:
    guard = os.getpid()

    def follow_the_guard() -> None:
        prctl(SET_DEATH_SIGNAL, signal.SIGKILL)
        if os.getppid() != guard:
            os._exit(1)

    # One thread runs here, and it lives as long as the guard: both limits of the signal are met.
    # Open files are handed on: whatever came here was given to the process by the harness.
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        close_fds=False,
        start_new_session=True,
        preexec_fn=follow_the_guard,
    )
    process.returncode = 0  # reaped below, never by Popen
    return process.pid


def _watch(process: int, harness: Harness, wake: int) -> int | None:
    """The exit code of the process when it ends by itself, None when it is to be stopped."""
    while True:
        readable = select.select([0, wake], [], [], TICK_S)[0]
        if wake in readable:
            os.read(wake, 4096)
        ended, _ = _reap(process)
        if ended is not None:
            return ended
        harness.listen()
        if harness.stops:
            return None


def _reap(process: int) -> tuple[int | None, bool]:
    """Collect what has ended: the process's exit code if it is there, and if none is left."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        if pid == process:
            ended = os.waitstatus_to_exitcode(status)


def _end(process: int, harness: Harness, grace_s: float) -> bool:
    """SIGTERM to all below the guard, SIGKILL to who is left in time; whether all ended."""
    if grace_s > 0:
        _signal(process, signal.SIGTERM)
        begin = time.monotonic()
        while time.monotonic() - begin < (min(grace_s, HURRY_S) if harness.hurries else grace_s):
            if _none_left(process):
                return True
            time.sleep(SWEEP_S)
            harness.listen()
    return _killed(process)


def _killed(process: int) -> bool:
    """SIGKILL until all are collected, not only dead: a zombie's threads may hold memory."""
    deadline = time.monotonic() + KILL_S
    while not _none_left(process):
        if time.monotonic() >= deadline:
            return False
        _signal(process, signal.SIGKILL)
        time.sleep(SWEEP_S)
    return True


def _none_left(process: int) -> bool:
    """Where orphans are not adopted the group is asked; elsewhere what is left is a child."""
    if not _reap(process)[1]:
        return False
    if LINUX:
        return True
    try:
        os.killpg(process, 0)
    except OSError:
        return True
    return False


def _signal(process: int, number: signal.Signals) -> None:
    for pid in descendants(os.getpid()) if LINUX else [-process]:
        try:
            os.kill(pid, number)
        except OSError:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

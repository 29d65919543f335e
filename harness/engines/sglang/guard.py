"""Stands between a harness and one server: whichever ends first, no process of the server stays.

Run as a script by `server.Server`: `guard.py GRACE_S HARNESS_PID COMMAND...`. Its standard input is
a pipe whose other end the harness holds; a byte on it, or its end however the harness ended, is the
order to stop. A pipe is used and not PR_SET_PDEATHSIG of the harness because that signal follows
the thread that started the server, and code between fork and exec is unsafe where threads run.
On Linux the guard adopts orphans, so that what the server started stays below it even after a
setsid or a double fork. The server gets a session of its own: SGLang sends SIGQUIT to its parent
process and may kill its process group, and neither reaches the harness.
Exit status: the server's own (128 + n for signal n), 0 after an ordered stop, 127 if not started.
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
TICK_S, SWEEP_S, KILL_S = 1.0, 0.02, 10.0


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
    grace_s, harness, command = float(arguments[0]), int(arguments[1]), arguments[2:]
    prctl = _prctl()
    prctl(SET_ADOPTS_ORPHANS, 1)
    wake = _wake_on_signals()
    try:
        server = _start(command, prctl)
    except OSError as error:
        print(f"cannot start {command[0]}: {error}", file=sys.stderr, flush=True)
        return 127
    status = _watch(server, harness, wake)
    if not _end(server, grace_s if status is None else 0.0):
        left = descendants(os.getpid())
        print(f"still there after SIGKILL: {left}", file=sys.stderr, flush=True)
    return 0 if status is None else status if status >= 0 else 128 - status


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
    server = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=follow_the_guard
    )
    server.returncode = 0  # reaped below, never by Popen
    return server.pid


def _watch(server: int, harness: int, wake: int) -> int | None:
    """The server's exit code when it ends by itself, None when it is to be stopped."""
    while True:
        readable = select.select([0, wake], [], [], TICK_S)[0]
        if wake in readable:
            os.read(wake, 4096)
        ended, _ = _reap(server)
        if ended is not None:
            return ended
        if 0 in readable or _stops or os.getppid() != harness:
            return None


def _reap(server: int) -> tuple[int | None, bool]:
    """Collect what has ended: the server's exit code if it is among them, and if none is left."""
    ended = None
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, True
        if pid == 0:
            return ended, False
        if pid == server:
            ended = os.waitstatus_to_exitcode(status)


def _end(server: int, grace_s: float) -> bool:
    """SIGTERM to all below the guard, SIGKILL to who is left after grace_s; whether all ended."""
    if grace_s > 0:
        _signal(server, signal.SIGTERM)
    return _all_end(server, grace_s, again=None) or _all_end(server, KILL_S, again=signal.SIGKILL)


def _all_end(server: int, limit_s: float, again: signal.Signals | None) -> bool:
    """Wait until all are collected, not only dead: a zombie's threads may still hold memory."""
    deadline = time.monotonic() + limit_s
    while not (_reap(server)[1] and _group_is_empty(server)):
        if time.monotonic() >= deadline:
            return False
        if again is not None:
            _signal(server, again)
        time.sleep(SWEEP_S)
    return True


def _group_is_empty(server: int) -> bool:
    """Asked where orphans are not adopted; elsewhere what is left is below the guard."""
    if LINUX:
        return True
    try:
        os.killpg(server, 0)
    except OSError:
        return True
    return False


def _signal(server: int, number: signal.Signals) -> None:
    for pid in descendants(os.getpid()) if LINUX else [-server]:
        try:
            os.kill(pid, number)
        except OSError:
            continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

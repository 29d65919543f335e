"""CPU time and memory of the harness and all that it started, which never go back."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import psutil
import pytest

from harness.telemetry.processes import ProcessTree
from tests.support.fake_clock import FakeClock

PATIENCE_S = 60.0
BURN = "import time\nwhile time.process_time() < {seconds}: pass\n"
TELL = "print(flush=True); import sys; sys.stdin.read()"


def python(code: str, **options: object) -> subprocess.Popen[str]:
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        [sys.executable, "-c", code],
        text=True,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        **options,
    )


@contextmanager
def burner(seconds: float = 0.3) -> Iterator[subprocess.Popen[str]]:
    """A child that has used that much CPU time and then waits until its stdin is closed."""
    child = python(BURN.format(seconds=seconds) + TELL)
    try:
        assert child.stdout
        child.stdout.readline()
        yield child
    finally:
        end(child)


def end(child: subprocess.Popen[str]) -> None:
    with suppress(BrokenPipeError, ValueError):  # ended before
        child.communicate(timeout=PATIENCE_S)


def until(holds: Callable[[], bool]) -> None:
    limit = time.monotonic() + PATIENCE_S
    while not holds():
        assert time.monotonic() < limit
        time.sleep(0.01)


def test_a_child_counts_while_it_lives_and_after_it_was_waited_for() -> None:
    tree = ProcessTree()
    before = tree.read()[0]
    with burner() as child:
        tree.list_again()
        alive = tree.read()[0]
        assert child.pid in tree.pids
        assert alive - before >= 0.28
    after = tree.read()[0]
    assert child.pid not in tree.pids
    assert alive <= after < alive + 0.25, "lost with the child, or counted twice"


def test_a_child_that_was_never_listed_counts_once_it_has_ended() -> None:
    tree = ProcessTree()
    before = tree.read()[0]
    with burner() as child:
        assert child.pid not in tree.pids
    assert tree.read()[0] - before >= 0.28


def test_a_child_that_nobody_waits_for_stays_counted_and_later_use_adds_up() -> None:
    """With SIGCHLD ignored the kernel drops the times of a child that ends."""
    usual = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        tree = ProcessTree()
        with burner(0.4) as child:
            tree.list_again()
            alive = tree.read()[0]
        until(lambda: not psutil.pid_exists(child.pid))
        after = tree.read()[0]
        assert after >= alive
        begin = time.process_time()
        while time.process_time() < begin + 0.2:
            pass
        assert 0.17 <= tree.read()[0] - after < 0.4, "held back until the loss was made up"
    finally:
        signal.signal(signal.SIGCHLD, usual)


def test_an_orphan_stays_ours_and_its_time_stays_counted() -> None:
    tree = ProcessTree()
    inner = f"{BURN.format(seconds=0.3)}print(os.getpid(), flush=True); sys.stdin.read()"
    code = f"import os, subprocess, sys\nsubprocess.Popen([sys.executable, '-c', {inner!r}])\n"
    code = code.replace("import time", "import os, sys, time") + "sys.stdin.readline()"
    parent = python(code)
    assert parent.stdout
    assert parent.stdin
    orphan = int(parent.stdout.readline())
    tree.list_again()
    alive = tree.read()[0]
    assert {parent.pid, orphan} <= tree.pids
    parent.kill()
    parent.wait(PATIENCE_S)
    tree.list_again()
    assert orphan in tree.pids
    assert tree.read()[0] >= alive
    parent.stdin.close()
    until(lambda: not psutil.pid_exists(orphan) or _zombie(orphan))
    assert tree.read()[0] >= alive


def _zombie(pid: int) -> bool:
    return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


@pytest.mark.parametrize("moment", ["after the child was read", "after its parent was read"])
def test_a_child_that_ends_while_they_are_read_is_counted_once(
    moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its time moves to its parent: read before, the parent lacks it; read after, it has both."""
    own, really = psutil.Process(), psutil.Process.memory_info
    tree = ProcessTree()
    with burner() as child:
        tree.list_again()
        before, seen = _used(own) + _used(psutil.Process(child.pid)), [tree.read()[0]]
        last = child.pid if moment == "after the child was read" else own.pid

        def and_then_it_ends(process: psutil.Process) -> object:
            memory = really(process)  # the last thing that is read of a process
            if process.pid == last and child.returncode is None:
                end(child)
            return memory

        monkeypatch.setattr(psutil.Process, "memory_info", and_then_it_ends)
        seen += [tree.read()[0] for _ in range(3)]
    monkeypatch.undo()
    assert child.returncode == 0, "it never ended in between"
    assert seen == sorted(seen)
    assert seen[-1] - seen[0] == pytest.approx(_used(own) - before, abs=0.1)


def _used(process: psutil.Process) -> float:
    return float(sum(process.cpu_times()[:4]))


def test_memory_is_that_of_all_of_them() -> None:
    tree = ProcessTree()
    before = tree.read()[1]
    child = python(f"held = bytearray(200 * 2**20)\n{TELL}")
    try:
        assert child.stdout
        child.stdout.readline()
        tree.list_again()
        assert tree.read()[1] - before >= 190
    finally:
        end(child)


def test_descendants_are_listed_at_most_once_a_second() -> None:
    """Listing asks for every process of the machine."""
    clock = FakeClock()
    tree = ProcessTree(clock)
    with burner(0.0) as child:
        clock.advance(0.9)
        tree.refresh()
        assert child.pid not in tree.pids
        clock.advance(0.2)
        tree.refresh()
        assert tree.pids >= {os.getpid(), child.pid}


def test_listing_takes_a_hundredth_of_the_time_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half a second for a listing, as on a machine with many thousand processes."""
    clock, listed = FakeClock(), []

    def slow(self: psutil.Process, recursive: bool = False) -> list[psutil.Process]:
        clock.advance(0.5)
        listed.append(self.pid)
        return []

    monkeypatch.setattr(psutil.Process, "children", slow)
    tree = ProcessTree(clock)
    for _ in range(490):
        clock.advance(0.1)
        tree.refresh()
    assert len(listed) == 1
    clock.advance(1.1)
    tree.refresh()
    assert len(listed) == 2

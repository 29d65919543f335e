"""A command in a terminal of its own, in which Ctrl-C can be pressed."""

from __future__ import annotations

import os
import pty
import select
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harness.config import ROOT
from harness.engines.guard import descendants
from tests.support.servers import running

INTERRUPT = b"\x03"


@dataclass
class Terminal:
    """`python run.py` and what it shows; the first process of the terminal has this `pid`."""

    pid: int
    screen: int
    shown: str = ""
    status: int | None = None

    @classmethod
    def run(cls, *arguments: str) -> Terminal:
        """Start the command line there, in the repository."""
        pid, screen = pty.fork()
        if pid == 0:
            os.chdir(ROOT)
            os.environ |= {"COLUMNS": "200", "TERM": "xterm", "OMP_NUM_THREADS": "1"}
            os.execv(sys.executable, [sys.executable, str(ROOT / "run.py"), *arguments])
        return cls(pid, screen)

    def family(self) -> list[int]:
        """All processes below the command, those in sessions of their own, too."""
        return descendants(self.pid)

    def until(self, happened: Callable[[Terminal], bool], limit_s: float = 120.0) -> None:
        """Wait for something to be seen; fails with the screen where it never is."""
        deadline = time.monotonic() + limit_s
        while not happened(self):
            self.look(0.02)
            if self.ended() or time.monotonic() > deadline:
                raise AssertionError(f"never seen; the screen:\n{self.shown}")

    def look(self, limit_s: float) -> None:
        """Take in what is shown within this time."""
        try:
            if select.select([self.screen], [], [], limit_s)[0]:
                self.shown += os.read(self.screen, 65536).decode(errors="replace")
        except OSError:  # the last process that had the terminal open has ended
            time.sleep(limit_s)

    def press(self, key: bytes = INTERRUPT) -> None:
        """What a user does."""
        os.write(self.screen, key)

    def ended(self) -> bool:
        """Whether the command has ended; `status` is then its exit status."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.status = os.waitstatus_to_exitcode(status)
        return self.status is not None

    def wait(self, limit_s: float) -> int:
        """The exit status; fails where the command is still there after this time."""
        deadline = time.monotonic() + limit_s
        while not self.ended():
            self.look(0.02)
            assert time.monotonic() < deadline, f"still running; the screen:\n{self.shown}"
        assert self.status is not None
        return self.status

    def close(self) -> None:
        """Leave nothing of it, whatever a test has found."""
        for pid in [self.pid, *self.family()]:
            if running(pid):
                os.kill(pid, 9)
        self.ended()
        os.close(self.screen)


def whole_rows(results: Path) -> list[bytes]:
    """The finished rows of all runs below."""
    files = sorted(results.glob("*/*/requests.jsonl"))
    lines = [line for file in files for line in file.read_bytes().splitlines(keepends=True)]
    return [line for line in lines if line.endswith(b"\n")]

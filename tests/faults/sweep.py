"""A real sweep, `python run.py ...`, that can be killed with all that belongs to it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import psutil

from harness.config import ROOT

MARK = "EVICT_FAULT_INJECTION"
GRACE_S = 10.0
SETTINGS = (
    "method=evict",
    "method.draft_tokens=4",
    "method.growth.steps=1",
    "method.growth.topk=3",
    "compare=[vanilla,eagle3]",
    "benchmark=all",
    "limit=2",
    "max_new_tokens=8",
    "warmup_prompts=1",
    "warmup_tokens=2",
    "machine=shared",
)


class Process(Protocol):
    """A started sweep; it leads a session and a process group of its own."""

    @property
    def pid(self) -> int: ...

    def wait(self, timeout: float | None) -> int | None:
        """Its exit code, or None when it is still there after `timeout` seconds."""
        ...


@dataclass
class Started:
    """`run.py` in a process of its own."""

    process: subprocess.Popen[bytes]

    @property
    def pid(self) -> int:
        return self.process.pid

    def wait(self, timeout: float | None) -> int | None:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            return None


Start = Callable[[Sequence[str], Mapping[str, str], Path], Process]


def start_command(overrides: Sequence[str], marks: Mapping[str, str], pipe: Path) -> Process:
    """`python run.py OVERRIDES`, its output into the named pipe."""
    with pipe.open("wb") as output:
        return Started(
            subprocess.Popen(
                [sys.executable, "run.py", *overrides],
                cwd=ROOT,
                env={**os.environ, "OMP_NUM_THREADS": "1", **marks},
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        )


@dataclass
class Sweep:
    """One results folder and the command that fills it. log: output of the last process.

    costly: whether a method needs step costs, which are then measured first.
    """

    results: Path
    log: Path
    start: Start = start_command
    settings: Sequence[str] = SETTINGS
    costly: bool = True
    mark: str = field(default_factory=lambda: os.urandom(8).hex())
    last: Process | None = None
    reader: subprocess.Popen[bytes] | None = None

    @property
    def priced(self) -> bool:
        """Whether the step costs are there that are needed."""
        return not self.costly or any(self.results.glob("cost/*/cost_table.json"))

    def begin(self) -> Process:
        """Start what is next: measuring the step costs, then everything else."""
        profile = "never" if self.priced else "only"
        words = [*self.settings, f"profile={profile}", f"results_dir={self.results}"]
        return self.run(words)

    def run(self, words: Sequence[str]) -> Process:
        """Start `run.py` with these words.

        Another process writes what it prints, so that no limit on its files meets the log.
        """
        pipe = self.log.with_suffix(".pipe")
        pipe.unlink(missing_ok=True)
        os.mkfifo(pipe)
        with self.log.open("wb") as log:
            self.reader = subprocess.Popen(["cat", str(pipe)], stdout=log)
        self.last = self.start(words, {MARK: self.mark}, pipe)
        return self.last

    def end(self) -> None:
        """Leave nothing of it behind, whatever happened."""
        if self.last is not None and self.last.wait(0.0) is None:
            self.kill(self.last)
        if self.reader is not None:
            self.reader.kill()
            self.reader.wait()

    def said(self) -> str:
        """What the last process printed until it ended."""
        if self.reader is not None:
            self.reader.wait(GRACE_S)
        return self.log.read_text(errors="replace") if self.log.is_file() else ""

    def kill(self, process: Process) -> int:
        """End the process group at once; how many processes of the sweep survive it.

        A child in a group of its own may take a moment to see that its parent is gone. The
        survivors are ended.
        """
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(None)
        return self.end_survivors(process)

    def end_survivors(self, process: Process) -> int:
        """How many processes of the sweep are still there after the grace time; ends them."""
        deadline = time.monotonic() + GRACE_S
        while (left := self._alive(process)) and time.monotonic() < deadline:
            time.sleep(0.02)
        for one in left:
            one.kill()
        return len(left)

    def _alive(self, process: Process) -> list[psutil.Process]:
        return [one for one in psutil.process_iter() if self._is_ours(one, process.pid)]

    def _is_ours(self, one: psutil.Process, session: int) -> bool:
        try:
            if one.status() == psutil.STATUS_ZOMBIE:
                return False
            marked = one.environ().get(MARK) == self.mark
            return marked or (one.pid != session and os.getsid(one.pid) == session)
        except (psutil.Error, OSError):
            return False

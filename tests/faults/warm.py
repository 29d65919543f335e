"""The same sweep from a process that has imported everything: seconds less for every start."""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from harness.config import ROOT
from tests.faults.sweep import Process

PRELOADED = ["harness.profiling.cost", "harness.suite", "harness.engines.torch.engine", "run"]


@dataclass
class Forked:
    """What `run.py` does, in a fork of a process that has the modules already."""

    process: ForkServerProcess

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    def wait(self, timeout: float | None) -> int | None:
        self.process.join(timeout)
        return self.process.exitcode


def start_warm(overrides: Sequence[str], marks: Mapping[str, str], pipe: Path) -> Process:
    """As `start_command`; the marks stay unset, so the session alone tells what belongs to it."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOADED)
    process = context.Process(target=_run, args=(list(overrides), str(pipe)))
    process.start()
    return Forked(process)


def _run(overrides: list[str], pipe: str) -> None:
    os.setsid()
    output = os.open(pipe, os.O_WRONLY)
    os.dup2(output, 1)
    os.dup2(output, 2)
    sys.argv = [str(ROOT / "run.py"), *overrides]
    from harness.command import guarded, run_command

    sys.exit(guarded(run_command))

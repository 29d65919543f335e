"""A fake engine that breaks on chosen prompts as a real one might; made to live in a child."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from evict.errors import InputError
from harness.engines.base import Method, Observer, Request, RequestTrace
from tests.support.fake_engine import FakeEngine


class Unsendable(Exception):
    """An error that holds what cannot be pickled."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.reason = lambda: message


class BreakingEngine(FakeEngine):
    """breaks: what happens, by prompt id ("load": while it is made). pids: a file that gets the
    process id of every process here, a line each.
    """

    def __init__(
        self,
        breaks: Mapping[str, str] | None = None,
        pids: str | None = None,
        timed: bool = True,
        weights: str | None = None,
        **_: Any,
    ) -> None:
        super().__init__(timed=timed)
        self.breaks = dict(breaks or {})
        self.pids = pids
        self.weights = weights
        self._note(os.getpid())
        self._break("load")

    def describe(self) -> Any:
        facts = super().describe()
        if self.weights is None:
            return facts
        return type(facts)(**{**vars(facts), "weights_hash": Path(self.weights).read_text()})

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        self._break(request.prompt_id)
        trace = super().generate(request, method, seed, observer)
        trace.text = f"{len(self.costs)} tables, process {os.getpid()}"
        return trace

    def _break(self, prompt: str) -> None:
        if prompt in self.breaks:
            BREAKS[self.breaks[prompt]](self)

    def _note(self, pid: int) -> None:
        if self.pids is not None:
            with Path(self.pids).open("a") as file:
                file.write(f"{pid}\n")


def _segfault(engine: BreakingEngine) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def _killed(engine: BreakingEngine) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _exit(engine: BreakingEngine) -> None:
    print("leaving", file=sys.stderr)
    os._exit(7)


def _memory(engine: BreakingEngine) -> None:
    bytearray(1 << 60)


def _tensor_memory(engine: BreakingEngine) -> None:
    torch.empty(1 << 56)


def _hang(engine: BreakingEngine) -> None:
    print("about to hang", file=sys.stderr)
    time.sleep(120)


def _family(engine: BreakingEngine) -> None:
    """A child and a daemon of a session of its own, neither of which listens to SIGTERM."""
    for leaves in (False, True):
        if os.fork():
            continue
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        if leaves:
            os.setsid()
            if os.fork():
                os._exit(0)
        engine._note(os.getpid())
        time.sleep(120)
        os._exit(0)
    _hang(engine)


def _prints(engine: BreakingEngine) -> None:
    print("a warning of the engine", file=sys.stderr)
    print("a line on standard output")


def _input(engine: BreakingEngine) -> None:
    raise InputError("the prompt", seen=3, allowed="at most 2", hint="another")


def _unsendable(engine: BreakingEngine) -> None:
    raise Unsendable("of its own")


def _plain(engine: BreakingEngine) -> None:
    raise KeyError("a key")


BREAKS: dict[str, Callable[[BreakingEngine], None]] = {
    "segfault": _segfault,
    "killed": _killed,
    "exit": _exit,
    "memory": _memory,
    "tensor memory": _tensor_memory,
    "hang": _hang,
    "family": _family,
    "prints": _prints,
    "input": _input,
    "unsendable": _unsendable,
    "plain": _plain,
}


def where(engine: FakeEngine, number: int, progress: Callable[[str, float], None] | None) -> str:
    """A procedure: which process it runs in, reported in steps."""
    for step in range(number):
        time.sleep(0.2)
        assert progress is not None
        progress("counting", (step + 1) / number)
    return f"process {os.getpid()}, {type(engine).__name__}"


def stalls(engine: FakeEngine, progress: Callable[[str, float], None] | None) -> None:
    """A procedure that reports once and then no more."""
    assert progress is not None
    progress("stalling", 0.5)
    time.sleep(120)

"""One process with an engine in it: asked, watched, and ended whole where it does not answer."""

from __future__ import annotations

import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engines.base import Engine, EngineLost
from harness.engines.guarded import Guarded, check_limits, interrupted
from harness.engines.isolated.link import Link, LinkClosed, pack
from harness.engines.isolated.messages import Call, Failed, Loaded, OutOfMemory, Progress, Value
from harness.engines.isolated.output import Output

ROOT = Path(__file__).resolve().parents[3]
WORKER = "harness.engines.isolated.worker"
OOM_KILLER = ", with which the kernel ends a process when memory runs out"
LOOK_S, ENDING_S, CLOSE_S = 0.2, 15.0, 5.0
Load = Callable[[], Engine]
Report = Callable[[str, float], None]
log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """Seconds without a sign of life after which a process counts as hung; None for no limit.

    request_timeout_s: for one request, and between two reports of a longer procedure.
    ready_timeout_s: for loading.
    """

    request_timeout_s: float | None = 1800.0
    ready_timeout_s: float | None = 1800.0

    def __post_init__(self) -> None:
        check_limits(**vars(self))


class Child:
    """Started by the constructor, without an engine; `load` comes first.

    over: nothing is left of it. Any error but those that the engine raised itself ends it.
    """

    def __init__(self, limits: Limits) -> None:
        self.over = False
        self._limits = limits
        self._output = Output()
        own, other = socket.socketpair()
        self._link = Link(own)
        told = [str(other.fileno()), str(logging.getLogger().getEffectiveLevel())]
        command = [sys.executable, "-u", "-m", WORKER, *told]
        with other:
            self._process = Guarded(
                command, self._output.descriptor, _environment(), 0.0, [other.fileno()]
            )

    def load(self, load: Load) -> Loaded:
        """Make the engine; what its constructor raises is raised here."""
        loaded: Loaded = self._ask(Call("load", (load,)), self._limits.ready_timeout_s, None)
        return loaded

    def ask(self, call: Call, report: Report | None = None) -> Any:
        """What the engine's method returns or raises; EngineLost where the process cannot answer.

        report: called with the progress of a longer procedure.
        """
        return self._ask(call, self._limits.request_timeout_s, report)

    def close(self) -> None:
        """Let the engine close, unless in the wake of an interrupt, and end the process."""
        try:
            if not (self.over or interrupted()):
                self._link.send(Call("close"), CLOSE_S)
                self._link.receive(CLOSE_S)
        except (LinkClosed, TimeoutError):
            log.info("the engine's process ended, or did not answer, when it was to close")
        finally:
            self.kill()

    def kill(self) -> None:
        """End the process and all that it started; may be called again."""
        self.over = True
        try:
            self._process.stop()
        finally:
            self._link.close()
            self._output.close()

    def _ask(self, call: Call, limit_s: float | None, report: Report | None) -> Any:
        packed = pack(call)
        try:
            answer = self._answer(call.name, packed, limit_s, report)
            self._output.pass_on()
        except BaseException:
            self.kill()
            raise
        if isinstance(answer, Failed):
            raise answer.exception()
        return answer.value

    def _answer(
        self, name: str, packed: bytes, limit_s: float | None, report: Report | None
    ) -> Value | Failed:
        begin = time.monotonic()
        try:
            self._link.send_packed(packed, limit_s)
            while isinstance(answer := self._receive(name, limit_s), Progress):
                self._output.pass_on()
                if report is not None:
                    report(answer.what, answer.share)
        except LinkClosed:
            self._process.wait(ENDING_S)
            ending = self._process.ending()
            hint = OOM_KILLER if "SIGKILL" in ending else ""
            raise self._lost(f"ended with {ending}{hint}", name, begin) from None
        except TimeoutError:
            raise self._lost(f"gave no sign of life for {limit_s:g} s", name, begin) from None
        if isinstance(answer, OutOfMemory):
            raise self._lost(f"ran out of memory ({answer.what})", name, begin)
        found: Value | Failed = answer
        return found

    def _receive(self, name: str, limit_s: float | None) -> Any:
        """The next message; while an engine loads, what it prints is shown as it comes."""
        if name != "load":
            return self._link.receive(limit_s)
        deadline = time.monotonic() + (float("inf") if limit_s is None else limit_s)
        while True:
            self._output.pass_on()
            try:
                return self._link.receive(min(LOOK_S, deadline - time.monotonic()))
            except TimeoutError:
                if time.monotonic() >= deadline:
                    raise

    def _lost(self, happened: str, name: str, begin: float) -> EngineLost:
        """What happened, when, and the last words of the process."""
        text = f"the engine's process {happened}, {time.monotonic() - begin:.1f} s into {name}"
        return EngineLost("\n  ".join([text, *self._output.last_lines()]))


def _environment() -> dict[str, str]:
    """This process's, in which the package is found from everywhere."""
    search = filter(None, [str(ROOT), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": os.pathsep.join(search)}

"""The engine's process: `python -m harness.engines.isolated.worker DESCRIPTOR LOG_LEVEL`.

It serves one link, one call at a time, in the main thread and no other. Interrupts are the
harness's to deal with.
"""

from __future__ import annotations

import faulthandler
import logging
import re
import signal
import socket
import sys
import traceback

from harness.engines.base import Engine
from harness.engines.isolated.link import Link, LinkClosed
from harness.engines.isolated.messages import (
    Call,
    Failed,
    Loaded,
    OutOfMemory,
    Progress,
    Value,
)

NO_MEMORY = re.compile(r"out of memory|can't allocate memory|CUBLAS_STATUS_ALLOC_FAILED", re.I)
EXIT_OK, EXIT_OUT_OF_MEMORY = 0, 1


def main(descriptor: int, log_level: int) -> int:
    """Serve until the link ends or memory does; the exit status."""
    logging.basicConfig(level=log_level, format="%(levelname)s %(message)s")
    faulthandler.enable()
    signal.signal(signal.SIGINT, lambda number, frame: None)
    link = Link(socket.socket(fileno=descriptor))
    host = Host(link)
    while True:
        try:
            answer = host.answer()
            try:
                link.send(answer)
            except LinkClosed:
                raise
            except Exception as error:  # it cannot be pickled
                answer = told(error)
                link.send(answer)
        except LinkClosed:
            return EXIT_OK
        if isinstance(answer, OutOfMemory):
            return EXIT_OUT_OF_MEMORY


class Host:
    """Holds the engine once it is loaded."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._engine: Engine | None = None

    def answer(self) -> Value | Failed | OutOfMemory:
        """What the next call returned or raised; LinkClosed where none comes."""
        try:
            return Value(self._carry_out(self._link.receive()))
        except LinkClosed:
            raise
        except Exception as error:
            return told(error)
        finally:
            sys.stdout.flush()

    def _carry_out(self, call: Call) -> object:
        if call.name == "load":
            engine: Engine = call.arguments[0]()
            self._engine = engine
            return Loaded(engine.timed, tuple(engine.own_costs), engine.describe())
        if self._engine is None:
            raise RuntimeError("no engine is loaded")
        if call.name == "carry_out":
            return self._engine.carry_out(*call.arguments, progress=self._report)
        return getattr(self._engine, call.name)(*call.arguments)

    def _report(self, what: str, share: float) -> None:
        self._link.send(Progress(what, share))


def told(error: Exception) -> Failed | OutOfMemory:
    """The answer that tells of an error; after the second kind this process is not to be used."""
    if not out_of_memory(error):
        return Failed.of(error)
    traceback.print_exception(error)
    return OutOfMemory(f"{type(error).__name__}: {error}".rstrip(": "))


def out_of_memory(error: Exception) -> bool:
    """Whether memory ran out, the host's or the GPU's: torch has no class for the host's."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and bool(NO_MEMORY.search(str(error)))
    )


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))

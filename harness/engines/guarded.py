"""A command with a guard beside it: started, ordered to stop, never left behind."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import IO

from evict.errors import InputError
from harness.engines import guard

MARGIN_S = 5.0
logger = logging.getLogger(__name__)


class Guarded:
    """A process and all that it starts, in sessions of their own.

    They end within `guard.HURRY_S` of this process, however it ends. output: gets what they write.
    grace_s: seconds between SIGTERM and SIGKILL in `stop`; 0 kills at once. descriptors: open files
    that they inherit, at the same numbers; the guard holds them, too, until the last has ended.
    """

    def __init__(
        self,
        command: Sequence[str],
        output: IO[bytes] | int,
        environment: Mapping[str, str],
        grace_s: float,
        descriptors: Sequence[int] = (),
    ) -> None:
        self.grace_s = grace_s
        watcher = [sys.executable, "-I", "-S", guard.__file__, str(grace_s), str(os.getpid())]
        self._process = subprocess.Popen(
            [*watcher, *command],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            pass_fds=descriptors,
        )

    @property
    def pid(self) -> int:
        """The guard's; the process and all that it started are below."""
        return self._process.pid

    def alive(self) -> bool:
        """Whether the first process still runs."""
        return self._process.poll() is None

    def ending(self) -> str:
        """How it ended, in words: exit status or signal."""
        status = self._process.poll()
        if status is None:
            return "no exit status yet"
        try:
            found = signal.Signals(-status if status < 0 else status - 128)
        except ValueError:
            return f"exit status {status}"
        return f"signal {found} ({found.name})"

    def order_to_stop(self, hurry: bool = False) -> None:
        """Tell the guard, and do not wait."""
        pipe = self._process.stdin
        assert pipe is not None
        try:
            os.write(pipe.fileno(), guard.HURRY if hurry else guard.STOP)
        except (OSError, ValueError):  # it has ended, or has been waited for before
            return

    def stop(self, hurry: bool = False) -> None:
        """End it and all that it started, and wait for it; may be called again.

        The grace time is cut to `guard.HURRY_S` with `hurry`, after an interrupt, and by one that
        comes while this waits.
        """
        assert self._process.stdin is not None
        try:
            self.order_to_stop(hurry or interrupted())
            self.wait(self.grace_s + guard.KILL_S + MARGIN_S)
        except BaseException:
            self.order_to_stop(hurry=True)
            self.wait(guard.HURRY_S + guard.KILL_S + MARGIN_S)
            raise
        finally:
            self._process.stdin.close()

    def wait(self, limit_s: float) -> None:
        """Until the guard has ended, and with it all; kill the guard where that takes too long."""
        try:
            self._process.wait(limit_s)
        except subprocess.TimeoutExpired:
            logger.warning("processes of %s did not end in %.0f s", self.pid, limit_s)
            self._process.kill()
            self._process.wait()


def check_limits(**limits_s: float | None) -> None:
    """InputError for a time limit among these settings of `engine.process` that is not above 0."""
    for name, value in limits_s.items():
        if value is not None and not value > 0:
            raise InputError(
                f"engine.process.{name}", seen=value, allowed="seconds above 0, or null"
            )


def interrupted() -> bool:
    """Whether what runs now cleans up after an interrupt."""
    error = sys.exception()
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        error = error.__context__
    return False

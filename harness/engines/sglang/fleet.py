"""The servers that are up, and what becomes of one that ends or answers no more."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from evict.errors import InputError
from harness.engines.base import EngineLost
from harness.engines.sglang.arguments import Kind
from harness.engines.sglang.effective import comparable
from harness.engines.sglang.failures import ServerFailed
from harness.engines.sglang.reply import ConnectionLost, NoAnswer
from harness.engines.sglang.running import Running

ENDING_S, POLL_S = 5.0, 0.02  # a server whose scheduler died closes its sockets before it ends
Start = Callable[[Kind, Mapping[str, Any] | None], Running]


class Fleet:
    """At most `live` servers, one of a kind: the one unused for longest makes room."""

    def __init__(self, start: Start, live: int) -> None:
        if live < 1:
            raise InputError("servers that may run at once", seen=live, allowed=">= 1")
        self._start, self.live = start, live
        self._running: dict[Kind, Running] = {}
        self._first: tuple[str, dict[str, Any]] | None = None

    @contextmanager
    def serving(self, kind: Kind, growth: Mapping[str, Any] | None) -> Iterator[Running]:
        """The server of this kind while it is asked something.

        EngineLost, and nothing of the server left, where it cannot be started, ends or does not
        answer in time; the next time another is started.
        """
        try:
            running = self.get(kind, growth)
        except ServerFailed as error:
            raise EngineLost(str(error)) from error
        try:
            yield running
        except (ConnectionLost, NoAnswer) as error:
            raise EngineLost(str(self._lose(kind, error))) from error

    def get(self, kind: Kind, growth: Mapping[str, Any] | None) -> Running:
        """The server of this kind, started now if it is not up; ServerFailed where it has ended."""
        running = self._running.pop(kind, None)
        if running is not None and not running.server.alive():
            running.close()
            raise running.server.failure()
        if running is None:
            while len(self._running) >= self.live:
                self._running.pop(next(iter(self._running))).close()
            running = self._start(kind, growth)
            self._compare(kind, running)
        self._running[kind] = running
        return running

    def up(self, kind: Kind) -> Running | None:
        """The server of this kind if there is one."""
        return self._running.get(kind)

    def all(self) -> list[Running]:
        """The servers that are up."""
        return list(self._running.values())

    def flush(self) -> None:
        """Empty the prefix caches and tries of all servers; EngineLost as in `serving`."""
        for kind, running in list(self._running.items()):
            try:
                running.client.flush_cache()
            except (ConnectionLost, NoAnswer) as error:
                raise EngineLost(str(self._lose(kind, error))) from error

    def close(self) -> None:
        """Stop them all, at the same time."""
        for running in self.all():
            running.server.order_to_stop()
        while self._running:
            self._running.popitem()[1].close()

    def _compare(self, kind: Kind, running: Running) -> None:
        """InputError, and the server stopped, where more than drafting sets it apart."""
        name = kind.algorithm or "plain"
        if self._first is None:
            self._first = (name, running.document)
        reasons = comparable({self._first[0]: self._first[1], f"{name} (new)": running.document})
        if reasons:
            running.close()
            raise InputError("two servers run with different settings", seen="; ".join(reasons))

    def _lose(self, kind: Kind, error: Exception) -> ServerFailed:
        """Stop a server that gave no answer; why, from its log."""
        server = self._running.pop(kind).server
        deadline = time.monotonic() + (ENDING_S if isinstance(error, ConnectionLost) else 0.0)
        while server.alive() and time.monotonic() < deadline:
            time.sleep(POLL_S)
        happened = f"no answer from the server: {error}" if server.alive() else None
        server.stop(hurry=True)
        return server.failure(
            happened, "raise engine.process.request_timeout_s if the log shows progress"
        )

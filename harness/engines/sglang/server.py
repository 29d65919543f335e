"""One SGLang HTTP server as a process of its own: started, checked to be ours, stopped whole."""

from __future__ import annotations

import atexit
import http.client
import json
import os
import secrets
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.engines import guard
from harness.engines.guarded import Guarded, interrupted
from harness.engines.sglang import ports
from harness.engines.sglang.failures import ServerFailed, diagnose
from harness.engines.sglang.log_file import LogFile
from harness.engines.sglang.spec import OURS, ServerSpec, flags

__all__ = ["Server", "ServerSpec", "flags"]
POLL_S, ANSWER_S = 0.05, 30.0  # SGLang's /health may wait 20 s for the scheduler


class Server:
    """A running server on 127.0.0.1; use `Server.start`, and `stop` or `with`.

    `api_key` opens every endpoint but /health. `token` is this start's name: SGLang repeats it as
    `weight_version` in /model_info and in every answer's meta_info.
    """

    def __init__(self, spec: ServerSpec) -> None:
        self.spec = spec
        self.port = spec.port or ports.free_port()
        self.url = f"http://{ports.LOOPBACK}:{self.port}"
        self.api_key = f"key-{secrets.token_urlsafe(32)}"
        self.token = f"start-{secrets.token_hex(8)}"
        self._log = LogFile(spec.log, secret=self.api_key)
        if spec.port is not None:
            ports.check_free(spec.port)
        self._started = time.monotonic()
        self._process = self._spawn()
        atexit.register(self.stop, hurry=True)

    @classmethod
    def start(cls, spec: ServerSpec) -> Self:
        """Start a server and wait until it answers; nothing is left running on any error.

        Raises InputError where the given port is taken, ServerFailed where the server ends or is
        not ready in `ready_timeout_s`.
        """
        server = cls(spec)
        try:
            server._await_ready()
        except BaseException:
            server.stop()
            raise
        return server

    def alive(self) -> bool:
        """Whether the server's first process still runs."""
        return self._process.alive()

    def failure(self, happened: str | None = None, hint: str | None = None) -> ServerFailed:
        """The error that tells why this server ended, or `happened` to it, from its log."""
        seconds = time.monotonic() - self._started
        happened = happened or f"the server ended with {self._process.ending()}"
        return diagnose(self._log.tail(), f"{happened} after {seconds:.1f} s", hint)

    def redact(self, text: str) -> str:
        """`text` without the API key, which SGLang repeats in /server_info and in its log."""
        return self._log.redact(text)

    def order_to_stop(self) -> None:
        """Let all processes of the server begin to end; `stop` waits for it."""
        self._process.order_to_stop(interrupted())

    def stop(self, hurry: bool = False) -> None:
        """SIGTERM to all processes of the server, SIGKILL after `stop_timeout_s`; waits for both.

        Within seconds with `hurry` and after an interrupt. May be called again. The API key is
        then struck out of the log file.
        """
        atexit.unregister(self.stop)
        try:
            self._process.stop(hurry)
        finally:
            self._log.strike_out()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _spawn(self) -> Guarded:
        bound = zip(OURS, (ports.LOOPBACK, self.port, self.api_key, self.token), strict=True)
        command = [*self.spec.command, *flags({**self.spec.arguments, **dict(bound)})]
        variables = _environment(self.spec.environment)
        with self._log.open(command) as output:
            return Guarded(command, output, variables, self.spec.stop_timeout_s)

    def _await_ready(self) -> None:
        deadline = time.monotonic() + self.spec.ready_timeout_s
        while time.monotonic() < deadline:
            if not self.alive():
                raise self.failure()
            if self._listens() and self._healthy(deadline) and self._ours(deadline):
                return
            time.sleep(POLL_S)
        raise self.failure(
            "the server was not ready in time", "raise the ready time-out if the log shows progress"
        )

    def _listens(self) -> bool:
        """Whether this server holds its port; ServerFailed where another process does."""
        inodes = ports.listeners(self.port)
        if inodes is None:
            return True
        if inodes and not ports.held_by(inodes, guard.descendants(self._process.pid)):
            if ports.listeners(self.port) != inodes or not self.alive():
                return False
            raise self._foreign(ports.owner(self.port))
        return bool(inodes)

    def _healthy(self, deadline: float) -> bool:
        return self._get("/health", deadline)[0] == 200

    def _ours(self, deadline: float) -> bool:
        """Whether /model_info repeats this start's token; ServerFailed where it says otherwise."""
        bearer = {"Authorization": f"Bearer {self.api_key}"}
        status, body = self._get("/model_info", deadline, bearer)
        if status == 0:
            return False
        document = _json_object(body)
        if document.get("weight_version") != self.token:
            raise self._foreign(f"/model_info answers {status}, not with this start's token")
        asked, answered = self.spec.arguments.get("model_path"), document.get("model_path")
        if asked is not None and Path(str(asked)) != Path(str(answered)):
            raise self._foreign(f"it serves {answered}, asked for {asked}")
        return True

    def _foreign(self, seen: str) -> ServerFailed:
        what = f"port {self.port} is answered by a server that is not ours: {seen}"
        hint = "start again: a free port is chosen where none is given"
        return ServerFailed("port_in_use", what, self._log.last_lines(), hint)

    def _get(
        self, path: str, deadline: float, headers: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body of an answer, status 0 where none comes; no proxy is asked."""
        limit_s = min(ANSWER_S, max(POLL_S, deadline - time.monotonic()))
        link = http.client.HTTPConnection(ports.LOOPBACK, self.port, timeout=limit_s)
        try:
            link.request("GET", path, headers=dict(headers or {}))
            answer = link.getresponse()
            return answer.status, answer.read()
        except (OSError, http.client.HTTPException):
            return 0, b""
        finally:
            link.close()


def _json_object(body: bytes) -> dict[str, Any]:
    try:
        document = json.loads(body)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """This process's environment; lines reach the log at once, and no proxy comes between."""
    direct = ",".join(filter(None, [os.environ.get("NO_PROXY", ""), ports.LOOPBACK, "localhost"]))
    given = {"PYTHONUNBUFFERED": "1", "NO_PROXY": direct, "no_proxy": direct}
    return {**os.environ, **given, **extra}

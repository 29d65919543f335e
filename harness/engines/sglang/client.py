"""HTTP to one SGLang server: generate with a stamp per event, flush with the result checked.

One connection is kept alive: a measured request must not pay for a handshake.
"""

from __future__ import annotations

import json
import select
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from http.client import HTTPConnection, HTTPException, HTTPResponse
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit

from evict.errors import InputError
from harness.engines.sglang.reply import (
    ConnectionLost,
    Line,
    NoAnswer,
    Reply,
    RequestRefused,
    ServerError,
    error_of,
    message_of,
    read_reply,
)
from harness.engines.sglang.sampling import Sampling

BUSY, FLUSH_PAUSE_S = 400, 0.1
T = TypeVar("T")


class CacheNotFlushed(ServerError):
    """The server kept refusing to flush its cache: requests were running or waiting."""


class Client:
    """Talks to `url` ("http://host:port") with an API key; not for use from several threads.

    timeout_s: longest wait for the next byte, None for no limit. clock: monotonic seconds, read
    once when a request is sent and once per line that arrives. vocab: ids from there on are refused
    here, because one makes SGLang's scheduler die (None: not checked).
    """

    def __init__(
        self,
        url: str,
        api_key: str,
        timeout_s: float | None = 600.0,
        clock: Callable[[], float] = time.perf_counter,
        sleep: Callable[[float], None] = time.sleep,
        vocab: int | None = None,
    ) -> None:
        parts = urlsplit(url)
        if parts.scheme != "http" or not parts.hostname or not parts.port:
            raise InputError("server address", seen=url, allowed="http://host:port")
        self._clock, self._sleep, self._vocab = clock, sleep, vocab
        self._connection = HTTPConnection(parts.hostname, parts.port, timeout=timeout_s)
        self._headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}

    def generate(self, input_ids: Sequence[int], sampling: Sampling, rid: str) -> Reply:
        """Stream one generation of these ids under a request id of our own, unique while it runs.

        A ServerError says what happened instead; the connection is then dropped, which makes the
        server abort the request.
        """
        self._check_ids(input_ids)
        body = {
            "rid": rid,
            "input_ids": list(input_ids),
            "sampling_params": sampling.body(),
            "stream": True,
        }
        payload = json.dumps(body).encode()
        sent_ms, response = self._connected(
            lambda: (self._clock() * 1e3, self._send("POST", "/generate", payload))
        )
        if response.status != 200:
            raise self._error(response)
        return read_reply(rid, sent_ms, list(self._lines(response)))

    def flush_cache(self, patience_s: float = 30.0) -> None:
        """Empty the prefix cache (and make the EVICT worker read its orders).

        Asked again while requests run; CacheNotFlushed once patience ends.
        """
        refusals = 0
        while True:
            try:
                self._fetch("POST", "/flush_cache")
                return
            except RequestRefused as refused:
                refusals += 1
                if refused.status != BUSY:
                    raise
                if refusals * FLUSH_PAUSE_S >= patience_s:
                    raise CacheNotFlushed(f"{refused} ({refusals} times)") from refused
            self._sleep(FLUSH_PAUSE_S)

    def server_info(self) -> dict[str, Any]:
        """Arguments as the server resolved them, and its live state."""
        return self._document("/server_info")

    def post(self, path: str, body: Mapping[str, Any]) -> dict[str, Any]:
        """A JSON object for a JSON object; a ServerError says what happened instead."""
        return self._object(path, self._fetch("POST", path, json.dumps(body).encode()))

    def model_info(self) -> dict[str, Any]:
        """Which model it serves. Answered without running the model."""
        return self._document("/model_info")

    def health(self) -> bool:
        """Whether the server can generate: it runs one token, which takes a second or more."""
        try:
            self._fetch("GET", "/health")
        except ServerError:
            return False
        return True

    def close(self) -> None:
        """Drop the connection; the next call opens another."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _check_ids(self, input_ids: Sequence[int]) -> None:
        top = float("inf") if self._vocab is None else self._vocab
        wrong = [one for one in input_ids if not 0 <= one < top]
        if wrong or not input_ids:
            raise InputError(
                "prompt ids",
                seen=wrong[:5] or "none",
                allowed=f"at least one, each >= 0 and < {top}",
                hint="encode with the tokenizer of the model that the server runs",
            )

    def _document(self, path: str) -> dict[str, Any]:
        return self._object(path, self._fetch("GET", path))

    def _object(self, path: str, answer: bytes) -> dict[str, Any]:
        document = json.loads(answer)
        if not isinstance(document, dict):
            raise ServerError(f"{path}: no JSON object")
        return document

    def _fetch(self, method: str, path: str, payload: bytes | None = None) -> bytes:
        response = self._connected(lambda: self._send(method, path, payload))
        if response.status != 200:
            raise self._error(response)
        return self._guarded(response.read)

    def _connected(self, action: Callable[[], T]) -> T:
        """`action` over an open connection; again over a new one where the old one was closed.

        A server may close an idle connection just when something is sent over it.
        """
        kept = self._connect()
        try:
            return action()
        except ConnectionLost as error:
            if not (kept and isinstance(error.__cause__, ConnectionError)):
                raise
        self._connect()
        return action()

    def _connect(self) -> bool:
        """Open a connection unless one is, and has not been closed (bytes wait: its end).

        Returns whether one was kept.
        """
        socket = self._connection.sock
        if socket is not None and select.select([socket], [], [], 0)[0]:
            self._connection.close()
        if self._connection.sock is not None:
            return True
        self._guarded(self._connection.connect)
        return False

    def _send(self, method: str, path: str, payload: bytes | None) -> HTTPResponse:
        def exchange() -> HTTPResponse:
            self._connection.request(method, path, payload, self._headers)
            return self._connection.getresponse()

        return self._guarded(exchange)

    def _lines(self, response: HTTPResponse) -> Iterator[Line]:
        """(ms, line) for each line with content, stamped before anything else is done to it."""
        while line := self._guarded(response.readline):
            if line != b"\n":
                yield self._clock() * 1e3, line

    def _error(self, response: HTTPResponse) -> ServerError:
        return error_of(response.status, message_of(self._guarded(response.read)))

    def _guarded(self, action: Callable[[], T]) -> T:
        try:
            return action()
        except TimeoutError as error:
            self.close()
            raise NoAnswer(f"no answer within {self._connection.timeout} s") from error
        except (OSError, HTTPException) as error:
            self.close()
            raise ConnectionLost(f"{type(error).__name__}: {error}") from error

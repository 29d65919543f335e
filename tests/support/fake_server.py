"""SGLang 0.5.23's HTTP face on loopback, scripted per prompt: ids, events, counters, errors.

with FakeServer() as server:
    server.play([1, 2, 3], speculative([1, 0, 2]))
    reply = server.client().generate([1, 2, 3], Sampling(8), "r")
    assert server.bodies("/generate")[0]["sampling_params"]["top_k"] == -1
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import takewhile
from types import TracebackType
from typing import Any, Self

from harness.engines.sglang.client import Client
from tests.support.fake_replies import Script, plain

KEY = "a-key"
Prompt = tuple[int, ...]


@dataclass
class Seen:
    """One request as it arrived."""

    method: str
    path: str
    body: dict[str, Any]
    headers: dict[str, str]


@dataclass
class FakeServer:
    """Answers unscripted prompts with `default`; what it may be told stands in its fields.

    prefix_cache: prompts seen since the last flush come back with `cached_tokens` and without
    delays. incremental: events hold new ids only. busy_flushes: refusals before a flush works.
    healthy: False answers /health with 503. info: the document of /server_info.
    """

    default: Script = field(default_factory=lambda: plain(4))
    prefix_cache: bool = True
    incremental: bool = False
    busy_flushes: int = 0
    healthy: bool = True
    info: dict[str, Any] = field(default_factory=lambda: {"version": "0.5.23"})
    model: dict[str, Any] = field(default_factory=lambda: {"model_path": "fake"})
    api_key: str = KEY
    requests: list[Seen] = field(default_factory=list)
    scripts: dict[Prompt, list[Script]] = field(default_factory=dict)
    cached: set[Prompt] = field(default_factory=set)
    connections: int = 0

    def play(self, prompt: Sequence[int], *replies: Script) -> None:
        """Answer this prompt with these replies in turn; the last one repeats."""
        self.scripts[tuple(prompt)] = list(replies)

    def bodies(self, path: str) -> list[dict[str, Any]]:
        """Bodies of all requests to a path, in order."""
        return [seen.body for seen in self.requests if seen.path == path]

    def client(self, **options: Any) -> Client:
        """A client with the right key."""
        return Client(self.url, self.api_key, **{"timeout_s": 5.0} | options)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_port}"

    def __enter__(self) -> Self:
        handler = type("Handler", (_Handler,), {"fake": self})
        self._http = _Http(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.01,))
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()

    def next_reply(self, prompt: Prompt) -> tuple[Script, int]:
        """The scripted reply and how many prompt tokens the cache holds; remembers the prompt."""
        queue = self.scripts.get(prompt) or [self.default]
        reply = queue.pop(0) if len(queue) > 1 else queue[0]
        hits = (_common(prompt, other) for other in self.cached)
        held = min(max(hits, default=0), len(prompt) - 1)
        self.cached.add(prompt)
        return reply, held if self.prefix_cache else 0


class _Http(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is no failure of the server's."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def _common(one: Prompt, other: Prompt) -> int:
    pairs = zip(one, other, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


class _Handler(BaseHTTPRequestHandler):
    """One connection; answers as the real server does, down to errors inside a 200 stream."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    fake: FakeServer

    def setup(self) -> None:
        super().setup()
        self.fake.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""

    def do_GET(self) -> None:
        self._route()

    def do_POST(self) -> None:
        self._route()

    def _route(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        body = json.loads(raw) if raw else {}
        self.fake.requests.append(Seen(self.command, path, body, dict(self.headers)))
        if path in ("/health", "/health_generate"):
            self._answer(200 if self.fake.healthy else 503, b"")
        elif self.headers.get("Authorization") != f"Bearer {self.fake.api_key}":
            self._json(401, {"error": "Unauthorized"})
        elif path == "/generate":
            self._generate(body)
        elif path == "/flush_cache":
            self._flush()
        elif path in ("/server_info", "/get_server_info"):
            self._json(200, self.fake.info)
        elif path in ("/model_info", "/get_model_info"):
            self._json(200, self.fake.model)
        else:
            self._json(404, {"detail": "Not Found"})

    def _flush(self) -> None:
        if self.fake.busy_flushes:
            self.fake.busy_flushes -= 1
            self._answer(400, b"Flush cache failed.\n")
            return
        self.fake.cached.clear()
        self._answer(200, b"Cache flushed.\n")

    def _generate(self, body: dict[str, Any]) -> None:
        prompt = body.get("input_ids")
        if not isinstance(prompt, list):
            self._json(400, {"error": "input_ids must be list or null"})
            return
        reply, cached = self.fake.next_reply(tuple(prompt))
        if reply.status != 200:
            self._json(reply.status, {"error": {"message": reply.error}})
        elif body.get("stream"):
            self._stream(reply, body, cached)
        else:
            self._json(200, reply.events(body, cached, self.fake.incremental)[-1])

    def _stream(self, reply: Script, body: dict[str, Any], cached: int) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream; charset=utf-8")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for index, event in enumerate(reply.events(body, cached, self.fake.incremental)):
            if index == reply.lost_after:
                self.close_connection = True
                return
            time.sleep(0.0 if cached else reply.delay_s(index))
            self._chunk(b"data: " + json.dumps(event).encode() + b"\n\n")
        if not reply.quiet_end:
            self._chunk(b"data: [DONE]\n\n")
        self.wfile.write(b"0\r\n\r\n")
        self.close_connection = reply.close

    def _chunk(self, payload: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(payload), payload))
        self.wfile.flush()

    def _json(self, status: int, document: Any) -> None:
        self._answer(status, json.dumps(document).encode())

    def _answer(self, status: int, payload: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(payload)))
        self.end_headers()
        self.wfile.write(payload)

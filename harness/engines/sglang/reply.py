"""A streamed reply: its chunks with their arrival times, and what can go wrong on the way.

SGLang sends one event per verify step, with all ids so far or, under
`--incremental-streaming-output`, only the new ones; `completion_tokens` tells which. Steps that
finish while the server is busy are merged into one event. An error after the headers arrives as an
event of a 200 reply.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.engines.sglang.metadata import MetaInfo, UnreadableReply, read_metadata
from harness.latency import StreamTimes, stream_times

DATA, DONE = b"data:", b"[DONE]"
Line = tuple[float, bytes]


class ServerError(Exception):
    """A request that the server did not answer as asked; `status` is HTTP's, None without one."""

    def __init__(self, message: str, status: int | None = None) -> None:
        self.status = status
        super().__init__(message if status is None else f"HTTP {status}: {message}")


class RequestRefused(ServerError):
    """The server will not do this (4xx); the same request fails again."""


class AnswerFailed(ServerError):
    """The server could not do this (5xx)."""


class ConnectionLost(ServerError):
    """No connection, or one that ended before the reply did."""


class NoAnswer(ServerError):
    """Not a byte within the time-out."""


class GenerationAborted(ServerError):
    """The server gave up a running generation."""


@dataclass(frozen=True)
class Chunk:
    """New tokens that arrived together; `reasoning` of all so far are inside a reasoning block."""

    at_ms: float
    tokens: int
    reasoning: int | None = None


@dataclass(frozen=True)
class Reply:
    """One finished generation. Stamps are milliseconds of the client's clock.

    ids: all tokens, prefill's first. chunks: those that hold tokens, in order.
    """

    rid: str
    ids: tuple[int, ...]
    sent_ms: float
    chunks: tuple[Chunk, ...]
    meta: MetaInfo

    @cached_property
    def times(self) -> StreamTimes:
        """First token of any kind since the request was sent, decode time, gaps of the chunks."""
        arrivals_ms = [chunk.at_ms for chunk in self.chunks]
        return stream_times(self.sent_ms, arrivals_ms, [chunk.tokens for chunk in self.chunks])

    @property
    def first_answer_ms(self) -> float | None:
        """Arrival of the first token after the reasoning; None if the answer never began."""
        total = 0
        for chunk in self.chunks:
            total += chunk.tokens
            if total > (chunk.reasoning or 0):
                return chunk.at_ms - self.sent_ms
        return None


def read_reply(rid: str, sent_ms: float, lines: Sequence[Line]) -> Reply:
    """Put a reply together from (arrival ms, line) pairs; a ServerError or UnreadableReply if not.

    Lines are read after the last one arrived, so that reading takes no time between stamps.
    """
    ids: list[int] = []
    chunks: list[Chunk] = []
    meta: MetaInfo | None = None
    for at_ms, event in _events(lines):
        meta = _own(event, rid)
        fresh = _fresh(event, ids, meta)
        ids += fresh
        if fresh:
            chunks.append(Chunk(at_ms, len(fresh), meta.reasoning_tokens))
    return Reply(rid, tuple(ids), sent_ms, tuple(chunks), _finished(meta, ids))


def error_of(status: int, message: str) -> ServerError:
    """The error class of an HTTP status."""
    kind = RequestRefused if 400 <= status < 500 else AnswerFailed
    return kind(message, status)


def message_of(body: bytes) -> str:
    """What an error body says: under `error`, `message` or `detail`, or all of its text."""
    text = body.decode("utf-8", "replace").strip()
    try:
        document = json.loads(text)
    except ValueError:
        return text or "no message"
    while isinstance(document, dict):
        inner = (document.get(name) for name in ("error", "message", "detail"))
        document = next((one for one in inner if one), str(document))
    return str(document)


def _events(lines: Sequence[Line]) -> list[tuple[float, dict[str, Any]]]:
    found: list[tuple[float, dict[str, Any]]] = []
    for at_ms, line in lines:
        if not line.startswith(DATA):
            continue
        payload = line[len(DATA) :].strip()
        if payload == DONE:
            return found
        found.append((at_ms, _event(payload)))
    raise ConnectionLost(f"the stream ended early, after {len(found)} events")


def _event(payload: bytes) -> dict[str, Any]:
    try:
        event = json.loads(payload)
    except ValueError as error:
        raise UnreadableReply(f"an event that is not JSON: {payload[:80]!r}") from error
    if not isinstance(event, dict):
        raise UnreadableReply(f"an event that is no object: {payload[:80]!r}")
    if "error" in event:
        failure = event["error"]
        status = failure.get("code") if isinstance(failure, dict) else None
        raise error_of(status if isinstance(status, int) else 500, message_of(payload))
    return event


def _own(event: dict[str, Any], rid: str) -> MetaInfo:
    raw = event.get("meta_info")
    if not isinstance(raw, dict):
        raise UnreadableReply(f"an event without meta_info: {sorted(event)}")
    meta = read_metadata(raw)
    if meta.rid != rid:
        raise UnreadableReply(f"asked for request {rid!r}, answered {meta.rid!r}")
    if meta.finish_type == "abort":
        raise GenerationAborted(meta.finish_message or "no message", meta.finish_status)
    return meta


def _fresh(event: dict[str, Any], ids: list[int], meta: MetaInfo) -> list[int]:
    """The new ids of an event, by its running count."""
    given, total = event.get("output_ids"), meta.completion_tokens
    if not isinstance(given, list) or total is None:
        raise UnreadableReply("an event without output_ids or completion_tokens")
    if len(given) == total and given[: len(ids)] == ids:
        return given[len(ids) :]
    if len(ids) + len(given) == total:
        return given
    raise UnreadableReply(
        f"{len(given)} ids after {len(ids)}, and a count of {total}: neither all nor the new ones"
    )


def _finished(meta: MetaInfo | None, ids: Sequence[int]) -> MetaInfo:
    if meta is None or meta.finish_type is None:
        raise ConnectionLost(f"the stream ended without a finish reason, after {len(ids)} tokens")
    if not ids:
        raise UnreadableReply("a finished reply without a token")
    return meta

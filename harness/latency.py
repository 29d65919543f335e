"""Times from the arrivals of one stream, and rates from tokens that have a time.

A chunk may hold several tokens and the first one any number: what lies between chunks is a gap
between steps, not a time per token. Milliseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import ceil

from evict.errors import InputError

WINDOW_MS = 1000.0


@dataclass(frozen=True)
class StreamTimes:
    """What the chunks of one request say about time, each reading under its own name.

    first_token_ms: from the sending to the first chunk that holds tokens. decode_ms: from there to
    the last such chunk; with the tokens after the first chunk it gives the time per token.
    step_gap_ms: between consecutive chunks with tokens, one entry per gap however many tokens a
    chunk holds.
    """

    first_token_ms: float
    decode_ms: float
    step_gap_ms: list[float]


def stream_times(
    sent_ms: float, arrivals_ms: Sequence[float], tokens: Sequence[int]
) -> StreamTimes:
    """Read a stream: arrivals_ms[i] of chunk i with tokens[i] new tokens.

    Chunks without tokens (keep-alives, final statistics) are no steps. InputError for lists of
    different lengths, negative counts, arrivals that go back, or a stream without a token.
    """
    _check_stream(sent_ms, arrivals_ms, tokens)
    times = [at for at, n in zip(arrivals_ms, tokens, strict=True) if n > 0]
    return StreamTimes(
        first_token_ms=times[0] - sent_ms,
        decode_ms=times[-1] - times[0],
        step_gap_ms=[after - before for before, after in pairwise(times)],
    )


def _check_stream(sent_ms: float, arrivals_ms: Sequence[float], tokens: Sequence[int]) -> None:
    if len(arrivals_ms) != len(tokens):
        raise InputError("one arrival per chunk", seen=(len(arrivals_ms), len(tokens)))
    if any(n < 0 for n in tokens):
        raise InputError("negative token count in a chunk", seen=min(tokens), allowed=">= 0")
    if not any(tokens):
        raise InputError("a stream without tokens has no times", seen=list(tokens))
    for before, after in pairwise([sent_ms, *arrivals_ms]):
        if after < before:
            raise InputError("arrivals go back in time", seen=(before, after))


@dataclass(frozen=True)
class Rate:
    """Tokens per second: over the whole span, and in its busiest window; peak >= mean."""

    mean: float
    peak: float


def token_rate(
    at_ms: Sequence[float], tokens: Sequence[int], span_ms: float, window_ms: float = WINDOW_MS
) -> Rate | None:
    """Rates of tokens[i] committed at at_ms[i], both counted in tokens whatever a chunk holds.

    The span 0..span_ms is cut into equal windows, as many as fit at `window_ms` or wider, so that
    they cover it without a rest; a time on a border ends the earlier window. None for a span of no
    length. InputError for lists of different lengths, a negative count, or a time outside the span.
    """
    if len(at_ms) != len(tokens) or min(tokens, default=0) < 0:
        raise InputError("one count per time", seen=(len(at_ms), len(tokens)), allowed=">= 0 each")
    if at_ms and not 0.0 <= min(at_ms) <= max(at_ms) <= span_ms:
        raise InputError("tokens outside the span", seen=(min(at_ms), max(at_ms)), allowed=span_ms)
    if span_ms <= 0.0:
        return None
    windows = max(1, int(span_ms // window_ms))
    held = [0] * windows
    for at, count in zip(at_ms, tokens, strict=True):
        held[min(windows, max(1, ceil(at * windows / span_ms))) - 1] += count
    seconds = span_ms / 1e3
    return Rate(mean=sum(tokens) / seconds, peak=max(held) * windows / seconds)

"""Times from stamps: per output token, between steps, and of decode - never by guessing.

All stamps are milliseconds of one monotonic clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean

from evict.errors import InputError
from harness.counting import Reading


@dataclass(frozen=True)
class ChunkTimes:
    """What a stream of chunks says about time, each reading under its own name.

    first_token_ms: arrival of the first chunk that holds tokens. time_per_output_token_ms: from
    there to the last chunk, over the tokens after the first chunk; None when there are none.
    step_gap_ms: between consecutive chunks with tokens, one entry per gap however many tokens a
    chunk holds.
    """

    first_token_ms: float
    time_per_output_token_ms: float | None
    step_gap_ms: list[float]


def chunk_times(arrivals_ms: Sequence[float], tokens: Sequence[int]) -> ChunkTimes:
    """Read a stream: arrivals_ms[i] since the request was sent, tokens[i] new tokens in chunk i.

    Chunks without tokens (keep-alives, final statistics) are no steps. InputError for lists of
    different lengths, negative counts, arrivals that go back, or a stream without a token.
    """
    _check_stream(arrivals_ms, tokens)
    kept = [(at, n) for at, n in zip(arrivals_ms, tokens, strict=True) if n > 0]
    times = [at for at, _ in kept]
    later = sum(n for _, n in kept[1:])
    return ChunkTimes(
        first_token_ms=times[0],
        time_per_output_token_ms=(times[-1] - times[0]) / later if later else None,
        step_gap_ms=[after - before for before, after in pairwise(times)],
    )


def _check_stream(arrivals_ms: Sequence[float], tokens: Sequence[int]) -> None:
    if len(arrivals_ms) != len(tokens):
        raise InputError("one arrival per chunk", seen=(len(arrivals_ms), len(tokens)))
    if any(n < 0 for n in tokens):
        raise InputError("negative token count in a chunk", seen=min(tokens), allowed=">= 0")
    if not any(tokens):
        raise InputError("a stream without tokens has no times", seen=list(tokens))
    for before, after in pairwise(arrivals_ms):
        if after < before:
            raise InputError("arrivals go back in time", seen=(before, after))


@dataclass(frozen=True)
class Stamps:
    """When one request was sent, gave its first token and gave its last (ms, one clock)."""

    sent_ms: float
    first_token_ms: float
    last_token_ms: float


def decode_ms(request: Stamps) -> float:
    """First to last token of the same request; InputError for stamps out of order."""
    stamps = (request.sent_ms, request.first_token_ms, request.last_token_ms)
    if not stamps[0] <= stamps[1] <= stamps[2]:
        raise InputError("time stamps out of order", seen=stamps, allowed="sent <= first <= last")
    return request.last_token_ms - request.first_token_ms


def decode_from_aggregates(total_ms: Sequence[float], prefill_ms: Sequence[float]) -> Reading:
    """Mean decode time when generation and prefill were timed on different requests.

    Prefer `decode_ms`. No number where the means contradict each other, or one is missing.
    """
    if not total_ms or not prefill_ms:
        return Reading(None, "invalid: no times")
    decode = fmean(total_ms) - fmean(prefill_ms)
    if decode <= 0:
        return Reading(None, "invalid: prefill exceeds total")
    return Reading(decode, "difference of means")

"""The requests every lossless decoder is compared on, and what there is to say about a run."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from tests.sglang.scheduler import InProcess

REQUESTS, STAGGER = 24, 2
PROMPT_TOKENS = 250


@dataclass(frozen=True)
class Workload:
    """prompts: token ids; lengths: tokens to generate for each."""

    prompts: list[list[int]]
    lengths: list[int]


def stress(seed: int = 5, vocabulary: int = PROMPT_TOKENS) -> Workload:
    """24 requests of 3 to 160 tokens, every third with a common beginning, 1 to 60 new tokens.

    Prompts above the chunk size are prefilled in pieces, common beginnings come from the cache.
    """
    draw = random.Random(seed)
    common = _tokens(draw, 40, vocabulary)
    prompts = [
        (common if request % 3 == 0 else []) + _tokens(draw, draw.randint(3, 120), vocabulary)
        for request in range(REQUESTS)
    ]
    return Workload(prompts, [draw.randint(1, 60) for _ in range(REQUESTS)])


def serve(session: InProcess, workload: Workload, stagger: int = STAGGER) -> dict[str, Any]:
    """Serve it, then flush the cache; plain data.

    outputs: token ids per request. widest: most requests in one batch. chunks: batches that
    held only a part of a prompt. cached: prompt tokens taken
    from the radix cache. accepted: draft tokens kept per verification, by how often (index: count).
    """
    outputs = session.generate(workload.prompts, workload.lengths, stagger=stagger)
    facts = {
        "outputs": outputs,
        "widest": max(session.batches),
        "chunks": session.chunks,
        "cached": sum(request.cached_tokens for request in session.requests),
        "accepted": _summed(request.spec_correct_drafts_histogram for request in session.requests),
    }
    session.flush()
    return facts


def _summed(histograms: Iterable[list[int]]) -> list[int]:
    return [sum(column) for column in zip_longest(*histograms, fillvalue=0)]


def _tokens(draw: random.Random, count: int, vocabulary: int) -> list[int]:
    return [draw.randrange(vocabulary) for _ in range(count)]

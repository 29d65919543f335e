"""Which steps of a batch count: those in which all its requests ran, with a known interval."""

from __future__ import annotations

from typing import Any

import pytest

from harness.consistency import InconsistentTrace
from harness.engines.sglang.batch import plain_steps_of_batch, worker_steps_of_batch
from harness.engines.sglang.metadata import read_metadata
from harness.engines.sglang.reply import Chunk, Reply


def record(step: int, batch: int, step_ms: float | None = 5.0, k: int = 4) -> dict[str, Any]:
    return {
        "step": step,
        "batch": batch,
        "k": k,
        "drafted": 31,
        "depth": 4,
        "expected": 2.0,
        "accepted": [1] * batch,
        "context": [10] * batch,
        "draft_ms": 1.0,
        "verify_ms": 2.0,
        "extend_ms": 0.5,
        "gap_ms": None if step_ms is None else 1.5,
        "step_ms": step_ms,
    }


def reply(gaps_ms: list[float], tokens: list[int] | None = None) -> Reply:
    """A plain stream: prefill's token at 10 ms, then a chunk after each gap."""
    tokens = tokens or [1] * len(gaps_ms)
    chunks, at = [Chunk(10.0, 1)], 10.0
    for gap, count in zip(gaps_ms, tokens, strict=True):
        at += gap
        chunks.append(Chunk(at, count))
    ids = tuple(range(1 + sum(tokens)))
    meta = read_metadata({"completion_tokens": len(ids), "cached_tokens": 0, "prompt_tokens": 3})
    return Reply("r", ids, 0.0, tuple(chunks), meta)


def test_steps_with_fewer_requests_or_no_interval_are_left_out() -> None:
    records = [record(0, 1), record(1, 3), record(2, 3, None), record(3, 2), record(4, 3)]
    steps = worker_steps_of_batch(records, 3)
    assert [step.step for step in steps] == [1, 4]
    assert [step.total_ms for step in steps] == [5.0, 5.0]
    assert (steps[0].verified, steps[0].other_ms) == (4, 1.5)


def test_plain_steps_come_from_the_middle_half_of_every_stream() -> None:
    streams = [reply([9, 9, 1, 2, 3, 4, 9, 9]), reply([8, 8, 5, 6, 7, 5, 8, 8])]
    steps = plain_steps_of_batch(streams)
    assert [step.total_ms for step in steps] == pytest.approx([1, 2, 3, 4, 5, 6, 7, 5])
    assert {(step.drafted, step.verified, step.committed) for step in steps} == {(0, 1, 1)}


def test_a_stream_with_merged_events_gives_no_step_and_none_is_an_error() -> None:
    merged = reply([3, 3, 3, 3], [1, 2, 1, 1])
    whole = reply([1, 2, 3, 4])
    assert [step.total_ms for step in plain_steps_of_batch([merged, whole])] == [2, 3]
    with pytest.raises(InconsistentTrace, match="too busy"):
        plain_steps_of_batch([merged])

"""Steps of a batch: b requests at once, for the costs C(b, k) that the worker divides by."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from harness.consistency import InconsistentTrace
from harness.engines.sglang.client import Client
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.running import Running
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.stream_steps import accepted_by_stream, committed_tokens, step_gaps
from harness.records import StepRecord


def together(
    running: Running, prompts_B: Sequence[Sequence[int]], sampling: Sampling
) -> list[Reply]:
    """One generation of every prompt, all at once, each over a connection of its own.

    An interrupt stops the server: the threads that wait for its answers cannot be told.
    """

    def one(prompt: Sequence[int]) -> Reply:
        with Client(running.server.url, running.server.api_key) as client:
            return client.generate(prompt, sampling, f"batch-{secrets.token_hex(6)}")

    with ThreadPoolExecutor(len(prompts_B)) as pool:
        try:
            return list(pool.map(one, prompts_B))
        except KeyboardInterrupt:
            running.close()
            raise


def worker_steps_of_batch(records: Sequence[Mapping[str, Any]], size: int) -> list[StepRecord]:
    """The worker's steps in which exactly `size` requests ran, those without an interval left out.

    One record per step, seen from its first request; milliseconds are the whole batch's.
    """
    return [
        StepRecord(
            step=record["step"],
            drafted=record["drafted"],
            verified=record["k"],
            accepted=record["accepted"][0],
            committed=record["accepted"][0] + 1,
            depth_drawn=record["depth"],
            expected=record["expected"],
            draft_ms=record["draft_ms"],
            verify_ms=record["verify_ms"],
            extend_ms=record["extend_ms"],
            other_ms=record["gap_ms"],
            total_ms=record["step_ms"],
            context_len=record["context"][0],
        )
        for record in records
        if record["batch"] == size and record["step_ms"] is not None
    ]


def plain_steps_of_batch(replies: Sequence[Reply]) -> list[StepRecord]:
    """Steps of plain decoding from the middle half of each stream, when all requests run.

    Streams whose events were merged have no steps; InconsistentTrace where that is all of them.
    """
    steps = []
    for reply in replies:
        accepted_S = accepted_by_stream(reply)
        gaps_S = accepted_S and step_gaps(reply, committed_tokens(accepted_S, len(reply.ids) - 1))
        middle = slice(len(gaps_S) // 4, len(gaps_S) - len(gaps_S) // 4) if gaps_S else slice(0)
        for index, gap_ms in list(enumerate(gaps_S or []))[middle]:
            steps.append(StepRecord(index, 0, 1, 0, 1, 0, total_ms=gap_ms))
    if not steps:
        raise InconsistentTrace("merged events: the machine is too busy to time batches")
    return steps

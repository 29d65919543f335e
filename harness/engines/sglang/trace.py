"""From a streamed reply, and the EVICT worker's step records where there are any, to a trace."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from harness.consistency import InconsistentTrace, check_trace
from harness.engines.base import Request, RequestTrace
from harness.engines.sglang.metadata import MetaInfo, check_metadata, finish_reason
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.stream_steps import (
    accepted_by_histogram,
    accepted_by_stream,
    committed_tokens,
    step_gaps,
)
from harness.engines.sglang.worker_steps import WorkerStep, worker_steps
from harness.records import StepRecord

NOT_MEASURED = float("nan")
StepTimes = Literal["stream", "worker", "none"]
Decode = Callable[[Sequence[int]], str]


class WarmPrefixCache(Exception):
    """A measured prompt was partly in the prefix cache: the time of its prefill says nothing."""


class MergedPrefill(InconsistentTrace):
    """The first event held a decode token too: the server was too busy to send prefill's alone."""


@dataclass(frozen=True)
class Arm:
    """What a server was started with: N nodes per step, root included (1: plain), and levels.

    shared_prefix: prompt tokens that may come from the prefix cache (a common system prompt).
    """

    draft_tokens: int = 1
    depth: int = 0
    shared_prefix: int = 0


@dataclass(frozen=True)
class Traced:
    """A trace, where its steps' times come from, and what a reader of them must know.

    step_times "stream": the gap to the event before; "worker": the worker's interval to the next
    step start, which the last step has not; "none": events were merged, `total_ms` is NaN. Every
    time of a step that nobody measured is NaN, stages included; prefill and decode are measured.
    """

    trace: RequestTrace
    step_times: StepTimes
    notes: tuple[str, ...] = ()


def stock_trace(reply: Reply, request: Request, arm: Arm, decode: Decode) -> Traced:
    """The trace of a plain, NGRAM or EAGLE-3 server of SGLang's own, from stream and `meta_info`.

    Ids are the server's, text is `decode` of them. InconsistentTrace where stream and counters
    contradict each other; WarmPrefixCache for cached prompt tokens.
    """
    _check_reply(reply, arm)
    decoded = len(reply.ids) - 1
    accepted_S = accepted_by_stream(reply)
    if accepted_S is None:
        accepted_S = accepted_by_histogram(reply.meta)
        committed_S, gaps_S = committed_tokens(accepted_S, decoded), None
        notes: tuple[str, ...] = (_merged(reply, len(accepted_S)), "order of the steps unknown")
    else:
        committed_S = committed_tokens(accepted_S, decoded)
        gaps_S = step_gaps(reply, committed_S)
        notes = () if gaps_S is not None else (_merged(reply, len(accepted_S)),)
    steps = _stock_steps(accepted_S, committed_S, gaps_S, reply, arm)
    times: StepTimes = "none" if gaps_S is None else "stream"
    return _traced(reply, request, decode, steps, times, notes)


def worker_trace(
    reply: Reply,
    request: Request,
    arm: Arm,
    decode: Decode,
    records: Sequence[Mapping[str, Any]],
) -> Traced:
    """The trace of an EVICT server; `records` may hold other requests' steps, too.

    InconsistentTrace where stream, `meta_info` and records contradict each other.
    """
    _check_reply(reply, arm)
    kept, notes = worker_steps(records, reply.rid, reply.meta)
    committed_S = committed_tokens([step.accepted for step in kept], len(reply.ids) - 1)
    if step_gaps(reply, committed_S) is None:
        notes = (*notes, _merged(reply, len(kept)))
    steps = [
        _worker_step(index, step, committed)
        for index, (step, committed) in enumerate(zip(kept, committed_S, strict=True))
    ]
    unions = [step.union_L for step in kept if step.union_L is not None]
    return _traced(reply, request, decode, steps, "worker", notes, unions)


def _traced(
    reply: Reply,
    request: Request,
    decode: Decode,
    steps: list[StepRecord],
    times: StepTimes,
    notes: tuple[str, ...],
    unions: list[list[int]] | None = None,
) -> Traced:
    trace = RequestTrace(
        output_ids=list(reply.ids),
        text=decode(reply.ids),
        finish_reason=finish_reason(reply.meta, request),
        prefill_ms=reply.times.first_token_ms,
        decode_ms=reply.times.decode_ms,
        steps=steps,
        expert_union_layers=unions or [],
        cached_tokens=reply.meta.cached_tokens,
        first_answer_ms=reply.first_answer_ms,
    )
    check_trace(trace)
    return Traced(trace, times, notes)


def _check_reply(reply: Reply, arm: Arm) -> None:
    check_metadata(reply.meta, arm.draft_tokens)
    _check_cache(reply.meta, arm.shared_prefix)
    if reply.meta.retractions:
        raise InconsistentTrace(
            f"the server took the request back {reply.meta.retractions} times: not one prefill"
        )
    if reply.chunks[0].tokens > 1:
        raise MergedPrefill(
            f"the first event holds {reply.chunks[0].tokens} tokens: "
            "the time of prefill and that of decoding cannot be told apart"
        )


def _check_cache(meta: MetaInfo, allowed: int) -> None:
    if meta.cached_tokens is None:
        raise InconsistentTrace("missing counters: no cached_tokens")
    if meta.cached_tokens > allowed:
        raise WarmPrefixCache(
            f"warm prefix cache: {meta.cached_tokens} of {meta.prompt_tokens} prompt tokens, "
            f"allowed {allowed}; flush before every arm, or start it without the cache"
        )


def _merged(reply: Reply, steps: int) -> str:
    return f"merged events: {len(reply.chunks) - 1} for {steps} steps"


def _stock_steps(
    accepted_S: Sequence[int],
    committed_S: Sequence[int],
    gaps_S: Sequence[float] | None,
    reply: Reply,
    arm: Arm,
) -> list[StepRecord]:
    context = reply.meta.prompt_tokens or 0
    steps = []
    for index, (accepted, committed) in enumerate(zip(accepted_S, committed_S, strict=True)):
        steps.append(
            StepRecord(
                step=index,
                drafted=arm.draft_tokens - 1,
                verified=arm.draft_tokens,
                accepted=accepted,
                committed=committed,
                depth_drawn=arm.depth,
                draft_ms=NOT_MEASURED,
                verify_ms=NOT_MEASURED,
                extend_ms=NOT_MEASURED,
                other_ms=NOT_MEASURED,
                total_ms=NOT_MEASURED if gaps_S is None else gaps_S[index],
                context_len=context,
            )
        )
        context += committed
    return steps


def _worker_step(index: int, step: WorkerStep, committed: int) -> StepRecord:
    """Stages and what is left of the interval."""
    total = NOT_MEASURED if step.step_ms is None else step.step_ms
    stages = step.draft_ms + step.verify_ms + step.extend_ms
    union_L = step.union_L
    return StepRecord(
        step=index,
        drafted=step.drafted,
        verified=step.verified,
        accepted=step.accepted,
        committed=committed,
        depth_drawn=step.depth,
        expected=step.expected,
        draft_ms=step.draft_ms,
        verify_ms=step.verify_ms,
        extend_ms=step.extend_ms,
        other_ms=total - stages,
        total_ms=total,
        context_len=step.context,
        expert_union=sum(union_L) / len(union_L) if union_L else None,
    )

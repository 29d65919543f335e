"""Scripted verify steps, from which every summary of a generation must follow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from harness.counting import Counters, acceptance_histogram
from harness.engines.base import FinishReason, Method, Observer, Request, RequestTrace
from harness.records import StepRecord
from tests.support.fake_engine import FakeEngine

Script = tuple[int, ...]


def steps(*script: Script, step_ms: float = 10.0) -> list[StepRecord]:
    """One record per (drafted, verified, accepted[, committed]).

    drafted and accepted count draft nodes, verified includes the root, committed is accepted + 1
    unless a stop rule cut the step.
    """
    return [_step(index, *one, step_ms=step_ms) for index, one in enumerate(script)]


def _step(
    index: int,
    drafted: int,
    verified: int,
    accepted: int,
    committed: int | None = None,
    *,
    step_ms: float,
) -> StepRecord:
    return StepRecord(
        step=index,
        drafted=drafted,
        verified=verified,
        accepted=accepted,
        committed=accepted + 1 if committed is None else committed,
        depth_drawn=min(drafted, 4),
        verify_ms=step_ms,
        total_ms=step_ms,
        context_len=10,
        expert_union=2.0,
    )


def trace(
    records: Sequence[StepRecord], finish: FinishReason = "length", prefill_ms: float = 3.0
) -> RequestTrace:
    """What an engine returns for these steps: prefill's token, then the committed ones."""
    ids = [ord("a") + i % 26 for i in range(1 + sum(step.committed for step in records))]
    return RequestTrace(
        output_ids=ids,
        text="".join(chr(i) for i in ids),
        finish_reason=finish,
        prefill_ms=prefill_ms,
        decode_ms=sum(step.total_ms for step in records),
        steps=list(records),
    )


def counters(records: Sequence[StepRecord]) -> Counters:
    """The totals that an engine's counters would report for these steps."""
    return Counters(
        completion=1 + sum(step.committed for step in records),
        steps=len(records),
        accepted=sum(step.accepted for step in records),
        drafted=sum(step.drafted for step in records),
        histogram=acceptance_histogram(step.accepted for step in records),
    )


@dataclass
class ScriptedEngine(FakeEngine):
    """Returns what `script(request, method)` says; the rest is the fake engine's."""

    script: Callable[[Request, Method], RequestTrace] = field(kw_only=True)

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        super().generate(request, method, seed, observer)
        return self.script(request, method)

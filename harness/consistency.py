"""Whether the counters of a generation can all be true; no number may come from others."""

from __future__ import annotations

from harness.counting import Counters, check_counters
from harness.engines.base import EngineFacts, RequestTrace
from harness.expert_union import check_union
from harness.records import TOKENLESS


class InconsistentTrace(Exception):
    """Counters of a generation that contradict each other; no number may come from it."""


def check_trace(trace: RequestTrace, facts: EngineFacts | None = None) -> None:
    """Raise InconsistentTrace unless the counters of a generation can all be true.

    Committed tokens add up to the ids after prefill's (a replayed or simulated trace has none);
    accepted < verified <= drafted + 1; the expert union lies between top-k and what k tokens can
    reach; no time is negative (a clock went back).
    """
    _check_times(trace)
    if trace.finish_reason not in TOKENLESS:
        _check_totals(trace)
    for step in trace.steps:
        if not 0 <= step.accepted < step.verified <= step.drafted + 1:
            raise InconsistentTrace(
                f"step {step.step}: accepted {step.accepted}, verified {step.verified}, "
                f"drafted {step.drafted}"
            )
        if facts is not None and facts.experts and step.expert_union is not None:
            reason = check_union(
                step.expert_union, facts.experts, facts.experts_per_token, step.verified
            )
            if reason:
                raise InconsistentTrace(f"step {step.step}: {reason}")


def _check_times(trace: RequestTrace) -> None:
    times = {"prefill": trace.prefill_ms, "decode": trace.decode_ms}
    times |= {f"step {step.step}": step.total_ms for step in trace.steps}
    for name, value in times.items():
        if value < 0.0:
            why = "prefill exceeds total" if name == "decode" else "the clock went back"
            raise InconsistentTrace(f"{name} took {value:.3f} ms: {why}")


def _check_totals(trace: RequestTrace) -> None:
    returned = len(trace.output_ids) - 1
    if trace.decode_tokens != returned:
        raise InconsistentTrace(
            f"steps commit {trace.decode_tokens} tokens, decode returned {returned}"
        )
    counters = Counters(
        completion=len(trace.output_ids),
        steps=len(trace.steps),
        accepted=sum(step.accepted for step in trace.steps),
    )
    trimmed = trace.steps[-1].accepted if trace.steps else 0
    if reasons := check_counters(counters, trimmed):
        raise InconsistentTrace("; ".join(reasons))

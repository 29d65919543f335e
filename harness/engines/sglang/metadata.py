"""`meta_info` of SGLang 0.5.23: the one place that knows its field names.

A field that a reply lacks is None. A speculative server leaves all its counters out of a reply
whose first token was the last one: nothing was verified.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.consistency import InconsistentTrace
from harness.counting import Counters, check_counters, engine_tau
from harness.engines.base import FinishReason, Request


class UnreadableReply(Exception):
    """A reply whose form is not that of SGLang 0.5.23."""


@dataclass(frozen=True)
class MetaInfo:
    """One finished request as its server describes it. Seconds, tokens; histograms without zeros.

    finish_type: "stop", "length" or "abort"; matched: the token or string that stopped it.
    verify_steps: target forwards in decode; correct_drafts: draft nodes kept, a cut last step
    counted whole; proposed_drafts: always the configured width, whatever was verified.
    accepted_histogram: steps by draft nodes kept. verified_mean, verified_histogram: nodes verified
    per step, root included, where the worker reports them.
    """

    rid: str | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    reasoning_tokens: int | None
    retractions: int | None
    e2e_latency_s: float | None
    finish_type: str | None
    finish_message: str | None
    finish_status: int | None
    matched: int | str | None
    verify_steps: int | None
    correct_drafts: int | None
    proposed_drafts: int | None
    accepted_histogram: dict[int, int] | None
    verified_mean: float | None
    verified_histogram: dict[int, int] | None

    def counters(self) -> Counters | None:
        """The totals to be checked; None when the reply carries no verify counters."""
        if self.completion_tokens is None or self.verify_steps is None:
            return None
        return Counters(
            completion=self.completion_tokens,
            steps=self.verify_steps,
            accepted=_present(self.correct_drafts, "spec_num_correct_drafts"),
            drafted=self.proposed_drafts,
            histogram=self.accepted_histogram,
        )


def read_metadata(raw: Mapping[str, Any]) -> MetaInfo:
    """Read a `meta_info` document; UnreadableReply for a field of another type."""
    finish = _typed(raw, "finish_reason", dict) or {}
    matched: Any = finish.get("matched")
    return MetaInfo(
        rid=_typed(raw, "id", str),
        prompt_tokens=_typed(raw, "prompt_tokens", int),
        completion_tokens=_typed(raw, "completion_tokens", int),
        cached_tokens=_typed(raw, "cached_tokens", int),
        reasoning_tokens=_typed(raw, "reasoning_tokens", int),
        retractions=_typed(raw, "num_retractions", int),
        e2e_latency_s=_number(raw, "e2e_latency"),
        finish_type=_typed(finish, "type", str),
        finish_message=_typed(finish, "message", str),
        finish_status=_typed(finish, "status_code", int),
        matched=matched[-1] if isinstance(matched, list) else matched,
        verify_steps=_typed(raw, "spec_verify_ct", int),
        correct_drafts=_typed(raw, "spec_num_correct_drafts", int),
        proposed_drafts=_typed(raw, "spec_num_proposed_drafts", int),
        accepted_histogram=_histogram(raw, "spec_correct_drafts_histogram"),
        verified_mean=_number(raw, "spec_cap_length"),
        verified_histogram=_histogram(raw, "spec_cap_lens_histogram"),
    )


def finish_reason(meta: MetaInfo, request: Request) -> FinishReason:
    """Why it ended. A matched number is an end token; fewer tokens than asked for: the context.

    InconsistentTrace for a string nobody asked for: SGLang reports NaN logits that way.
    """
    if meta.finish_type == "length":
        short = _present(meta.completion_tokens, "completion_tokens") < request.max_new_tokens
        return "context" if short else "length"
    if meta.finish_type == "stop" and isinstance(meta.matched, int):
        return "eos"
    if meta.finish_type == "stop" and meta.matched in request.stop:
        return "stop"
    raise InconsistentTrace(
        f"finish {meta.finish_type!r} on {meta.matched!r}, allowed: an end token, a length, "
        f"or one of the stop strings {list(request.stop)}"
    )


def check_metadata(meta: MetaInfo, draft_tokens: int) -> None:
    """Raise unless the counters can be true for a server that verifies up to `draft_tokens` nodes.

    draft_tokens: N, root included; 1 for plain decoding, which must report no verify step
    (InputError "baseline is speculating"). InconsistentTrace names the numbers; counters may be
    missing only if nothing was decoded. A stop rule cuts at most the longest step's drafts.
    """
    completion = _present(meta.completion_tokens, "completion_tokens")
    counters = meta.counters()
    if draft_tokens == 1:
        engine_tau([counters], speculative=False)
        return
    if counters is None:
        if completion > 1:
            raise InconsistentTrace(f"missing counters: {completion} tokens, no spec_verify_ct")
        return
    trimmed = max(counters.histogram or {}, default=counters.accepted)
    if reasons := check_counters(counters, trimmed, per_step=draft_tokens - 1):
        raise InconsistentTrace("; ".join(reasons))
    _check_verified(meta, counters.steps, draft_tokens)


def _check_verified(meta: MetaInfo, steps: int, draft_tokens: int) -> None:
    """Verified nodes: their histogram holds every step, its mean is the mean, none exceeds N."""
    if meta.verified_histogram is None:
        return
    held = sum(meta.verified_histogram.values())
    total = sum(k * count for k, count in meta.verified_histogram.items())
    if held != steps or max(meta.verified_histogram) > draft_tokens:
        raise InconsistentTrace(
            f"verified nodes {meta.verified_histogram} for {steps} steps of 1..{draft_tokens}"
        )
    if meta.verified_mean is not None and abs(meta.verified_mean * steps - total) > 1e-6 * total:
        raise InconsistentTrace(
            f"verified mean {meta.verified_mean} x {steps} steps is not {total} nodes"
        )


def _present(value: int | None, name: str) -> int:
    if value is None:
        raise InconsistentTrace(f"missing counters: no {name}")
    return value


def _typed(raw: Mapping[str, Any], name: str, kind: type) -> Any:
    value = raw.get(name)
    if value is None or (isinstance(value, kind) and not isinstance(value, bool)):
        return value
    raise UnreadableReply(f"meta_info: {name} is {value!r}, expected {kind.__name__}")


def _number(raw: Mapping[str, Any], name: str) -> float | None:
    value = raw.get(name)
    if value is None or (isinstance(value, (int, float)) and not isinstance(value, bool)):
        return None if value is None else float(value)
    raise UnreadableReply(f"meta_info: {name} is {value!r}, expected a number")


def _histogram(raw: Mapping[str, Any], name: str) -> dict[int, int] | None:
    values: Sequence[Any] | None = _typed(raw, name, list)
    if values is None:
        return None
    if not all(isinstance(value, int) and value >= 0 for value in values):
        raise UnreadableReply(f"meta_info: {name} is {values!r}, expected counts")
    return {index: count for index, count in enumerate(values) if count}

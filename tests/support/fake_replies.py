"""Scripted answers of a fake server: what one prompt gets, event by event."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from typing import Any, Self


@dataclass(frozen=True)
class Script:
    """Ids, tokens per event, and the counters of the last event; or an error in their place.

    delays_s: seconds before each event, missing ones 0. reasoning: ids that lie in a reasoning
    block, counted from the front. fields: of the last `meta_info`; None leaves a field out.
    status, error: an HTTP error, or with `failed_after` an error event after so many events.
    lost_after: events before the connection drops. quiet_end: no [DONE]. close: after the reply.
    """

    ids: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    delays_s: tuple[float, ...] = ()
    reasoning: int = 0
    fields: Mapping[str, Any] = field(default_factory=dict)
    finish: Mapping[str, Any] | None = None
    status: int = 200
    error: str = ""
    failed_after: int | None = None
    lost_after: int | None = None
    quiet_end: bool = False
    close: bool = False

    def but(self, **changes: Any) -> Self:
        """The same reply with other parts."""
        return replace(self, **changes)

    def counted(self, **fields: Any) -> Self:
        """The same reply with these fields of `meta_info` replaced, None to leave one out."""
        return replace(self, fields={**self.fields, **fields})

    def merged(self, *chunks: int) -> Self:
        """The same tokens and counters in other events."""
        if sum(chunks) != len(self.ids):
            raise ValueError(f"events of {sum(chunks)} tokens for {len(self.ids)} ids")
        return replace(self, chunks=chunks)

    def delay_s(self, index: int) -> float:
        """Seconds before an event."""
        return self.delays_s[index] if index < len(self.delays_s) else 0.0

    def events(self, body: Mapping[str, Any], cached: int, incremental: bool) -> list[Any]:
        """The documents to send, as 0.5.23 words them."""
        ends = list(accumulate(self.chunks))
        found = []
        for before, end in pairwise([0, *ends]):
            last = end == ends[-1]
            ids = list(self.ids[before if incremental else 0 : end])
            found.append({"output_ids": ids, "meta_info": self._meta(body, cached, end, last)})
        if self.failed_after is not None:
            failure = {"message": self.error, "type": "invalid_request_error", "code": 400}
            found[self.failed_after :] = [{"error": failure}]
        return found

    def _meta(self, body: Mapping[str, Any], cached: int, end: int, last: bool) -> dict[str, Any]:
        meta = {
            "id": body.get("rid") or "made-by-the-server",
            "finish_reason": self._finish() if last else None,
            "prompt_tokens": len(body["input_ids"]),
            "weight_version": "default",
            "num_retractions": 0,
            "reasoning_tokens": min(self.reasoning, end),
            "completion_tokens": end,
            "cached_tokens": cached,
        }
        if last:
            meta |= {"e2e_latency": 0.5, **self.fields}
        return {
            name: value for name, value in meta.items() if name in _NULLABLE or value is not None
        }

    def _finish(self) -> Mapping[str, Any]:
        return self.finish or {"type": "length", "length": len(self.ids)}


_NULLABLE = ("finish_reason",)


def plain(tokens: int, **parts: Any) -> Script:
    """A reply without speculation, one token per event."""
    return Script(ids=_ids(tokens), chunks=(1,) * tokens, **parts)


def speculative(
    accepted: Sequence[int], draft_tokens: int = 32, cut: int = 0, **parts: Any
) -> Script:
    """One event per verify step with as many accepted drafts; `cut`: tokens the last step lost."""
    committed = [kept + 1 for kept in accepted]
    if committed:
        committed[-1] -= cut
    chunks = (1, *committed)
    return Script(
        ids=_ids(sum(chunks)),
        chunks=chunks,
        fields=spec_fields(accepted, sum(chunks), draft_tokens),
        **parts,
    )


def spec_fields(accepted: Sequence[int], completion: int, draft_tokens: int) -> dict[str, Any]:
    """The counters that 0.5.23 adds to a reply with at least one verify step."""
    if not accepted:
        return {}
    steps, kept = len(accepted), sum(accepted)
    counts = Counter(accepted)
    return {
        "spec_accept_rate": kept / (steps * (draft_tokens - 1)),
        "spec_accept_length": completion / steps,
        "spec_num_correct_drafts": kept,
        "spec_num_proposed_drafts": steps * (draft_tokens - 1),
        "spec_verify_ct": steps,
        "spec_correct_drafts_histogram": [counts[i] for i in range(max(accepted) + 1)],
    }


def _ids(tokens: int) -> tuple[int, ...]:
    return tuple(100 + index for index in range(tokens))

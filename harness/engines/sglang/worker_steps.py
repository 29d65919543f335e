"""The EVICT worker's step records of one request, held against what its server reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

from harness.consistency import InconsistentTrace
from harness.counting import acceptance_histogram
from harness.engines.sglang.metadata import MetaInfo, UnreadableReply


@dataclass(frozen=True)
class WorkerStep:
    """One line of steps.jsonl, seen from one request of its batch. Milliseconds of the device.

    verified: k, root included; drafted: without it; accepted: draft nodes kept; context: committed
    tokens before the step. step_ms: to the start of the next step, None after the last of a run.
    union_L: distinct experts per MoE layer, where they were counted.
    """

    step: int
    drafted: int
    verified: int
    accepted: int
    depth: int
    context: int
    expected: float | None
    draft_ms: float
    verify_ms: float
    extend_ms: float
    step_ms: float | None
    union_L: list[int] | None

    @classmethod
    def of(cls, record: Mapping[str, Any], rid: str) -> Self:
        """Read a record; UnreadableReply where a field is missing."""
        try:
            place = record["rids"].index(rid)
            return cls(
                step=record["step"],
                drafted=record["drafted"],
                verified=record["k"],
                accepted=record["accepted"][place],
                depth=record["depth"],
                context=record["context"][place],
                expected=record["expected"],
                draft_ms=record["draft_ms"],
                verify_ms=record["verify_ms"],
                extend_ms=record["extend_ms"],
                step_ms=record["step_ms"],
                union_L=record["union"],
            )
        except (KeyError, IndexError) as error:
            raise UnreadableReply(f"step record of {rid!r}: no {error}") from error


def worker_steps(
    records: Sequence[Mapping[str, Any]], rid: str, meta: MetaInfo
) -> tuple[list[WorkerStep], tuple[str, ...]]:
    """This request's steps in order, and notes; InconsistentTrace where the server disagrees.

    With overlap scheduling the worker has begun one step more when the end of a request is seen;
    its server does not count it, so one record past the end is dropped and noted.
    """
    own = [WorkerStep.of(record, rid) for record in records if rid in record["rids"]]
    _check_order(own)
    counted = meta.verify_steps or 0
    if len(own) not in (counted, counted + 1):
        raise InconsistentTrace(
            f"the worker recorded {len(own)} steps, the server counted {counted}"
        )
    kept = own[:counted]
    _check_accepted(kept, meta)
    _check_verified(kept, meta)
    return kept, ("one step past the end dropped",) if len(own) > counted else ()


def _check_order(own: Sequence[WorkerStep]) -> None:
    for before, after in pairwise(own):
        if before.step >= after.step:
            raise InconsistentTrace(f"step {after.step} recorded after step {before.step}")


def _check_accepted(kept: Sequence[WorkerStep], meta: MetaInfo) -> None:
    accepted = sum(step.accepted for step in kept)
    if kept and meta.correct_drafts != accepted:
        raise InconsistentTrace(
            f"the worker accepted {accepted} drafts, the server counted {meta.correct_drafts}"
        )
    found = acceptance_histogram(step.accepted for step in kept)
    if meta.accepted_histogram not in (None, found):
        raise InconsistentTrace(
            f"steps by accepted drafts: the worker's {found}, the server's "
            f"{meta.accepted_histogram}"
        )


def _check_verified(kept: Sequence[WorkerStep], meta: MetaInfo) -> None:
    found = dict(sorted(Counter(step.verified for step in kept).items()))
    if meta.verified_histogram not in (None, found):
        raise InconsistentTrace(
            f"steps by verified nodes: the worker's {found}, the server's {meta.verified_histogram}"
        )

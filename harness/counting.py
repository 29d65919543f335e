"""Tokens and acceptance from counters: one definition of each number, and the identities it obeys.

Drafted, verified and accepted count draft nodes, the root excluded. The token that prefill produces
is part of a completion but of no step.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from operator import mul
from typing import NamedTuple

from evict.errors import InputError
from harness.records import StepRecord

Histogram = Mapping[int, int]


class Reading(NamedTuple):
    """A number and how it came about, or None and the reason why there is none."""

    value: float | None
    note: str


@dataclass(frozen=True)
class Counters:
    """One request's totals as an engine reports them.

    completion: tokens returned, prefill's included. steps: target forwards in decode (the verify
    count). accepted: draft tokens the target kept, before a stop rule cuts the last step.
    histogram[i]: steps that accepted i drafts; a list is dict(enumerate(...)), gaps may be absent.
    """

    completion: int
    steps: int
    accepted: int
    drafted: int | None = None
    histogram: Histogram | None = None

    @property
    def committed(self) -> int:
        """Decode tokens that reached the user."""
        return self.completion - 1


def check_counters(c: Counters, trimmed: int = 0, per_step: int | None = None) -> list[str]:
    """What contradicts itself, one message each, numbers named; empty when all holds.

    completion - steps - accepted is 1, or 0 when a cut last token cancels prefill's. `trimmed`, at
    most the last step's accepted count, widens the bound below for a finish that cuts a step.
    per_step: drafts of every step where that is fixed.
    """
    totals = {"completion": c.completion, "steps": c.steps, "accepted": c.accepted}
    found = [f"{name} {value} is negative" for name, value in totals.items() if value < 0]
    offset = c.completion - c.steps - c.accepted
    if not -trimmed <= offset <= 1:
        found.append(
            f"completion {c.completion} - steps {c.steps} - accepted {c.accepted} = {offset}, "
            f"allowed {-trimmed}..1"
        )
    found += _check_drafted(c, per_step) + _check_histogram(c)
    return [f"inconsistent: {line}" for line in found]


def _check_drafted(c: Counters, per_step: int | None) -> list[str]:
    if c.drafted is None:
        return []
    found = []
    if c.accepted > c.drafted:
        found.append(f"accepted {c.accepted} exceeds drafted {c.drafted}")
    if per_step is not None and c.drafted != c.steps * per_step:
        found.append(f"drafted {c.drafted} is not steps {c.steps} x {per_step}")
    return found


def _check_histogram(c: Counters) -> list[str]:
    if c.histogram is None:
        return []
    steps = sum(c.histogram.values())
    accepted = sum(i * count for i, count in c.histogram.items())
    found = []
    if steps != c.steps:
        found.append(f"histogram holds {steps} steps, reported {c.steps}")
    if accepted != c.accepted:
        found.append(f"histogram holds {accepted} accepted, reported {c.accepted}")
    return found


def tau(c: Counters) -> float | None:
    """Mat: committed decode tokens / steps; None without a step.

    1 + accepted / steps unless a stop rule cut the last step, whose lost tokens do not count.
    """
    return _ratio(c.committed, c.steps)


def acceptance_histogram(accepted_S: Iterable[int]) -> dict[int, int]:
    """Steps by accepted drafts, ascending, only counts that occur.

    With committed - 1 of each step in place of accepted, its length equals `tau` for a cut request.
    """
    return dict(sorted(Counter(accepted_S).items()))


@dataclass(frozen=True)
class PositionRates:
    """Both readings of "acceptance at position i" (i = 1..max), under names that differ.

    marginal: share of steps that accept at least i drafts. conditional: share of those accepting
    i - 1 that accept one more. length: tokens per step, the target's own counted.
    """

    marginal: list[float]
    conditional: list[float]
    length: float


def position_rates(histogram: Histogram) -> PositionRates:
    """Rates of a histogram of accepted drafts; InputError when it holds no step."""
    marginal = marginal_rates(histogram)
    return PositionRates(marginal, conditional_rates(marginal), length_from_marginal(marginal))


def marginal_rates(histogram: Histogram) -> list[float]:
    """Share of steps that accept at least i drafts, i = 1..largest with a step; gaps stay exact."""
    if min(histogram, default=0) < 0 or min(histogram.values(), default=0) < 0:
        raise InputError("negative entry in a histogram", seen=dict(histogram), allowed=">= 0")
    steps = sum(histogram.values())
    if steps == 0:
        raise InputError("a histogram without steps has no rates", seen=dict(histogram))
    deepest = max(i for i, count in histogram.items() if count)
    depths = range(1, deepest + 1)
    return [sum(n for accepted, n in histogram.items() if accepted >= i) / steps for i in depths]


def conditional_rates(marginal: Sequence[float]) -> list[float]:
    """Rate at each position given that the one before was accepted; 0 where no step gets there."""
    _check_marginal(marginal)
    before = [1.0, *marginal]
    return [now / last if last else 0.0 for last, now in pairwise(before)]


def marginal_from_conditional(conditional: Sequence[float]) -> list[float]:
    """Running product: the inverse of `conditional_rates`."""
    return list(accumulate(conditional, mul))


def length_from_marginal(m: Sequence[float]) -> float:
    """Tokens per step, 1 + sum of marginal rates. Conditional rates must be converted first."""
    _check_marginal(m)
    return 1.0 + sum(m)


def _check_marginal(m: Sequence[float]) -> None:
    for before, now in pairwise([1.0, *m]):
        if not 0.0 <= now <= before:
            raise InputError("marginal rates fall with depth", seen=list(m), allowed=f"0..{before}")


def pooled_length(lengths: Sequence[float | None], steps: Sequence[int]) -> Reading:
    """Tokens per step over ranks, weighted by their steps; ranks that report none are skipped.

    None, with the reason, when no rank with a step reports a length.
    """
    if len(lengths) != len(steps):
        raise InputError("one step count per length", seen=(len(lengths), len(steps)))
    known = [(length, n) for length, n in zip(lengths, steps, strict=True) if length is not None]
    value = _ratio(sum(length * n for length, n in known), sum(n for _, n in known))
    ranks = sum(n > 0 for _, n in known)
    said = "no rank with a step reports a length" if value is None else f"of {ranks} rank(s)"
    return Reading(value, said)


def engine_tau(reports: Sequence[Counters | None], speculative: bool) -> Reading:
    """Tokens per step of a run, from what the engine reported for each request (None: nothing).

    A plain method verifies nothing, so its engine must report no verify step: else InputError.
    """
    present = [report for report in reports if report is not None]
    if not speculative:
        verified = sum(report.steps for report in present)
        if verified > 0:
            raise InputError(
                "baseline is speculating",
                seen=f"{verified} verify steps",
                allowed=0,
                hint="start the baseline's engine without a draft model",
            )
        return Reading(1.0, "by definition")
    if len(present) < len(reports):
        missing = len(reports) - len(present)
        return Reading(None, f"missing counters ({missing} of {len(reports)})")
    value = _ratio(sum(c.committed for c in present), sum(c.steps for c in present))
    return Reading(value, "no step" if value is None else "committed / steps")


@dataclass(frozen=True)
class Shares:
    """Four ratios of a truncated tree that must not share a name.

    drafted and verified exclude the root, over all steps; committed defaults to accepted + steps
    (no stop rule cut a step). Ratios are None without a denominator.
    """

    drafted: int
    verified: int
    accepted: int
    steps: int
    committed: int | None = None

    @classmethod
    def of(cls, records: Sequence[StepRecord]) -> Shares:
        """Totals of step records, whose `verified` includes the root."""
        return cls(
            drafted=sum(step.drafted for step in records),
            verified=sum(step.verified - 1 for step in records),
            accepted=sum(step.accepted for step in records),
            steps=len(records),
            committed=sum(step.committed for step in records),
        )

    @property
    def accepted_per_drafted(self) -> float | None:
        """Share of drafted nodes that the target kept."""
        return _ratio(self.accepted, self.drafted)

    @property
    def accepted_per_verified(self) -> float | None:
        """Share of verified nodes that the target kept."""
        return _ratio(self.accepted, self.verified)

    @property
    def kept_share(self) -> float | None:
        """Share of the draft that truncation leaves to verify."""
        return _ratio(self.verified, self.drafted)

    @property
    def tau(self) -> float | None:
        """Committed decode tokens per step."""
        committed = self.accepted + self.steps if self.committed is None else self.committed
        return _ratio(committed, self.steps)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None

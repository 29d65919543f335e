"""Whether two greedy outputs are the same, and if not, what kind of difference it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from evict.errors import InputError

Kind = Literal["equal", "near_tie", "stop_rule", "fault"]
KINDS: tuple[Kind, ...] = ("equal", "near_tie", "stop_rule", "fault")
NEAR_TIE = 0.01
RULES = frozenset({"stop", "length", "context"})


@dataclass(frozen=True)
class Equality:
    """kind of difference, and the index of the first token that differs (None when equal).

    For a strict prefix the index is its length: the first position that only one output has.
    """

    kind: Kind
    first_divergence: int | None


def compare_outputs(
    ids_a: Sequence[int],
    ids_b: Sequence[int],
    finish_a: str | None,
    finish_b: str | None,
    gap: float | None = None,
) -> Equality:
    """Classify a pair of outputs of the same prompt.

    stop_rule: one output is the other cut short by a rule (stop string, length, context), and the
    other ended for another reason; an end token is the model's choice and no such rule.
    near_tie: the target's two best log-probabilities at the divergence differ by `gap` < NEAR_TIE,
    so that rounding decides. Everything else is a fault, an unknown gap (None) included: a
    difference is excused by evidence only. InputError for a gap that is negative or NaN.
    """
    if gap is not None and not gap >= 0.0:
        raise InputError("log-probability gap", seen=gap, allowed=">= 0")
    at = _first_divergence(ids_a, ids_b)
    if at is None:
        return Equality("equal", None)
    if _cut_by_rule(len(ids_a), len(ids_b), finish_a, finish_b, at):
        return Equality("stop_rule", at)
    return Equality("near_tie" if gap is not None and gap < NEAR_TIE else "fault", at)


def _first_divergence(ids_a: Sequence[int], ids_b: Sequence[int]) -> int | None:
    for at, (a, b) in enumerate(zip(ids_a, ids_b, strict=False)):
        if a != b:
            return at
    return None if len(ids_a) == len(ids_b) else min(len(ids_a), len(ids_b))


def _cut_by_rule(
    size_a: int, size_b: int, finish_a: str | None, finish_b: str | None, at: int
) -> bool:
    shorter = finish_a if size_a < size_b else finish_b
    return at == min(size_a, size_b) and finish_a != finish_b and shorter in RULES


def mismatch_rate(kinds: Iterable[Kind]) -> float | None:
    """Share of pairs that are not equal, whatever the kind; None without a pair."""
    listed = list(kinds)
    return sum(kind != "equal" for kind in listed) / len(listed) if listed else None


@dataclass(frozen=True)
class Floor:
    """How often a baseline differs from itself: what no method can be blamed for."""

    pairs: int
    different: int

    @classmethod
    def of(cls, kinds: Iterable[Kind]) -> Floor:
        """From the comparisons of two runs of one baseline."""
        listed = list(kinds)
        return cls(len(listed), sum(kind != "equal" for kind in listed))

    @property
    def rate(self) -> float | None:
        """Share of differing pairs; None when the baseline was not repeated."""
        return self.different / self.pairs if self.pairs else None


@dataclass(frozen=True)
class Differences:
    """All pairs of two arms by kind, with the baseline's own floor (None: not measured)."""

    counts: dict[Kind, int]
    floor: Floor | None = None

    @classmethod
    def of(cls, kinds: Iterable[Kind], floor: Floor | None = None) -> Differences:
        """Count the kinds; every kind has an entry."""
        found = Counter(kinds)
        return cls({kind: found[kind] for kind in KINDS}, floor)

    @property
    def failed(self) -> bool:
        """Only a fault fails a run."""
        return self.counts["fault"] > 0

    def text(self) -> str:
        """One line: how many differ, how, and the floor beside it."""
        pairs = sum(self.counts.values())
        named = [f"{self.counts[kind]} {kind}" for kind in KINDS[1:] if self.counts[kind]]
        different = pairs - self.counts["equal"]
        detail = f" ({', '.join(named)})" if named else ""
        floor = "not measured"
        if self.floor is not None and self.floor.pairs:
            floor = f"{self.floor.different} of {self.floor.pairs}"
        return f"{different} of {pairs} outputs differ{detail}; baseline against itself: {floor}"

"""Whether two greedy outputs are the same, and if not, what kind of difference it is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

from evict.errors import InputError

Kind = Literal["equal", "near_tie", "stop_rule", "fault"]
KINDS: tuple[Kind, ...] = ("equal", "near_tie", "stop_rule", "fault")
RULES = frozenset({"stop", "length", "context"})
NEAR_TIE = 0.01
# Logits of 8 to 32 are 1/16 to 1/8 apart in bfloat16, and what they are computed from is rounded
# as coarsely. Of 150 outputs of the lab model in bfloat16, 28 differ between trees and plain
# decoding: median gap 0.06, largest 0.31. float16 has three bits more, by which it is scaled.
COARSE = {"bfloat16": 0.5, "float16": 0.5 / 2**3}
LISTED = 10


def near_tie(dtype: str) -> float:
    """The log-probability gap below which rounding in this number format may decide."""
    return COARSE.get(dtype, NEAR_TIE)


@dataclass(frozen=True)
class NextTokens:
    """The LISTED likeliest next tokens, the likeliest first.

    behind: how far each one's log-probability (natural logarithm) lies below the first one's.
    """

    ids: tuple[int, ...]
    behind: tuple[float, ...]

    def gap(self, *tokens: int) -> float | None:
        """How far the least likely of these tokens lies behind the best; None if not listed.

        For the two likeliest tokens it is the top-2 gap.
        """
        known = dict(zip(self.ids, self.behind, strict=True))
        return max(known[token] for token in tokens) if known.keys() >= set(tokens) else None


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
    below: float = NEAR_TIE,
) -> Equality:
    """Classify a pair of outputs of the same prompt.

    stop_rule: one output is the other cut short by a rule (stop string, length, context), and the
    other ended for another reason; an end token is the model's choice and no such rule.
    near_tie: both tokens at the divergence lie within `gap` < `below` of the target's best, in
    log-probability, so that rounding decides. Everything else is a fault, an unknown gap (None)
    included: a difference is excused by evidence only. InputError for a gap that is negative or
    NaN.
    """
    if gap is not None and not gap >= 0.0:
        raise InputError("log-probability gap", seen=gap, allowed=">= 0")
    at = _first_divergence(ids_a, ids_b)
    if at is None:
        return Equality("equal", None)
    if _cut_by_rule(len(ids_a), len(ids_b), finish_a, finish_b, at):
        return Equality("stop_rule", at)
    chosen = at < min(len(ids_a), len(ids_b))
    excused = chosen and gap is not None and gap < below
    return Equality("near_tie" if excused else "fault", at)


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

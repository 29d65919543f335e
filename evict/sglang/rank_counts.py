"""The experts of one step as every rank counted them, brought to one account."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from evict.errors import InputError


class LayerCounts(NamedTuple):
    """One rank's account of a step, a number per MoE layer.

    union_L: distinct experts. loads_L: routed choices, an expert counted as often as it was chosen.
    """

    union_L: list[int]
    loads_L: list[int]


@dataclass(frozen=True)
class Account:
    """The unions that stand for a step; note: whose they are and why, None where ranks agree."""

    union_L: list[int]
    note: str | None = None


def account(ranks: Sequence[LayerCounts], choices: int) -> Account:
    """One account of a step whose layers routed `choices` = tokens x experts per token each.

    Ranks that replicate the router agree; where they do not, rank 0's stands. Ranks that hold
    different experts each count their own, and add up. InputError where the loads of a layer sum to
    something else: rows were lost, or padding was counted.
    """
    first = ranks[0]
    if all(load == choices for load in first.loads_L):
        return Account(first.union_L, _difference(ranks))
    sums_L = [sum(loads) for loads in zip(*(rank.loads_L for rank in ranks), strict=True)]
    if set(sums_L) == {choices}:
        unions = zip(*(rank.union_L for rank in ranks), strict=True)
        return Account([sum(union) for union in unions], "experts are spread: ranks add up")
    raise InputError(
        "routed choices of a layer are not tokens x experts per token",
        seen=f"{sums_L} summed over {len(ranks)} rank(s)",
        allowed=choices,
        hint="pin moe_runner_backend=triton for runs that count experts",
    )


def _difference(ranks: Sequence[LayerCounts]) -> str | None:
    other = [rank for rank, counts in enumerate(ranks) if counts != ranks[0]]
    if not other:
        return None
    return (
        f"experts differ on ranks {other}: rank 0's are used, because tokens, times and step "
        "records are rank 0's"
    )

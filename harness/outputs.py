"""A run's greedy outputs against the plain baseline's, pair by pair, with what excuses each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.engines.base import Engine, EngineLost
from harness.equality import (
    KINDS,
    NEAR_TIE,
    Equality,
    Kind,
    NextTokens,
    compare_outputs,
    near_tie,
)
from harness.records import RequestRecord

Tokens = tuple[int, ...]
IdsOf = Callable[[RequestRecord], Sequence[int]]


def check_outputs(
    engine: Engine,
    rows: Iterable[RequestRecord],
    baseline_rows: Iterable[RequestRecord],
    ids_of: IdsOf,
) -> dict[str, Any]:
    """Classify every greedy pair of equal prompt, turn, repeat and input; plain data for a file.

    ids_of: the prompt ids of a row. The engine is asked for its likeliest tokens only where two
    outputs part, and whatever goes wrong there leaves the pair without an excuse.

    pairs; counts: pairs by kind; different_input: partners that saw another input (a later turn
    follows its own earlier answers), which are no pairs; near_tie_below: the limit on gaps;
    differences: one entry per unequal pair, with the two tokens, own first, and the gap.
    """
    asked = _Asked(engine, ids_of)
    below = _limit(engine)
    partners = {row.key: row for row in baseline_rows if _answered(row)}
    kinds: list[Kind] = []
    differences: list[dict[str, Any]] = []
    different_input = 0
    for row in (row for row in rows if _answered(row) and row.key in partners):
        partner = partners[row.key]
        if row.input_hash != partner.input_hash:
            different_input += 1
            continue
        found, evidence = _judged(row, partner, asked, below)
        kinds.append(found.kind)
        if found.first_divergence is not None:
            differences.append(_entry(row, found, evidence))
    return {
        "pairs": len(kinds),
        "counts": {kind: kinds.count(kind) for kind in KINDS},
        "different_input": different_input,
        "near_tie_below": below,
        "differences": differences,
    }


def _answered(row: RequestRecord) -> bool:
    return row.error_class is None and row.temperature == 0.0 and bool(row.output_ids)


def _limit(engine: Engine) -> float:
    try:
        return near_tie(engine.describe().dtype)
    except Exception:  # a lost engine excuses nothing more
        return NEAR_TIE


@dataclass(frozen=True)
class _Evidence:
    """The tokens at the divergence, own first, and the gap, or what kept it from being known."""

    tokens: Tokens = ()
    gap: float | None = None
    error: str | None = None


@dataclass
class _Asked:
    """The engine, asked once per context: the repeats of a greedy prompt part at one place.

    Once it was lost it is not asked again: a new one may take minutes to start.
    """

    engine: Engine
    ids_of: IdsOf
    known: dict[tuple[Tokens, Tokens], _Evidence] = field(default_factory=dict)
    lost: str | None = None

    def __call__(self, row: RequestRecord, at: int, tokens: Tokens) -> _Evidence:
        if self.lost is not None:
            return _Evidence(tokens, error=self.lost)
        try:
            context = (*self.ids_of(row), *row.output_ids[:at])
            if (context, tokens) not in self.known:
                self.known[context, tokens] = _read(self.engine.top_gap(context), tokens)
            return self.known[context, tokens]
        except EngineLost as error:
            self.lost = type(error).__name__
            return _Evidence(tokens, error=self.lost)
        except Exception as error:  # a question that fails must not cost the run that it is about
            return _Evidence(tokens, error=type(error).__name__)


def _read(listed: NextTokens | None, tokens: Tokens) -> _Evidence:
    if listed is None:
        return _Evidence(tokens, error="the engine cannot tell")
    gap = listed.gap(*tokens)
    if gap is None:
        return _Evidence(tokens, error=f"not among the {len(listed.ids)} likeliest tokens")
    if not math.isfinite(gap) or gap < 0.0:
        return _Evidence(tokens, error=f"gap {gap}")
    return _Evidence(tokens, gap)


def _judged(
    row: RequestRecord, partner: RequestRecord, asked: _Asked, below: float
) -> tuple[Equality, _Evidence]:
    ids, finishes = (row.output_ids, partner.output_ids), (row.finish_reason, partner.finish_reason)
    found = compare_outputs(*ids, *finishes)
    at = found.first_divergence
    if found.kind != "fault" or at is None or at >= min(map(len, ids)):
        return found, _Evidence()
    evidence = asked(row, at, (ids[0][at], ids[1][at]))
    return compare_outputs(*ids, *finishes, gap=evidence.gap, below=below), evidence


def _entry(row: RequestRecord, found: Equality, evidence: _Evidence) -> dict[str, Any]:
    unknown = {} if evidence.error is None else {"gap_unknown": evidence.error}
    return {
        "prompt_id": row.prompt_id,
        "turn": row.turn,
        "repeat": row.repeat,
        "kind": found.kind,
        "first_divergence": found.first_divergence,
        "tokens": list(evidence.tokens),
        "gap": evidence.gap,
        **unknown,
    }

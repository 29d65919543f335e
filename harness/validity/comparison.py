"""Whether a speedup may be published: runs that differ in their method alone, measured alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from harness.stats import Speedup
from harness.validity.difference import Difference, differ
from harness.validity.fingerprint import CODE
from harness.validity.limits import LIMITS
from harness.validity.verdict import Reason, State, Verdict

HASHES = ("pair_hash", "machine_hash")
HASH_DIGITS = 8
VALUE_DIGITS = 60
# What runs of several benchmarks cannot share.
PER_BENCHMARK = frozenset({"prompts", "pair_hash"})


@dataclass(frozen=True)
class PairView:
    """Two judged runs, as rows of Collection.runs, and what their generations share.

    pairs: generations that have a partner; apart: those of them that another process measured.
    """

    run: Mapping[str, Any]
    partner: Mapping[str, Any]
    pairs: int = 0
    apart: int = 0

    @cached_property
    def differences(self) -> list[Difference]:
        """What sets the runs apart beside their method, by fingerprint where both have one."""
        one, two = (_fingerprint(row) for row in (self.run, self.partner))
        return differences(one, two) if one and two else _hash_differences(self.run, self.partner)

    @cached_property
    def code_differences(self) -> list[Difference]:
        """What sets apart the code that measured."""
        one, two = (_fingerprint(row) for row in (self.run, self.partner))
        return [found for found in _all(one, two) if found.name.startswith(CODE)]


def differences(first: Mapping[str, str], second: Mapping[str, str]) -> list[Difference]:
    """Names in which two fingerprints differ, the code that measured left out, sorted."""
    return [one for one in _all(first, second) if not one.name.startswith(CODE)]


def _all(first: Mapping[str, str], second: Mapping[str, str]) -> list[Difference]:
    return [] if first == second else list(differ(first, second))


def _fingerprint(row: Mapping[str, Any]) -> dict[str, str]:
    found = row.get("fingerprint")
    return found if isinstance(found, dict) else {}


def _hash_differences(run: Mapping[str, Any], partner: Mapping[str, Any]) -> list[Difference]:
    pairs = {name: (_hash(run, name), _hash(partner, name)) for name in HASHES}
    return [Difference(name, *pair) for name, pair in pairs.items() if pair[0] != pair[1]]


def _hash(row: Mapping[str, Any], name: str) -> str:
    return str(row.get(name))[:HASH_DIGITS]


def not_comparable(pair: PairView) -> Iterable[Reason]:
    """The runs differ in more than their method; keys and both values are named."""
    found = pair.differences
    if found:
        yield Reason("not_comparable", _listed(found), "invalid", "time")


def run_invalid(pair: PairView) -> Iterable[Reason]:
    """No comparison is better than its runs: what is unknown of one is unknown of it."""
    for row in (pair.run, pair.partner):
        state: State = row.get("verdict") or "unknown"
        said = str(row.get("verdict_text") or state)
        if state == "invalid":
            yield Reason("run_invalid", f"{_name(row)} is {said}", "invalid", "time")
        elif state == "unknown":
            for code in row.get("verdict_codes") or ("not_recorded",):
                yield Reason(code, f"of {_name(row)}", "unknown", "time")


def clocks_differ(pair: PairView) -> Iterable[Reason]:
    """The GPU ran faster in one arm than in the other."""
    clocks = [_number(row.get("gpu_clock_mhz")) for row in (pair.run, pair.partner)]
    known = [clock for clock in clocks if clock is not None]
    if len(known) < 2:
        return
    share = 1.0 - min(known) / max(known)
    if share > LIMITS.clocks_share:
        text = f"clocks differ {100 * share:.1f} % ({known[0]:.0f} and {known[1]:.0f} MHz)"
        yield Reason("clocks_differ", text, "invalid", "time")


def code_differs(pair: PairView) -> Iterable[Reason]:
    """Another commit, or other changes on top of it, measured the partner."""
    found = pair.code_differences
    if found:
        yield Reason("code_differs", _listed(found), "unknown", "time")


def not_interleaved(pair: PairView) -> Iterable[Reason]:
    """Pairs measured by different processes: the machine may have drifted in between."""
    if pair.apart:
        text = f"{pair.apart} of {pair.pairs} pairs come from two processes; use compare=[..]"
        yield Reason("not_interleaved", text, "unknown", "time")


PairRule = Callable[[PairView], Iterable[Reason]]
RULES: tuple[PairRule, ...] = (
    not_comparable,
    run_invalid,
    clocks_differ,
    code_differs,
    not_interleaved,
)


def judge_pair(pair: PairView) -> Verdict:
    """All reasons against the comparison of two runs."""
    return Verdict.of(*(rule(pair) for rule in RULES))


def one_machine(pairs: Sequence[PairView]) -> Iterable[Reason]:
    """Runs whose times are pooled differ in more than their prompts."""
    for other in pairs[1:]:
        found = [
            one
            for one in PairView(pairs[0].run, other.run).differences
            if one.name not in PER_BENCHMARK
        ]
        if found:
            text = f"runs that are pooled differ: {_listed(found)}"
            yield Reason("not_comparable", text, "invalid", "time")
            return


def aa_floor(equal: Speedup, found: Speedup) -> Iterable[Reason]:
    """A comparison that reaches into what two equal arms show here, which is not 1.

    equal: of a replica over the plain baseline of the same block, whose interval should hold 1.
    Its range reaches from 1 to the far end of the interval.
    """
    if equal.low is None or equal.high is None or equal.low <= 1.0 <= equal.high:
        return
    least, most = min(equal.low, 1.0), max(equal.high, 1.0)
    if found.low is None or found.high is None or found.low > most or found.high < least:
        return
    text = (
        f"two equal arms differ by [{equal.low:.3f}, {equal.high:.3f}] here, and "
        f"[{found.low:.3f}, {found.high:.3f}] does not leave that range"
    )
    yield Reason("aa_floor", text, "invalid", "time")


def within_floor(pairs: Sequence[PairView], found: Speedup) -> Iterable[Reason]:
    """`aa_floor` by what judging found for the block of these runs; a replica is what shows it."""
    row = pairs[0].run
    low, high = (_number(row.get(name)) for name in ("floor_low", "floor_high"))
    if not _number(row.get("replica")):
        yield from aa_floor(Speedup(None, low, high, None, 0, 0), found)


def gathered(verdicts: Iterable[Verdict]) -> Verdict:
    """One verdict of several comparisons: each code once, its first texts named, the rest counted.

    Invalid as soon as one of them is.
    """
    texts: dict[tuple[str, State], dict[str, None]] = {}
    for reason in (reason for verdict in verdicts for reason in verdict.reasons):
        texts.setdefault((reason.code, reason.state), {}).setdefault(reason.text)
    return Verdict(
        tuple(
            Reason(code, _shortened(list(said), "; "), state, "time")
            for (code, state), said in texts.items()
        )
    )


def _number(value: Any) -> float | None:
    """A number of a frame, whose missing ones are None or NaN."""
    return None if value is None or value != value else float(value)


def _name(row: Mapping[str, Any]) -> str:
    return f"{row.get('method_label', row['run'])} on {row.get('benchmark')}"


def _listed(found: Sequence[Difference]) -> str:
    named = [
        f"{one.name}: {_cut(one.first)} and {_cut(one.second)}"
        for one in found[: LIMITS.named_keys]
    ]
    return "; ".join(named) + _rest(len(found) - LIMITS.named_keys)


def _cut(value: Any) -> str:
    text = str(value)
    return text if len(text) <= VALUE_DIGITS else f"{text[:VALUE_DIGITS]}.."


def _shortened(texts: Sequence[str], joint: str) -> str:
    return joint.join(texts[: LIMITS.named_texts]) + _rest(len(texts) - LIMITS.named_texts)


def _rest(count: int) -> str:
    return f"; and {count} more" if count > 0 else ""

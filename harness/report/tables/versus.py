"""Paired comparison of one method's runs with the runs that differ from them in method only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, NamedTuple

import pandas as pd

from harness.collection import Collection
from harness.equality import Kind, compare_outputs
from harness.records import TOKENLESS
from harness.report.tables.measures import ratio
from harness.stats import Pair, Speedup, speedup
from harness.validity.comparison import PairView, gathered, judge_pair, one_machine, within_floor
from harness.validity.partners import partners
from harness.validity.verdict import Verdict

SAME = ("prompt_id", "turn", "repeat", "input_hash")
NOTHING = Speedup(None, None, None, None, 0, 0)

# A report asks for the same intervals in several tables and figures.
_speedup = lru_cache(maxsize=8192)(speedup)


class Generation(NamedTuple):
    """What is compared of one good request; times in ms."""

    decode_ms: float
    decode_tokens: int
    output_ids: list[int]
    finish_reason: str | None
    part: str


Key = tuple[Any, ...]
Rows = dict[Key, Generation]
Generations = dict[str, Rows]


@dataclass(frozen=True)
class Versus:
    """found: the speedup. interleaved: share of pairs measured in one process; None without any.

    different: pairs whose output ids differ; faults: those that no stop rule explains. verdict: on
    the comparison; an invalid one has no ratio. Without a partner there is no comparison: `found`
    is empty, and no reason speaks against it.
    """

    found: Speedup = NOTHING
    interleaved: float | None = None
    different: int = 0
    faults: int = 0
    verdict: Verdict = field(default_factory=Verdict)

    @property
    def made(self) -> bool:
        """Whether anything was compared, or kept from being compared."""
        return bool(self.found.clusters or self.found.excluded or self.verdict.reasons)

    def row(self, name: str) -> dict[str, Any]:
        """Columns `<name>`, `<name>_low`, `<name>_high`, `<name>_time_ratio`, counts, the verdict.

        `<name>_verdict`: valid | invalid | unknown, None where nothing was compared.
        `<name>_why`: state and reasons in words.
        """
        return {
            name: self.found.ratio,
            f"{name}_low": self.found.low,
            f"{name}_high": self.found.high,
            f"{name}_time_ratio": self.found.time_ratio,
            f"{name}_prompts": self.found.clusters,
            f"{name}_excluded": self.found.excluded,
            f"{name}_interleaved": self.interleaved,
            f"{name}_different": self.different,
            f"{name}_faults": self.faults,
            f"{name}_verdict": self.verdict.state if self.made else None,
            f"{name}_why": self.verdict.text() if self.made else None,
        }


@dataclass
class _Paired:
    """What pairing generations of two runs gives, added up over runs."""

    pairs: list[Pair] = field(default_factory=list)
    missing: int = 0
    together: int = 0
    kinds: list[Kind] = field(default_factory=list)
    verdicts: list[Verdict] = field(default_factory=list)

    def add(self, match: PairView, left: Rows, right: Rows) -> None:
        """Pair the generations of two runs and judge the comparison."""
        both = sorted(key for key in left if key in right)
        self.missing += len(left) + len(right) - 2 * len(both)
        apart = 0
        for key in both:
            method, baseline = left[key], right[key]
            self.together += method.part == baseline.part
            apart += method.part != baseline.part and method.finish_reason not in TOKENLESS
            self.kinds.append(_difference(method, baseline))
            self.pairs.append(_pair(str(key[0]), method, baseline))
        self.verdicts.append(judge_pair(replace(match, pairs=len(both), apart=apart)))


def generations(data: Collection) -> Generations:
    """Good requests by run, then by what must agree in a pair: prompt, turn, repeat and input."""
    found: Generations = {str(run): {} for run in data.runs["run"]}
    good = data.requests[data.requests["error_class"].isna()] if len(data.requests) else None
    if good is None:
        return found
    keys = zip(*(good[name].tolist() for name in SAME), strict=True)
    values = zip(*(good[name].tolist() for name in Generation._fields), strict=True)
    for run, key, value in zip(good["run"].tolist(), keys, values, strict=True):
        found[str(run)][key] = Generation(*value)
    return found


def versus(data: Collection | Generations, runs: pd.DataFrame, baselines: pd.DataFrame) -> Versus:
    """How much faster `runs` are than `baselines`, paired per prompt, turn, repeat and input.

    A run is paired with the baseline of its benchmark that differs from it in the method alone,
    never with itself; where none does, the verdict names what differs. Recorded runs have no speed
    and no partner. `data`: the runs' collection, or its `generations` where many comparisons
    follow. The order of rows does not matter.
    """
    generated = generations(data) if isinstance(data, Collection) else data
    matches = partners(runs, baselines)
    if not matches:
        return Versus()
    paired = _Paired()
    for match in matches:
        paired.add(match, generated[match.run["run"]], generated[match.partner["run"]])
    found = _speedup(tuple(paired.pairs), paired.missing)
    verdict = _verdict(matches, paired, found)
    return Versus(
        found=_without_ratio(found) if verdict.state == "invalid" else found,
        interleaved=ratio(paired.together, len(paired.pairs)),
        different=sum(kind != "equal" for kind in paired.kinds),
        faults=paired.kinds.count("fault"),
        verdict=verdict,
    )


def _verdict(matches: Sequence[PairView], paired: _Paired, found: Speedup) -> Verdict:
    return gathered(
        [*paired.verdicts, Verdict.of(one_machine(matches), within_floor(matches, found))]
    )


def _without_ratio(found: Speedup) -> Speedup:
    return replace(found, ratio=None, low=None, high=None, time_ratio=None)


def _difference(method: Generation, baseline: Generation) -> Kind:
    return compare_outputs(
        method.output_ids, baseline.output_ids, method.finish_reason, baseline.finish_reason
    ).kind


def _pair(cluster: str, method: Generation, baseline: Generation) -> Pair:
    return Pair(
        cluster=cluster,
        method_ms=float(method.decode_ms),
        method_tokens=int(method.decode_tokens),
        baseline_ms=float(baseline.decode_ms),
        baseline_tokens=int(baseline.decode_tokens),
    )

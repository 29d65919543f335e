"""Paired comparison of one method's runs with the runs that differ from them in method only."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import pandas as pd

from harness.collection import Collection
from harness.equality import Kind, compare_outputs
from harness.report.tables.measures import is_speed, ratio
from harness.stats import Pair, Speedup, speedup

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
Generations = dict[str, dict[Key, Generation]]


@dataclass(frozen=True)
class Versus:
    """found: the speedup. interleaved: share of pairs measured in one process; None without any.

    different: pairs whose output ids differ; faults: those that no stop rule explains.
    """

    found: Speedup = NOTHING
    interleaved: float | None = None
    different: int = 0
    faults: int = 0

    def row(self, name: str) -> dict[str, Any]:
        """Columns `<name>`, `<name>_low`, `<name>_high`, `<name>_time_ratio` and the counts."""
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
        }


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

    A run is paired with the first baseline of equal pair_hash and machine_hash, never with
    itself. Recorded runs have no speed and no partner. `data`: the runs' collection, or its
    `generations` where many comparisons follow. The order of rows does not matter.
    """
    found = generations(data) if isinstance(data, Collection) else data
    partners = _partners(runs, baselines)
    if not partners or not is_speed(runs[runs["run"].isin(list(partners))]):
        return Versus()
    pairs: list[Pair] = []
    missing, together, kinds = 0, 0, []
    for run, partner in sorted(partners.items()):
        left, right = found[run], found[partner]
        both = sorted(key for key in left if key in right)
        missing += len(left) + len(right) - 2 * len(both)
        for key in both:
            method, baseline = left[key], right[key]
            together += method.part == baseline.part
            kinds.append(_difference(method, baseline))
            pairs.append(_pair(str(key[0]), method, baseline))
    return Versus(
        found=_speedup(tuple(pairs), missing),
        interleaved=ratio(together, len(pairs)),
        different=sum(kind != "equal" for kind in kinds),
        faults=kinds.count("fault"),
    )


def _difference(method: Generation, baseline: Generation) -> Kind:
    return compare_outputs(
        method.output_ids, baseline.output_ids, method.finish_reason, baseline.finish_reason
    ).kind


def _partners(runs: pd.DataFrame, baselines: pd.DataFrame) -> dict[str, str]:
    """Each run that has one, with the baseline run that it is compared with."""
    offered: dict[Key, list[str]] = {}
    for run, *place in _places(baselines):
        offered.setdefault(tuple(place), []).append(run)
    partners = {}
    for run, *place in _places(runs):
        others = [one for one in offered.get(tuple(place), []) if one != run]
        if others:
            partners[run] = others[0]
    return partners


def _places(runs: pd.DataFrame) -> list[tuple[str, str, str]]:
    known = runs[runs["machine_hash"].notna() & ~runs["recorded"].astype(bool)]
    columns = (known[name].tolist() for name in ("run", "pair_hash", "machine_hash"))
    return list(zip(*columns, strict=True))


def _pair(cluster: str, method: Generation, baseline: Generation) -> Pair:
    return Pair(
        cluster=cluster,
        method_ms=float(method.decode_ms),
        method_tokens=int(method.decode_tokens),
        baseline_ms=float(baseline.decode_ms),
        baseline_tokens=int(baseline.decode_tokens),
    )

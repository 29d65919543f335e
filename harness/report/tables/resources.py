"""What each method took of the machine: processor time, memory, energy, and who else was there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import method_labels
from harness.report.doubt import COUNTS, TIME, counts_doubt, time_doubt, withheld
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD, each_block
from harness.report.tables.measures import good_requests, ratio
from harness.report.tables.summary import in_order
from harness.telemetry.usage import Usage, usages

ENERGY = ".energy"


def resources(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature and method, over all benchmarks; generations only.

    cpu_s, energy_j: summed over runs, None where one run lacks it. memory_peak_mib,
    gpu_memory_peak_mib: the largest. j_per_token: energy_j / committed tokens, prefill's included;
    energy_reason: why there is none. gpu_clock_mhz: median over runs. others_cores: cores that
    other processes kept busy, in the run with the most. The last two are shown of invalid runs too.
    """
    if data.telemetry.empty:
        raise Missing("no run kept telemetry; run: python run.py +experiment=table1")
    return each_block(data, _resources)


def _resources(block: Collection) -> pd.DataFrame:
    runs, labels = in_order(block.runs), method_labels(block.runs)
    used, rows = usages(block.telemetry, block.requests), []
    for method, own in runs.groupby("method_hash", sort=False):
        found = [used.get(str(run), Usage()) for run in own["run"]]
        doubts = {TIME: time_doubt(own), COUNTS: counts_doubt(own)}
        names = {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
        rows.append(
            names
            | {"method_label": labels[str(method)]}
            | withheld(doubts[TIME], _spent(block, own, found))
            | withheld(doubts[COUNTS], _peaks(found))
            | {"energy_reason": _reason(own, found), **_evidence(found)}
            | doubts
        )
    return pd.DataFrame(rows)


def _spent(block: Collection, runs: pd.DataFrame, found: Sequence[Usage]) -> dict[str, Any]:
    tokens = pd.to_numeric(good_requests(block, runs)["decode_tokens"]) + 1
    energy_j = _sum(one.energy_j for one in found)
    per_token = None if energy_j is None else ratio(energy_j, float(tokens.sum()))
    cpu_s = _sum(one.cpu_s for one in found)
    return {"cpu_s": cpu_s, "energy_j": energy_j, "j_per_token": per_token}


def _peaks(found: Sequence[Usage]) -> dict[str, Any]:
    names = ("memory_peak_mib", "gpu_memory_peak_mib")
    return {name: max(_known(found, name), default=None) for name in names}


def _evidence(found: Sequence[Usage]) -> dict[str, Any]:
    clocks = pd.Series(_known(found, "gpu_clock_mhz"), dtype=float)
    return {
        "gpu_clock_mhz": float(clocks.median()) if len(clocks) else None,
        "others_cores": max(_known(found, "others_cores"), default=None),
    }


def _reason(runs: pd.DataFrame, found: Sequence[Usage]) -> str:
    """Why there is no energy: what the sampler said of the device, else what its samples lack."""
    reasons = [one.energy_reason for one in found if one.energy_j is None]
    if not reasons:
        return ""
    known = [reason for reason in reasons if reason] or ["no telemetry"]
    told = [
        text
        for absent in runs.get("absent", ())
        for name, text in (absent if isinstance(absent, dict) else {}).items()
        if name.endswith(ENERGY) and any(name.removesuffix(ENERGY) in one for one in known)
    ]
    distinct = list(dict.fromkeys(map(str, told or known)))
    return distinct[0] + (f"; and {len(distinct) - 1} more reasons" if distinct[1:] else "")


def _sum(values: Iterable[float | None]) -> float | None:
    listed = list(values)
    known = [value for value in listed if value is not None]
    return sum(known) if listed and len(known) == len(listed) else None


def _known(found: Sequence[Usage], name: str) -> list[float]:
    return [value for one in found if (value := getattr(one, name)) is not None]

"""What two equal arms show here: plain decoding against its replica, pair by pair."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.equality import Floor, Kind, compare_outputs
from harness.stats import Pair, Speedup, speedup

PARTNERS = ["pair_hash", "machine_hash"]
SAME = ["prompt_id", "turn", "repeat", "input_hash", "part"]
PLAIN = "plain"


@dataclass(frozen=True)
class AgainstItself:
    """found: the replica's speedup over the baseline, which should show no difference.

    outputs: how many greedy outputs of the two differ, among those of equal input.
    """

    found: Speedup
    outputs: Floor

    @property
    def holds_one(self) -> bool:
        """Whether the interval holds 1, as it does for 95 of 100 pairs of equal arms."""
        return self.found.low is not None and not self.found.shown


def floor(data: Collection) -> AgainstItself | None:
    """The replicas of a block against its plain baseline; None where nothing was measured twice.

    Pairs agree in benchmark, settings, machine, prompt, turn, repeat, input and part: a replica
    that was measured on another day says nothing about runs that took turns. Recorded and invalid
    runs are left out.
    """
    pairs = _pairs(data)
    found = speedup([_pair(row) for row in pairs])
    return AgainstItself(found, Floor.of(_kinds(pairs))) if found.clusters else None


def _pairs(data: Collection) -> list[dict[str, Any]]:
    """A row per pair: columns of the replica's request end in _a, of the baseline's in _b."""
    runs = _usable(data.runs)
    if "replica" not in runs or runs.empty or data.requests.empty:
        return []
    again = pd.to_numeric(runs["replica"]).fillna(0) > 0
    plain = (runs["baseline"] == PLAIN) & ~again
    both = runs[again][["run", *PARTNERS]].merge(
        runs[plain].drop_duplicates(PARTNERS)[["run", *PARTNERS]],
        on=PARTNERS,
        suffixes=("_a", "_b"),
    )
    good = data.requests[data.requests["error_class"].isna()]
    left = both.merge(good.rename(columns={"run": "run_a"}), on="run_a")
    right = good.rename(columns={"run": "run_b"})
    joined = left.merge(right, on=["run_b", *SAME], suffixes=("_a", "_b"))
    names = [str(name) for name in joined]
    return [dict(zip(names, row, strict=True)) for row in joined.itertuples(index=False)]


def _usable(runs: pd.DataFrame) -> pd.DataFrame:
    if runs.empty:
        return runs
    kept = ~runs["recorded"].astype(bool) & runs["machine_hash"].notna()
    return runs[kept & (runs["verdict"] != "invalid")] if "verdict" in runs else runs[kept]


def _pair(row: dict[str, Any]) -> Pair:
    return Pair(
        cluster=str(row["prompt_id"]),
        method_ms=float(row["decode_ms_a"]),
        method_tokens=int(row["decode_tokens_a"]),
        baseline_ms=float(row["decode_ms_b"]),
        baseline_tokens=int(row["decode_tokens_b"]),
    )


def _kinds(rows: Iterable[dict[str, Any]]) -> Iterator[Kind]:
    for row in rows:
        if row["temperature_a"] == 0.0:
            yield compare_outputs(
                row["output_ids_a"],
                row["output_ids_b"],
                row["finish_reason_a"],
                row["finish_reason_b"],
            ).kind

"""What a comparison of two equal arms says here: plain decoding against its replica."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import blocks, replicas, timing
from harness.report.doubt import ENDING, time_doubt, withheld
from harness.report.spec import Missing
from harness.report.tables.each import KEY
from harness.report.tables.summary import OVERALL, scopes
from harness.validity.floor import floor as against_itself


def floor(data: Collection) -> pd.DataFrame:
    """A row per block with a replica and benchmark (`all` last), of the replica over the baseline.

    ratio, low, high, prompts: see harness.stats.Speedup. holds_one: whether the interval holds 1,
    as it should. different, pairs: greedy outputs of the two that differ, of so many.
    """
    rows = []
    for block in blocks(timing(data)):
        first = block.runs.iloc[0]
        names = {name: first[name] for name in ("experiment", "settings_hash", *KEY)}
        arms = block.runs[replicas(block.runs) | (block.runs["baseline"] == "plain")]
        if not replicas(arms).any():
            continue
        for scope in scopes(arms):
            own = arms[arms["benchmark"].isin(scope)]
            place = {"benchmark": scope[0] if len(scope) == 1 else OVERALL}
            rows.append(names | place | _row(block.select(set(own["run"])), own))
    if not rows:
        raise Missing("plain decoding was measured only once; run: python run.py +experiment=paper")
    return pd.DataFrame(rows)


def _row(arms: Collection, runs: pd.DataFrame) -> dict[str, Any]:
    found, doubt = against_itself(arms), time_doubt(runs)
    one, outputs = (found.found, found.outputs) if found else (None, None)
    numbers = {
        "ratio": one.ratio if one else None,
        "low": one.low if one else None,
        "high": one.high if one else None,
        "prompts": one.clusters if one else 0,
        "holds_one": found.holds_one if found else None,
    }
    counts = {
        "different": outputs.different if outputs else None,
        "pairs": outputs.pairs if outputs else None,
    }
    return withheld(doubt, numbers) | counts | {f"ratio{ENDING}": doubt}

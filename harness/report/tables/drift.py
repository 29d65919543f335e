"""Whether the machine became slower or faster while a block was measured."""

from __future__ import annotations

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import blocks, timing
from harness.report.doubt import invalid, time_doubt
from harness.report.spec import Missing
from harness.report.tables.each import KEY
from harness.validity.drift import drifts


def drift(data: Collection) -> pd.DataFrame:
    """A row per block and part: see harness.validity.drift.Drift. Invalid runs are left out.

    over_run, low, high: change of the time per token over the whole part in %, 95 % interval;
    per_hour: the same per hour. shown: whether the interval leaves out 0 and the change matters.
    """
    rows = []
    for block in blocks(timing(data)):
        first = block.runs.iloc[0]
        bad = [invalid(time_doubt(block.runs.iloc[[i]])) for i in range(len(block.runs))]
        good = block.runs[[not one for one in bad]]
        names = {name: first[name] for name in ("experiment", "settings_hash", *KEY)}
        rows += [
            names
            | {"part": one.part, "generations": one.generations, "hours": one.hours}
            | {"over_run": one.over_run, "low": one.low, "high": one.high}
            | {"per_hour": one.per_hour, "shown": one.shown}
            for one in drifts(good, block.requests)
        ]
    if not rows:
        raise Missing(
            "no valid runs with start times and repeats; run: python run.py +experiment=table1"
        )
    return pd.DataFrame(rows)

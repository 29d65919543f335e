"""With which baseline run each run is compared: one that differs from it in its method alone."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.validity.comparison import PairView

Row = dict[str, Any]
# What a comparison looks at; a run that was never judged lacks some of it.
NEEDED = (
    "run",
    "method_label",
    "benchmark",
    "recorded",
    "replica",
    "pair_hash",
    "machine_hash",
    "fingerprint",
    "verdict",
    "verdict_codes",
    "verdict_text",
    "gpu_clock_mhz",
    "floor_low",
    "floor_high",
)


def partners(runs: pd.DataFrame, baselines: pd.DataFrame) -> list[PairView]:
    """Each run with the baseline of the same benchmark that is most like it, never itself.

    A run whose every candidate differs in more than the method still has a partner: the nearest,
    so that what sets them apart can be named. Recorded runs have no speed and no partner; a run
    without a candidate is left out. The order of rows does not matter.
    """
    offered: dict[str, list[Row]] = {}
    for row in _timed(baselines):
        offered.setdefault(str(row["benchmark"]), []).append(row)
    found = []
    for row in _timed(runs):
        others = [one for one in offered.get(str(row["benchmark"]), []) if one["run"] != row["run"]]
        if others:
            found.append(min((PairView(row, one) for one in others), key=_distance))
    return found


def _timed(runs: pd.DataFrame) -> list[Row]:
    names = [name for name in NEEDED if name in runs]
    values = zip(*(runs[name].tolist() for name in names), strict=True)
    rows = [dict(zip(names, row, strict=True)) for row in values]
    return sorted((row for row in rows if not row["recorded"]), key=lambda row: str(row["run"]))


def _distance(pair: PairView) -> tuple[int, int]:
    return len(pair.differences), len(pair.code_differences)

"""Runs that may not count: second copies, one generation twice, times below zero."""

from __future__ import annotations

import pandas as pd

KEY = ["prompt_id", "turn", "repeat"]
TIMES = ("prefill_ms", "decode_ms", "engine_ms", "wall_ms")
AGAIN = "delete the folder and run the same command again"


def copies(runs: pd.DataFrame, requests: pd.DataFrame) -> dict[str, str]:
    """Run names to leave out, and why.

    Of runs of one experiment with one run_hash the first by name is kept; the same run measured
    again in another experiment stands in that experiment's tables. A run with a (prompt, turn,
    repeat) twice is left out whole: which of the two rows was meant cannot be known.
    """
    if runs.empty:
        return {}
    doubled = _doubled(requests)
    left_out = dict(doubled)
    kept: dict[tuple[str, str], str] = {}
    columns = (runs[name].tolist() for name in ("run", "experiment", "run_hash"))
    for run, *key in sorted(zip(*columns, strict=True)):
        if run in doubled:
            continue
        first = kept.setdefault((key[0], key[1]), run)
        if first != run:
            left_out[run] = f"copy of {first} (same run hash {key[1][:8]}): the first is used"
    return left_out


def _doubled(requests: pd.DataFrame) -> dict[str, str]:
    if requests.empty:
        return {}
    again = requests[requests.duplicated(["run", *KEY])]
    found: dict[str, str] = {}
    for run, rows in again.groupby("run", sort=True):
        prompt, turn, repeat = (rows.iloc[0][name] for name in KEY)
        found[str(run)] = (
            f"{len(rows)} generations stand in it twice, the first of them {prompt}, "
            f"turn {turn}, repeat {repeat}: {AGAIN}"
        )
    return found


def went_back(requests: pd.DataFrame, steps: pd.DataFrame) -> dict[str, str]:
    """Runs that hold a time below zero, and which: a clock went back while they were measured."""
    good = requests[requests["error_class"].isna()] if len(requests) else requests
    found: dict[str, str] = {}
    for frame, names in ((good, TIMES), (steps, ("total_ms",))):
        for name in (name for name in names if name in frame):
            values = pd.to_numeric(frame[name])
            for run, value in zip(frame["run"][values < 0.0], values[values < 0.0], strict=True):
                found.setdefault(str(run), f"{name} is {value:g}: a clock went back; {AGAIN}")
    if {"started_ms", "ended_ms"} <= set(good):
        spans = pd.to_numeric(good["ended_ms"]) - pd.to_numeric(good["started_ms"])
        for run in good["run"][spans < 0.0]:
            found.setdefault(str(run), f"a generation ends before it starts; {AGAIN}")
    return found

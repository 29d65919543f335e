"""Which runs a figure compares: what a method does, read from its settings and not its name."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any

import pandas as pd

from evict.selection import CostAware
from harness.collection import Collection
from harness.report.blocks import timing
from harness.report.figures.doubts import refuse_invalid
from harness.report.spec import Missing

Run = dict[Any, Any]

# The first that holds. cost: EVICT itself; its ablations and calibrated forms are "other".
KINDS: dict[str, Callable[[Run], bool]] = {
    "replica": lambda run: (run.get("replica") or 0) > 0,
    "plain": lambda run: run["baseline"] == "plain",
    "full": lambda run: run["baseline"] == "full",
    "hindsight": lambda run: run["scores"] == "verdict",
    "coverage": lambda run: setting(run, "selection.rho") is not None,
    "depth": lambda run: setting(run, "growth.threshold") is not None,
    "fixed": lambda run: "selection.k" in run["tuned"],
    "cost": lambda run: (
        setting(run, "selection._target_") == f"{CostAware.__module__}.{CostAware.__qualname__}"
        and setting(run, "selection.count_root") is not False
        and run["scores"] == "draft"
    ),
}
WORDS = {
    "plain": "plain decoding",
    "full": "EAGLE-3 with its whole tree",
    "cost": "EVICT",
    "hindsight": "the hindsight policy",
}


def setting(run: Run, name: str) -> Any:
    """A method's setting by dotted name; None where it has none."""
    value = run["parameters"].get(name)
    return None if isinstance(value, float) and math.isnan(value) else value


def kind(run: Run) -> str:
    """What the run's method does: a key of KINDS, or "other"."""
    return next((name for name, holds in KINDS.items() if holds(run)), "other")


def with_kinds(runs: pd.DataFrame) -> pd.DataFrame:
    """The runs with their `kind`."""
    return runs.assign(kind=[kind(run) for run in runs.to_dict("records")])


def arms(block: Collection, kinds: Iterable[str]) -> pd.DataFrame:
    """Runs of these kinds, in the order given and one method each.

    Of two methods of a kind the one with more runs is taken, then the first in rank and hash.
    Missing names the kind that the block lacks.
    """
    runs = with_kinds(block.runs)
    found: pd.DataFrame = pd.concat([_arm(runs, name) for name in kinds])
    return found


def _arm(runs: pd.DataFrame, name: str) -> pd.DataFrame:
    found = runs[runs["kind"] == name]
    if found.empty:
        raise Missing(
            f"no run of {WORDS.get(name, name)} {_where(runs)}; "
            "run: python run.py +experiment=table1"
        )
    methods = found.groupby("method_hash").agg(runs=("run", "size"), rank=("rank", "first"))
    best = methods.sort_values(["runs", "rank"], ascending=[False, True], kind="stable").index[0]
    chosen: pd.DataFrame = found[found["method_hash"] == best]
    return chosen


def _where(runs: pd.DataFrame) -> str:
    if runs.empty:
        return "here"
    first = runs.iloc[0]
    return f"in {first['experiment']}, engine {first['engine']}, T={first['temperature']:g}"


Build = Callable[[Collection, str, float], pd.DataFrame]


def each_setting(
    data: Collection,
    build: Build,
    command: str,
    chosen: Callable[[Collection], Collection] = timing,
) -> pd.DataFrame:
    """`build` for every engine and temperature of the chosen runs, one below the other.

    Settings that lack data are left out; Missing with the first reason where all do, and where
    every number is invalid.
    """
    frames: list[pd.DataFrame] = []
    reasons: list[str] = []
    for engine, temperature in _settings(chosen(data).runs):
        try:
            found = build(data, engine, temperature)
        except Missing as gap:
            reasons.append(str(gap))
            continue
        found.insert(0, "engine", engine)
        found.insert(1, "temperature", temperature)
        frames.append(found)
    refuse_invalid(frames, command)
    if not frames:
        raise Missing(reasons[0] if reasons else f"no run to draw it from; run: {command}")
    return pd.concat(frames, ignore_index=True)


def _settings(runs: pd.DataFrame) -> list[tuple[str, float]]:
    if runs.empty:
        return []
    return sorted(
        {(str(e), float(t)) for e, t in zip(runs["engine"], runs["temperature"], strict=True)}
    )

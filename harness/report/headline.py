"""What was found, in sentences: speedups with intervals, and whether the expected shape holds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.figures.arms import with_kinds
from harness.report.layout import missing
from harness.report.tables.each import AVERAGE, KEY
from harness.report.words import NO_DIFFERENCE, benchmark

Frames = Mapping[str, pd.DataFrame]
BASELINES = ("full", "plain", "tuned")
RIVALS = ("coverage", "depth")
REGRET_LIMIT = 0.15


def headline(data: Collection, frames: Frames) -> list[str]:
    """Sentences about EVICT, one group per engine and temperature; empty without the tables."""
    kinds = _kinds(data)
    lines: list[str] = []
    if "table1_speedup" in frames:
        lines += _speedups(frames["table1_speedup"].merge(kinds, on="method_label"))
    if "table1" in frames:
        lines += _fastest(frames["table1"].merge(kinds, on="method_label"))
    if "regret" in frames:
        lines += _regrets(frames["regret"].merge(kinds, on="method_label"))
    if "replay_check" in frames:
        lines.append(_replay(frames["replay_check"]))
    return lines


def _kinds(data: Collection) -> pd.DataFrame:
    """method_label, kind: what a method does, read from its settings."""
    found = with_kinds(data.runs)[["method_label", "kind"]]
    return found.drop_duplicates("method_label")


def _place(row: Mapping[Any, Any]) -> str:
    return f"At T={row['temperature']:g}, engine {row['engine']}"


def _speedups(frame: pd.DataFrame) -> list[str]:
    ours = frame[frame["kind"] == "cost"]
    lines = []
    for _, block in ours.groupby(KEY, sort=True):
        several = block["benchmark"].nunique() > 1
        rows = block[block["benchmark"] == "all"] if several else block
        order = rows.set_index("role").reindex(BASELINES).dropna(subset="ratio")
        found = order.to_dict("records")
        if found:
            said = "; ".join(_speedup(row) for row in found)
            lines.append(f"{_place(found[0])}, {found[0]['method_label']} against {said}.")
    return lines


def _speedup(row: Mapping[Any, Any]) -> str:
    who, ratio, low, high = row["against"], row["ratio"], row["low"], row["high"]
    if missing(low) or missing(high):
        return f"{who}: {ratio:.2f}x from one prompt, no interval"
    basis = f"95 % interval {low:.2f} to {high:.2f}, {row['prompts']:.0f} prompts, paired"
    if low <= 1.0 <= high:
        return f"{who}: {NO_DIFFERENCE} ({basis})"
    return f"{who}: {ratio:.2f}x, {'faster' if ratio > 1 else 'slower'} ({basis})"


def _fastest(frame: pd.DataFrame) -> list[str]:
    """In how many cells EVICT is the fastest, where not, and which rival is not below it.

    Calibrated forms of a method are no rivals of it; where one is faster is said apart.
    """
    lines = []
    for _, block in frame.groupby(KEY, sort=True):
        single = block[block["benchmark"] != AVERAGE].dropna(subset="tokens_per_s")
        ours = single[single["kind"] == "cost"].drop_duplicates("benchmark")
        if ours.empty:
            continue
        single = single[single["benchmark"].isin(set(ours["benchmark"]))]
        lost = _ahead(single[single["scores"] == "draft"])
        calibrated = _ahead(single[(single["scores"] != "draft") | (single["kind"] == "cost")])
        first = ours.iloc[0].to_dict()
        text = f"{_place(first)}, {first['method_label']} has the highest pooled speed on "
        text += f"{len(ours) - len(lost)} of {len(ours)} benchmarks"
        text += f"; not on {', '.join(lost)}." if lost else "."
        if calibrated:
            names = ", ".join(name.split(" (")[0] for name in calibrated)
            text += f" With calibrated scores it is faster still on {names}."
        lines.append(text)
        lines += _rivals(block, first)
    return lines


def _ahead(speeds: pd.DataFrame) -> list[str]:
    """Benchmarks on which something other than EVICT is the fastest of these, and what it is."""
    best = speeds.loc[speeds.groupby("benchmark")["tokens_per_s"].idxmax()]
    return [
        f"{benchmark(row['benchmark'])} ({row['method_label']})"
        for row in best.to_dict("records")
        if row["kind"] != "cost"
    ]


def _rivals(block: pd.DataFrame, ours: Mapping[Any, Any]) -> list[str]:
    averages = block[block["benchmark"] == AVERAGE].dropna(subset="tokens_per_s")
    own = averages[averages["kind"] == "cost"]
    rivals = averages[averages["kind"].isin(RIVALS)]
    if own.empty or rivals.empty:
        return []
    limit = float(own["tokens_per_s"].iloc[0])
    above = rivals[rivals["tokens_per_s"] >= limit]
    names = ", ".join(f"{r.method_label} ({r.tokens_per_s:.1f} tok/s)" for r in above.itertuples())
    said = f"not below it: {names}" if names else "all below it"
    return [
        f"{_place(ours)}, cost-blind truncation ({len(rivals)} variants) against "
        f"{ours['method_label']} at {limit:.1f} tok/s on average: {said}."
    ]


def _regrets(frame: pd.DataFrame) -> list[str]:
    ours = frame[frame["kind"] == "cost"]
    several = ours["benchmark"].nunique() > 1
    rows = ours[ours["benchmark"] == "all"] if several else ours
    return [
        f"On recorded trees at T={row['temperature']:g}, {row['method_label']} leaves "
        f"{100 * row['regret']:.1f} % of the best rate that any choice of verify lengths could "
        f"reach in hindsight (predicted from the cost table; {row['steps']} steps; expected at "
        f"most {100 * REGRET_LIMIT:.0f} %)."
        for row in rows.to_dict("records")
    ]


def _replay(frame: pd.DataFrame) -> str:
    steps = int(frame["steps"].sum())
    differ = int(
        frame[["k_differ", "accepted_differ", "committed_differ", "unmatched"]].sum().sum()
    )
    return f"Replay of the live policy on its own trees: {differ} differences in {steps} steps."

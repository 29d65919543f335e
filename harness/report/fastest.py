"""Where EVICT decodes the fastest, where not, and where an invalid number leaves it open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from harness.report.doubt import TIME, invalid, merged
from harness.report.tables.each import AVERAGE, KEY
from harness.report.words import benchmark

RIVALS = ("coverage", "depth")
REPLICA = "replica"


def fastest(frame: pd.DataFrame) -> list[str]:
    """In how many cells EVICT is the fastest, where not, and which rival is not below it.

    frame: table1 with each method's `kind`. Calibrated forms of a method are no rivals of it; where
    one is faster is said apart. A replica is none either.
    """
    lines = []
    for _, block in frame[frame["kind"] != REPLICA].groupby(KEY, sort=True):
        single = block[block["benchmark"] != AVERAGE]
        ours = single[single["kind"] == "cost"].drop_duplicates("benchmark")
        told = ours[ours["tokens_per_s"].notna() | ours[TIME].map(invalid)]
        if told.empty:
            continue
        lines.append(_highest(single[single["benchmark"].isin(set(told["benchmark"]))], told))
        lines += _rivals(block, told.iloc[0].to_dict())
    return lines


def _highest(single: pd.DataFrame, ours: pd.DataFrame) -> str:
    rivals = single[(single["scores"] == "draft") | (single["kind"] == "cost")]
    open_ones = _undecided(rivals)
    judged = single[~single["benchmark"].isin(set(open_ones))]
    names = set(judged["benchmark"])
    lost = _ahead(judged[judged["scores"] == "draft"])
    calibrated = _ahead(judged[(judged["scores"] != "draft") | (judged["kind"] == "cost")])
    first, used = ours.iloc[0].to_dict(), rivals[rivals["benchmark"].isin(names)]
    text = f"{_place(first)}, {first['method_label']} has the highest pooled speed on "
    text += f"{len(names) - len(lost)} of {len(names)} benchmarks"
    text += f"; not on {', '.join(lost)}" if lost else ""
    text += f"; cannot be told of {_said(open_ones)}" if open_ones else ""
    text += f" ({merged(used[TIME])})." if merged(used[TIME]) else "."
    if calibrated:
        faster = ", ".join(name.split(" (")[0] for name in calibrated)
        text += f" With calibrated scores it is faster still on {faster}."
    return text


def _undecided(rows: pd.DataFrame) -> dict[str, list[str]]:
    """Benchmarks on which one of these speeds is invalid, and which: no highest can be told."""
    found: dict[str, list[str]] = {}
    for row in rows[rows[TIME].map(invalid)].to_dict("records"):
        found.setdefault(row["benchmark"], []).append(f"{row['method_label']} is {row[TIME]}")
    return found


def _said(open_ones: Mapping[str, Iterable[str]]) -> str:
    return ", ".join(f"{benchmark(name)} ({'; '.join(why)})" for name, why in open_ones.items())


def _ahead(speeds: pd.DataFrame) -> list[str]:
    """Benchmarks on which something other than EVICT is the fastest of these, and what it is."""
    known = speeds.dropna(subset="tokens_per_s")
    best = known.loc[known.groupby("benchmark")["tokens_per_s"].idxmax()]
    return [
        f"{benchmark(row['benchmark'])} ({row['method_label']})"
        for row in best.to_dict("records")
        if row["kind"] != "cost"
    ]


def _rivals(block: pd.DataFrame, ours: Mapping[Any, Any]) -> list[str]:
    averages = block[block["benchmark"] == AVERAGE]
    own = averages[averages["kind"] == "cost"]
    rivals = averages[averages["kind"].isin(RIVALS)]
    known, bad = rivals.dropna(subset="tokens_per_s"), rivals[rivals[TIME].map(invalid)]
    if own.empty or (known.empty and bad.empty):
        return []
    what = f"{_place(ours)}, cost-blind truncation"
    if invalid(own[TIME].iloc[0]):
        return [f"{what} is compared with nothing: {_average(ours)} is {own[TIME].iloc[0]}."]
    if own["tokens_per_s"].isna().all():
        return []
    limit = float(own["tokens_per_s"].iloc[0])
    above = known[known["tokens_per_s"] >= limit]
    names = ", ".join(f"{r.method_label} ({r.tokens_per_s:.1f} tok/s)" for r in above.itertuples())
    said = f"not below it: {names}" if names else f"all {'others ' if len(bad) else ''}below it"
    doubt = merged([*known[TIME], own[TIME].iloc[0]])
    out = ", ".join(f"{row['method_label']} ({row[TIME]})" for row in bad.to_dict("records"))
    return [
        f"{what} ({len(known)} variants) against {ours['method_label']} at {limit:.1f} tok/s on "
        f"average: {said}{f'; left out: {out}' if out else ''}{f' ({doubt})' if doubt else ''}."
    ]


def _average(ours: Mapping[Any, Any]) -> str:
    return f"the average of {ours['method_label']}"


def _place(row: Mapping[Any, Any]) -> str:
    return f"At T={row['temperature']:g}, engine {row['engine']}"

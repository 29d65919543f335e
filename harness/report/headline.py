"""What was found, in sentences: speedups with intervals, and whether the expected shape holds.

No sentence speaks of an invalid number; it says that it is invalid, and why.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.doubt import COUNTS, ENDING, invalid, merged
from harness.report.fastest import fastest
from harness.report.figures.arms import with_kinds
from harness.report.layout import missing
from harness.report.shared_doubt import kind, quiet, shared
from harness.report.tables.each import KEY
from harness.report.words import NO_DIFFERENCE
from harness.validity.codes import CODES

Frames = Mapping[str, pd.DataFrame]
BASELINES = ("full", "plain", "tuned")
REGRET_LIMIT = 0.15
RATIO_DOUBT = f"ratio{ENDING}"


def headline(data: Collection, frames: Frames) -> list[str]:
    """Sentences about EVICT, one group per engine and temperature; empty without the tables."""
    kinds = _kinds(data)
    named = {
        name: quiet(frames[name]).merge(kinds, on="method_label")
        for name in ("table1_speedup", "table1", "regret")
        if name in frames
    }
    lines = _shared(frames[name] for name in named)
    if "table1_speedup" in named:
        lines += _speedups(named["table1_speedup"])
    if "table1" in named:
        lines += fastest(named["table1"])
    if "regret" in named:
        lines += _regrets(named["regret"])
    if "replay_check" in frames:
        lines.append(_replay(frames["replay_check"]))
    return lines


def _kinds(data: Collection) -> pd.DataFrame:
    """method_label, kind: what a method does, read from its settings."""
    found = with_kinds(data.runs)[["method_label", "kind"]]
    return found.drop_duplicates("method_label")


def _shared(frames: Iterable[pd.DataFrame]) -> list[str]:
    """What is unknown of all numbers of a block, said once for all sentences."""
    found = [one for frame in frames for one in shared(frame)]
    if not found:
        return []
    kinds = ", ".join(sorted({kind(one.column) for one in found}))
    codes = dict.fromkeys(code for one in found for code in sorted(one.codes))
    said = "; ".join(f"{code} ({CODES[code]})" if code in CODES else code for code in codes)
    return [f"Nothing shows that these are right: {kinds}. Unknown: {said}."]


def _place(row: Mapping[Any, Any]) -> str:
    return f"At T={row['temperature']:g}, engine {row['engine']}"


def _speedups(frame: pd.DataFrame) -> list[str]:
    ours = frame[frame["kind"] == "cost"]
    lines = []
    for _, block in ours.groupby(KEY, sort=True):
        several = block["benchmark"].nunique() > 1
        rows = block[block["benchmark"] == "all"] if several else block
        order = rows.set_index("role").reindex(BASELINES).dropna(subset="against")
        found = [row for row in order.to_dict("records") if _tells(row)]
        if found:
            said = "; ".join(_speedup(row) for row in found)
            lines.append(f"{_place(found[0])}, {found[0]['method_label']} against {said}.")
    return lines


def _tells(row: Mapping[Any, Any]) -> bool:
    """Whether there is a number, or a reason why it may not be told."""
    return not missing(row["ratio"]) or invalid(row[RATIO_DOUBT])


def _speedup(row: Mapping[Any, Any]) -> str:
    who, ratio, low, high = row["against"], row["ratio"], row["low"], row["high"]
    doubt = row[RATIO_DOUBT]
    if invalid(doubt):
        return f"{who}: no speedup, {doubt}"
    unknown = f"; {doubt}" if doubt else ""
    if missing(low) or missing(high):
        return f"{who}: {ratio:.2f}x from one prompt, no interval{unknown}"
    basis = f"95 % interval {low:.2f} to {high:.2f}, {row['prompts']:.0f} prompts, paired{unknown}"
    if low <= 1.0 <= high:
        return f"{who}: {NO_DIFFERENCE} ({basis})"
    return f"{who}: {ratio:.2f}x, {'faster' if ratio > 1 else 'slower'} ({basis})"


def _regrets(frame: pd.DataFrame) -> list[str]:
    ours = frame[frame["kind"] == "cost"]
    several = ours["benchmark"].nunique() > 1
    rows = ours[ours["benchmark"] == "all"] if several else ours
    return [_regret(row) for row in rows.to_dict("records")]


def _regret(row: Mapping[Any, Any]) -> str:
    where = f"On recorded trees at T={row['temperature']:g}, "
    if invalid(row[COUNTS]):
        return f"{where}the regret of {row['method_label']} is {row[COUNTS]}."
    unknown = f"; {row[COUNTS]}" if row[COUNTS] else ""
    return (
        f"{where}{row['method_label']} leaves "
        f"{100 * row['regret']:.1f} % of the best rate that any choice of verify lengths could "
        f"reach in hindsight (predicted from the cost table; {row['steps']:.0f} steps; expected at "
        f"most {100 * REGRET_LIMIT:.0f} %{unknown})."
    )


def _replay(frame: pd.DataFrame) -> str:
    bad = frame[COUNTS].map(invalid)
    good, what = frame[~bad], "Replay of the live policy on its own trees"
    rest = f"{int(bad.sum())} of {len(frame)} runs {merged(frame.loc[bad, COUNTS])}"
    if good.empty:
        return f"{what}: {rest}."
    steps = int(good["steps"].sum())
    counts = ["k_differ", "accepted_differ", "committed_differ", "unmatched"]
    differ = int(good[counts].sum().sum())
    return f"{what}: {differ} differences in {steps} steps{f'; {rest}' if bad.any() else ''}."

"""Decoding speed as the paper prints it, paired speedups, and ours beside the paper's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from harness.collection import Collection
from harness.report.blocks import drafting, method_labels, replicas
from harness.report.doubt import ENDING, TIME, invalid, merged
from harness.report.published import paper_speedups
from harness.report.spec import Missing
from harness.report.tables.compared import compared
from harness.report.tables.each import KEY, METHOD, each_block, same_average, with_average
from harness.report.tables.summary import OVERALL, in_order, scopes, summary
from harness.report.tables.versus import generations

COMMAND = "python run.py +experiment=table1"
TUNED_WIDTH = "selection.k"
PAPER_NAMES = {"plain": "vanilla", "full": "eagle3"}


def table1(data: Collection) -> pd.DataFrame:
    """tokens_per_s per engine, temperature, method and benchmark, `average` the mean of them.

    Committed decode tokens / decode seconds, pooled over prompts and repeats. over_plain: the
    quotient by plain decoding's value in the same column, in doubt where either is.
    """
    return each_block(data, _speeds)


def _speeds(block: Collection) -> pd.DataFrame:
    found = summary(block, speedups=False).rename(columns={"decode_tokens_per_s": "tokens_per_s"})
    rows = with_average(found, "tokens_per_s", TIME)
    return rows.join(over(rows, "tokens_per_s", TIME, "plain", "over_plain"))


def over(rows: pd.DataFrame, value: str, doubt: str, role: str, name: str) -> pd.DataFrame:
    """Columns `name` and its doubt: value / that of the baseline with this role, same benchmark.

    NaN without a baseline; invalid, and NaN, where one of the two is.
    """
    keys = [*KEY, "benchmark"]
    base = rows[rows["baseline"] == role].drop_duplicates(keys)[[*keys, value, doubt]]
    joined = rows[keys].merge(base, on=keys, how="left").set_index(rows.index)
    doubts = [merged(pair) for pair in zip(rows[doubt], joined[doubt], strict=True)]
    found = pd.to_numeric(rows[value]) / pd.to_numeric(joined[value])
    kept = found.where(np.array([not invalid(one) for one in doubts]))
    return pd.DataFrame({name: kept, f"{name}{ENDING}": doubts}, index=rows.index)


def table1_speedup(data: Collection) -> pd.DataFrame:
    """Paired speedups over plain decoding, the full tree and a tuned fixed k.

    A row per engine, temperature, drafting method, benchmark (`all` last) and baseline: ratio, low,
    high, time_ratio, prompts (clusters), excluded (see harness.stats.Speedup), doubt. A replica of
    plain decoding has rows against it.
    """
    return each_block(data, _speedups)


def _speedups(block: Collection) -> pd.DataFrame:
    runs, labels = in_order(block.runs), method_labels(block.runs)
    found, rows = generations(block), []
    for scope in scopes(block.runs):
        inside = runs[runs["benchmark"].isin(scope)]
        for role, candidates in speed_baselines(inside).items():
            for method, own in inside.groupby("method_hash", sort=False):
                if candidates.empty or not _comparable(own, candidates, role):
                    continue
                row = _named(own, scope, labels[str(method)], role)
                row["against"] = labels[str(candidates["method_hash"].iloc[0])]
                rows.append(row | compared(found, own, candidates, "ratio"))
    return pd.DataFrame(rows).rename(columns=_shorter)


def _shorter(name: object) -> str:
    """Without the prefix of the comparison, but for the doubt about it."""
    return str(name) if name == f"ratio{ENDING}" else str(name).removeprefix("ratio_")


def _comparable(own: pd.DataFrame, candidates: pd.DataFrame, role: str) -> bool:
    """Drafting methods with every baseline but themselves, a replica with what it repeats."""
    itself = bool(set(own["method_hash"]) & set(candidates["method_hash"]))
    repeats = role == "plain" and bool(replicas(own).all())
    return not itself and (repeats or bool(drafting(own).all()))


def speed_baselines(runs: pd.DataFrame) -> dict[str, pd.DataFrame]:
    """Runs that speedups are measured against, by role: plain, full, and a tuned fixed k."""
    tuned = runs["tuned"].map(lambda names: TUNED_WIDTH in names).astype(bool)
    return {
        "plain": runs[runs["baseline"] == "plain"],
        "full": runs[runs["baseline"] == "full"],
        "tuned": runs[tuned],
    }


def _named(runs: pd.DataFrame, scope: list[str], label: str, role: str) -> dict[str, Any]:
    first = runs.iloc[0]
    return {
        **{name: first[name] for name in (*KEY, *METHOD)},
        "method_label": label,
        "benchmark": scope[0] if len(scope) == 1 else OVERALL,
        "role": role,
    }


def table1_paper(data: Collection) -> pd.DataFrame:
    """Our quotients of pooled speeds beside the paper's: the same arithmetic on both sides.

    ratio: over plain decoding (against vanilla) and over the full tree (against eagle3).
    Methods that the paper does not have, and temperatures it does not print, are left out.
    """
    speeds = table1(data)
    parts = [
        speeds.assign(against=name).join(over(speeds, "tokens_per_s", TIME, role, "ratio"))
        for role, name in PAPER_NAMES.items()
    ]
    dropped = ["tokens_per_s", TIME, "over_plain", f"over_plain{ENDING}"]
    ours = pd.concat(parts, ignore_index=True).drop(columns=dropped)
    joined = ours.merge(
        paper_speedups(str(data.runs["model"].iloc[0])),
        on=["temperature", "method", "benchmark", "against"],
        how="inner",
    )
    compared = (joined["method"] != joined["against"]) & (joined["baseline"] != "plain")
    found = joined[compared & same_average(joined)].reset_index(drop=True)
    if found.empty:
        raise Missing("no method of the paper beside a baseline; run: " + COMMAND)
    return found

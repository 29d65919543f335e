"""Decoding speed as the paper prints it, paired speedups, and ours beside the paper's."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import method_labels
from harness.report.published import paper_speedups
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD, each_block, same_average, with_average
from harness.report.tables.summary import OVERALL, in_order, scopes, summary
from harness.report.tables.versus import generations, versus

COMMAND = "python run.py +experiment=table1"
TUNED_WIDTH = "selection.k"
PAPER_NAMES = {"plain": "vanilla", "full": "eagle3"}


def table1(data: Collection) -> pd.DataFrame:
    """tokens_per_s per engine, temperature, method and benchmark, `average` the mean of them.

    Committed decode tokens / decode seconds, pooled over prompts and repeats. over_plain: the
    quotient by plain decoding's value in the same column.
    """
    return each_block(data, _speeds)


def _speeds(block: Collection) -> pd.DataFrame:
    found = summary(block, speedups=False).rename(columns={"decode_tokens_per_s": "tokens_per_s"})
    rows = with_average(found, ["tokens_per_s"])
    return rows.assign(over_plain=quotient(rows, "tokens_per_s", "plain"))


def quotient(rows: pd.DataFrame, value: str, role: str) -> pd.Series:
    """value / the value of the baseline with this role in the same benchmark; NaN without one."""
    keys = [*KEY, "benchmark"]
    base = rows[rows["baseline"] == role].drop_duplicates(keys)[[*keys, value]]
    joined = rows[keys].merge(base, on=keys, how="left")
    found: pd.Series = pd.to_numeric(rows[value]) / pd.to_numeric(joined[value]).to_numpy()
    return found


def table1_speedup(data: Collection) -> pd.DataFrame:
    """Paired speedups over plain decoding, the full tree and a tuned fixed k.

    A row per engine, temperature, drafting method, benchmark (`all` last) and baseline:
    ratio, low, high, time_ratio, prompts (clusters), excluded. See harness.stats.Speedup.
    """
    return each_block(data, _speedups)


def _speedups(block: Collection) -> pd.DataFrame:
    runs, labels = in_order(block.runs), method_labels(block.runs)
    found, rows = generations(block), []
    for scope in scopes(block.runs):
        inside = runs[runs["benchmark"].isin(scope)]
        for role, candidates in speed_baselines(inside).items():
            for method, own in inside.groupby("method_hash", sort=False):
                itself = method in set(candidates["method_hash"])
                if candidates.empty or itself or own.iloc[0]["baseline"] == "plain":
                    continue
                row = _named(own, scope, labels[str(method)], role)
                row["against"] = labels[str(candidates["method_hash"].iloc[0])]
                rows.append(row | versus(found, own, candidates).row("ratio"))
    return pd.DataFrame(rows).rename(columns=lambda name: str(name).removeprefix("ratio_"))


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
        speeds.assign(against=name, ratio=quotient(speeds, "tokens_per_s", role))
        for role, name in PAPER_NAMES.items()
    ]
    ours = pd.concat(parts, ignore_index=True).drop(columns=["tokens_per_s", "over_plain"])
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

"""Every block, benchmark and method in one table: speed, acceptance, cost, paired speedups."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import PREDICTED, blocks, method_labels, replicas
from harness.report.tables.compared import compared
from harness.report.tables.each import benchmark_order
from harness.report.tables.measures import speed, step_means
from harness.report.tables.versus import generations

ROLES = ("plain", "full")
OVERALL = "all"
COPIED = ("experiment", "model", "model_label", "lab", "engine", "source", "temperature", "method")
METHOD = ("rank", "scores", "baseline", "remark")


def summary(data: Collection, speedups: bool = True) -> pd.DataFrame:
    """A row per block, benchmark (`all` last) and method: speed, acceptance, cost, speedups.

    decode_tokens_per_s: committed decode tokens / decode seconds. e2e_tokens_per_s: all tokens /
    (prefill + decode) seconds. mat: committed tokens per step, prefill's token not counted.
    mean_k: nodes verified per step, root included. vs_plain, vs_full: see harness.stats.Speedup;
    left out without `speedups`. Recorded runs have no speed; a replay's and a simulation's are
    predicted. time_doubt, counts_doubt and vs_<role>_doubt: see harness.report.doubt.
    """
    rows: list[dict[str, Any]] = []
    for block in blocks(data):
        rows += _block_rows(block, speedups)
    return pd.DataFrame(rows)


def _block_rows(block: Collection, speedups: bool) -> list[dict[str, Any]]:
    runs = in_order(block.runs)
    baselines = {role: runs[runs["baseline"] == role] for role in ROLES}
    labels = method_labels(block.runs)
    found = generations(block) if speedups else {}
    rows = []
    for scope in scopes(block.runs):
        inside = runs[runs["benchmark"].isin(scope)]
        for method, own in inside.groupby("method_hash", sort=False):
            row = _identity(own, scope, labels[str(method)])
            row |= speed(block, own) | step_means(block, own)
            if speedups:
                for role, candidates in baselines.items():
                    row |= compared(found, own, candidates, f"vs_{role}")
            rows.append(row)
    return rows


def in_order(runs: pd.DataFrame) -> pd.DataFrame:
    """Baselines first (plain decoding, then the full tree), then by rank and label."""
    place = runs["baseline"].map({role: i for i, role in enumerate(ROLES)}).fillna(len(ROLES))
    ordered = runs.assign(_place=place).sort_values(
        ["_place", "rank", "method_label"], kind="stable"
    )
    return ordered.drop(columns="_place")


def scopes(runs: pd.DataFrame) -> list[list[str]]:
    """Each benchmark in the paper's order, then all of them where there are several."""
    benchmarks = benchmark_order(runs["benchmark"])
    single = [[name] for name in benchmarks]
    return [*single, benchmarks] if len(benchmarks) > 1 else single


def _identity(runs: pd.DataFrame, scope: list[str], label: str) -> dict[str, Any]:
    first = runs.iloc[0]
    return {
        **{name: first[name] for name in (*COPIED, *METHOD)},
        "method_label": label,
        "benchmark": scope[0] if len(scope) == 1 else OVERALL,
        "settings_hash": first["settings_hash"],
        "lossless": bool(runs["lossless"].all()),
        "replica": int(replicas(runs).all()),
        "recorded": bool(runs["recorded"].any()),
        "predicted": first["engine"] in PREDICTED,
    }

"""Policies on recorded trees: predicted rates, regret, and whether a replay repeats a run."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from evict.cost import CostTable
from evict.oracle import best_rate
from harness.collection import Collection
from harness.report.blocks import method_labels, recorded_runs, replay_blocks
from harness.report.doubt import COUNTS, counts_doubt, merged, withheld
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD
from harness.report.tables.measures import own_steps, ratio
from harness.report.tables.sources import STEP, Sources
from harness.report.tables.summary import OVERALL, in_order, scopes

COMMAND = "python run.py +experiment=replay"


def regret(data: Collection) -> pd.DataFrame:
    """Predicted tokens per ms of every policy on the recorded trees, and what it leaves on them.

    A row per replay block, recorded method, policy and benchmark (`all` last). tokens_per_ms:
    committed tokens / sum of C(k). best: the most that any choice of verify lengths reaches on
    these trees at these costs (evict.oracle.best_rate); regret: 1 - tokens_per_ms / best.
    hindsight_regret: the same against choosing each step's best ratio with its outcome known.
    """
    rows: list[dict[str, Any]] = []
    sources = Sources.of(data)
    for block in replay_blocks(data):
        found = sources.find(block)
        for scope in scopes(block.runs):
            rows += _scope_rows(data, block, scope, found)
    if not rows:
        raise Missing(f"no replay of recorded trees with its recording and costs; run: {COMMAND}")
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class _Bound:
    """best: the exact bound in tokens per ms. hindsight: the best ratio of every single step."""

    best: float
    hindsight: float
    steps: int


def _scope_rows(
    data: Collection, block: Collection, scope: list[str], sources: dict[str, str]
) -> list[dict[str, Any]]:
    runs, labels = in_order(block.runs), method_labels(block.runs)
    inside = runs[runs["benchmark"].isin(scope)]
    bounds: dict[tuple[Any, ...], _Bound | None] = {}
    rows = []
    for method, own in inside.groupby("method_hash", sort=False):
        recorded = tuple(sorted({sources[run] for run in own["run"] if run in sources}))
        cost, steps = _cost(block, own), own_steps(block, own)
        if len(recorded) != len(own) or cost is None:
            continue
        key = (recorded, cost.step_ms)
        if key not in bounds:
            bounds[key] = _bound(data, recorded, cost)
        bound = bounds[key]
        if bound is not None and bound.steps == len(steps):
            names = {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
            names |= {"method_label": labels[str(method)]}
            names |= {"benchmark": scope[0] if len(scope) == 1 else OVERALL}
            names |= {"recorded_method": _label(data, recorded[0])}
            sources_runs = data.runs[data.runs["run"].isin(recorded)]
            doubt = merged([counts_doubt(own), counts_doubt(sources_runs)])
            rows.append(names | withheld(doubt, _rates(steps, cost, bound)) | {COUNTS: doubt})
    return rows


def _rates(steps: pd.DataFrame, cost: CostTable, bound: _Bound) -> dict[str, Any]:
    total_ms = sum(cost.step_ms[int(k) - 1] for k in steps["verified"])
    rate = float(steps["committed"].sum()) / total_ms
    return {
        "steps": len(steps),
        "mean_k": float(steps["verified"].mean()),
        "tokens_per_ms": rate,
        "best": bound.best,
        "regret": 1 - rate / bound.best,
        "hindsight_regret": 1 - rate / bound.hindsight,
    }


def _cost(block: Collection, runs: pd.DataFrame) -> CostTable | None:
    """The cost table of these runs; None where one has none or they differ."""
    tables = [block.costs[run] for run in runs["run"] if run in block.costs]
    same = len(tables) == len(runs) and all(table == tables[0] for table in tables)
    return tables[0] if same else None


def _bound(data: Collection, recorded: tuple[str, ...], cost: CostTable) -> _Bound | None:
    trees = [tree for run in recorded for tree in data.recorded_trees(run)]
    size = max((tree.size for tree in trees), default=0)
    if not 0 < size <= cost.draft_tokens:
        return None
    committed_SN = np.full((len(trees), size), np.nan)
    for row, tree in zip(committed_SN, trees, strict=True):
        row[: tree.size] = tree.tokens_committed()
    cost_N = np.array(cost.step_ms[:size])
    best, _ = best_rate(committed_SN, cost_N)
    ks = np.nanargmax(committed_SN / cost_N, axis=1)
    earned = committed_SN[np.arange(len(trees)), ks].sum()
    return _Bound(best, float(earned / cost_N[ks].sum()), len(trees))


def _label(data: Collection, run: str) -> str:
    return str(data.runs.loc[data.runs["run"] == run, "method_label"].iloc[0])


def replay_check(data: Collection) -> pd.DataFrame:
    """The live steps of every recorded run beside the replay of the same method on its trees.

    steps: compared one by one; unmatched: in one of the two only. k_differ, accepted_differ,
    committed_differ: steps in which they disagree; a faithful replay has 0 of each.
    """
    rows = []
    live, sources = recorded_runs(data), Sources.of(data)
    for block in replay_blocks(data):
        known = sources.find(block)
        for run in in_order(block.runs).to_dict("records"):
            source = known.get(str(run["run"]))
            found = live.runs[live.runs["run"] == source]
            if found.empty or found.iloc[0]["method_hash"] != run["method_hash"]:
                continue
            names = {name: run[name] for name in ("temperature", *METHOD, "benchmark")}
            doubt = merged([counts_doubt(pd.DataFrame([run])), counts_doubt(found)])
            differences = withheld(doubt, _differences(live, block, found, run))
            rows.append(names | {"recorded": source} | differences | {COUNTS: doubt})
    if not rows:
        raise Missing(f"no replay of the method that was live in a recorded run; run: {COMMAND}")
    return pd.DataFrame(rows)


def _differences(
    live: Collection, block: Collection, source: pd.DataFrame, run: dict[Any, Any]
) -> dict[str, Any]:
    values = ["verified", "accepted", "committed"]
    left = own_steps(live, source)[[*STEP, *values]]
    right = block.steps.loc[block.steps["run"] == run["run"], [*STEP, *values]]
    joined = left.merge(
        right, on=list(STEP), how="outer", suffixes=("_live", "_replay"), indicator=True
    )
    both = joined[joined["_merge"] == "both"]
    differ = {name: int((both[f"{name}_live"] != both[f"{name}_replay"]).sum()) for name in values}
    return {
        "steps": len(both),
        "unmatched": len(joined) - len(both),
        "k_differ": differ["verified"],
        "accepted_differ": differ["accepted"],
        "committed_differ": differ["committed"],
        "mat_live": ratio(left["committed"].sum(), len(left)),
        "mat_replayed": ratio(right["committed"].sum(), len(right)),
    }

"""What recorded trees say: calibration of the draft scores, and the expert union at every k."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from harness.collection import Collection
from harness.expert_union import uniform_union
from harness.reliability import brier_score, expected_calibration_error
from harness.report.blocks import blocks, method_labels, recorded_runs
from harness.report.doubt import COUNTS, counts_doubt, withheld
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD
from harness.report.tables.summary import OVERALL, in_order, scopes
from harness.trees import TreeRecord, node_verdicts

LIKELY = 0.1
COMMAND = "python run.py +experiment=trees"


def calibration(data: Collection) -> pd.DataFrame:
    """How far draft scores are acceptance probabilities, per temperature and benchmark.

    All N nodes of every recorded tree count, whatever the recorded method verified. nodes,
    mean_score, acceptance_rate, ece and brier over all drafted nodes; ece_likely and
    nodes_likely over nodes with a score of at least 0.1.
    """
    rows = []
    for trees, names in _recorded(data):
        rows.append(names | {"trees": len(trees)} | withheld(names[COUNTS], _calibration(trees)))
    return pd.DataFrame(rows)


def _calibration(trees: list[TreeRecord]) -> dict[str, Any]:
    scores, _, accepted = node_verdicts(trees)
    likely = scores >= LIKELY
    return {
        "nodes": len(scores),
        "mean_score": float(scores.mean()),
        "acceptance_rate": float(accepted.mean()),
        "ece": expected_calibration_error(scores.tolist(), accepted.tolist()),
        "brier": brier_score(scores.tolist(), accepted.tolist()),
        "nodes_likely": int(likely.sum()),
        "ece_likely": expected_calibration_error(
            scores[likely].tolist(), accepted[likely].tolist()
        ),
    }


def union(data: Collection) -> pd.DataFrame:
    """Distinct experts per layer when the first k nodes are verified, mean over recorded steps.

    A row per engine, temperature, recorded method and k; steps: trees with at least k nodes.
    uniform: the expected union if routing were uniform and independent.
    """
    rows: list[dict[str, Any]] = []
    for trees, names in _recorded(data, pooled=True):
        facts = names.pop("engine_facts")
        unions = [tree.union() for tree in trees]
        for k in range(1, max(map(len, unions)) + 1):
            known = [float(one[k - 1]) for one in unions if len(one) >= k]
            uniform = uniform_union(int(facts["experts"]), int(facts["experts_per_token"]), k)
            measured = {"steps": len(known), "experts_per_layer": float(np.mean(known))}
            rows.append(names | {"k": k} | withheld(names[COUNTS], measured) | {"uniform": uniform})
    return pd.DataFrame(rows)


def _facts(data: Collection, engine: str) -> dict[str, Any]:
    """What the engine that recorded said of itself."""
    runs = recorded_runs(data).runs
    found: dict[str, Any] = runs.loc[runs["engine"] == engine, "engine_facts"].iloc[0]
    return found


def _recorded(
    data: Collection, pooled: bool = False
) -> Iterator[tuple[list[TreeRecord], dict[str, Any]]]:
    """Trees of each recorded method and scope of benchmarks; `pooled`: only all of them."""
    found = blocks(recorded_runs(data))
    if not found or data.trees.empty:
        raise Missing(f"no recorded trees; run: {COMMAND}")
    for block in found:
        labels = method_labels(block.runs)
        for scope in scopes(block.runs)[-1:] if pooled else scopes(block.runs):
            inside = in_order(block.runs[block.runs["benchmark"].isin(scope)])
            for method, own in inside.groupby("method_hash", sort=False):
                trees = [tree for run in own["run"] for tree in block.recorded_trees(run)]
                if not trees:
                    continue
                names = {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
                names |= {"method_label": labels[str(method)]}
                names |= {"benchmark": scope[0] if len(scope) == 1 else OVERALL}
                names |= {COUNTS: counts_doubt(own)}
                yield (
                    trees,
                    names | ({"engine_facts": own.iloc[0]["engine_facts"]} if pooled else {}),
                )

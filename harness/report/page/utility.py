"""Recorded steps as plain data for the page: the tree, what was kept of it, and each policy's k."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import torch

from evict.cost import CostTable
from evict.selection import CostAware
from harness.collection import Collection
from harness.lines import KEY
from harness.report.blocks import recorded_runs
from harness.report.doubt import counts_doubt, invalid, merged
from harness.report.spec import Missing
from harness.report.words import benchmark
from harness.trees import TreeRecord

STEPS_SHOWN = 60
TEXT_SHOWN = 400
DIGITS = 4


@dataclass(frozen=True)
class Recording:
    """One run's recorded steps, the cost table they are judged by, and EVICT's k on each.

    rows: the rows of the run in `Collection.trees`, in the order of `trees`.
    """

    run: dict[str, Any]
    rows: pd.DataFrame
    trees: list[TreeRecord]
    cost: CostTable
    cost_run: str
    chosen: list[int]

    @property
    def agreement(self) -> float:
        """Share of the steps in which the live run verified the very k that EVICT chooses."""
        live = [tree.verified for tree in self.trees]
        return float(np.mean(np.equal(live, self.chosen)))


def chosen_lengths(trees: Sequence[TreeRecord], cost: CostTable) -> list[int]:
    """EVICT's verify length on each tree: the policy itself, on its own float32 sums."""
    select = CostAware().bind(cost, max(tree.size for tree in trees))
    return [int(select(torch.from_numpy(tree.scores).cumsum(0))) for tree in trees]


def best_length(tree: TreeRecord, cost: CostTable) -> int:
    """The smallest k that commits the most tokens per ms, known only once the step is over."""
    return int(np.argmax(tree.tokens_committed() / np.asarray(cost.step_ms[: tree.size]))) + 1


def step_groups(label: str, data: Collection) -> list[dict[str, Any]]:
    """One group per engine, benchmark and temperature of a model's recorded runs.

    Where several runs recorded the same cell, the one whose own k was EVICT's most often. Raises
    Missing when no valid run recorded a step, or none can be judged by a measured C(k).
    """
    found = recorded_runs(data)
    if found.runs.empty or found.trees.empty:
        raise Missing("no recorded steps; run: python run.py +experiment=trees")
    bad = found.runs["run"].map(lambda run: counts_doubt(found.runs[found.runs["run"] == run]))
    found = found.select(set(found.runs.loc[~bad.map(invalid), "run"]))
    if found.runs.empty:
        raise Missing(f"steps are {merged(bad)}; measure again: python run.py +experiment=trees")
    groups = []
    for _, runs in found.runs.groupby(["engine", "benchmark", "temperature"], sort=True):
        recordings = [
            recording
            for row in runs.sort_values("run").to_dict("records")
            if (recording := _recording(data, {str(k): v for k, v in row.items()})) is not None
        ]
        if recordings:
            best = max(recordings, key=lambda one: (one.agreement, len(one.trees)))
            groups.append(_group(label, data, best))
    if not groups:
        raise Missing(
            "steps were recorded, but no C(k) of this model and engine covers their trees; "
            "run: python run.py profile=only"
        )
    return groups


def _recording(data: Collection, run: dict[str, Any]) -> Recording | None:
    rows = data.trees[data.trees["run"] == run["run"]]
    trees = data.recorded_trees(run["run"])
    if not trees:
        return None
    cost_run = _cost_run(data, run, max(tree.size for tree in trees))
    if cost_run is None:
        return None
    cost = data.costs[cost_run]
    return Recording(run, rows, trees, cost, cost_run, chosen_lengths(trees, cost))


def _cost_run(data: Collection, run: dict[str, Any], size: int) -> str | None:
    """The run whose cost table applies: the recorded one, else the newest of the same engine."""
    runs = data.runs[data.runs["engine"] == run["engine"]]
    usable = [
        row
        for row in runs.to_dict("records")
        if row["run"] in data.costs and data.costs[row["run"]].draft_tokens >= size
    ]

    def nearness(row: dict[Any, Any]) -> tuple[Any, ...]:
        same = (row[name] == run[name] for name in ("run", "machine_hash"))
        return (*same, row["finished_at"], row["run"])

    return str(max(usable, key=nearness)["run"]) if usable else None


def _group(label: str, data: Collection, recording: Recording) -> dict[str, Any]:
    run, cost = recording.run, recording.cost
    keys = list(recording.rows[list(KEY)].itertuples(index=False, name=None))
    shown = spread(keys, STEPS_SHOWN)
    prompts = list(dict.fromkeys(keys[i] for i in shown))
    texts = _texts(data, str(run["run"]))
    return {
        "model": label,
        "engine": run["engine"],
        "benchmark": benchmark(run["benchmark"]),
        "temperature": float(run["temperature"]),
        "method": run["method_label"],
        "cost_from": None if recording.cost_run == run["run"] else recording.cost_run,
        "cost_ms": [_short(value) for value in cost.step_ms],
        "ar_ms": _short(cost.ar_ms),
        "of": len(keys),
        "prompts": [
            {"id": str(key[0]), "turn": int(key[1]), "repeat": int(key[2])}
            | {"text": _cut(texts.get(key, ""))}
            for key in prompts
        ],
        "steps": [
            {"prompt": prompts.index(keys[i])}
            | _step(recording.trees[i], cost, recording.chosen[i])
            for i in shown
        ],
    }


def spread(keys: Sequence[Any], most: int) -> list[int]:
    """At most `most` positions, in order: evenly over the keys, and evenly inside each."""
    if not keys:
        return []
    places: dict[Any, list[int]] = {}
    for i, key in enumerate(keys):
        places.setdefault(key, []).append(i)
    groups = list(places.values())
    if len(groups) > most:
        groups = [groups[i] for i in _even(len(groups), most)]
    shares = np.diff(np.linspace(0, most, len(groups) + 1).astype(int))
    return [
        group[i]
        for group, share in zip(groups, shares, strict=True)
        for i in _even(len(group), min(int(share), len(group)))
    ]


def _even(size: int, wanted: int) -> list[int]:
    return [int(place) for place in np.linspace(0, size - 1, wanted).round()]


def _step(tree: TreeRecord, cost: CostTable, chosen: int) -> dict[str, Any]:
    """One step; scores are rounded only here, after every k is known."""
    lengths = {"evict": chosen, "oracle": best_length(tree, cost), "full": tree.size}
    return {
        "step": tree.step,
        "live": tree.verified,
        "tokens": tree.tokens.tolist(),
        "parents": tree.parents.tolist(),
        "scores": [_short(score) for score in tree.scores],
        "path": list(tree.path),
        "committed": tree.tokens_committed().tolist(),
        "at": {name: _reading(tree, cost, k) for name, k in lengths.items()},
    }


def _reading(tree: TreeRecord, cost: CostTable, k: int) -> dict[str, float]:
    expected = float(tree.scores[:k].sum(dtype=np.float64))
    committed, step_ms = int(tree.tokens_committed()[k - 1]), cost.step_ms[k - 1]
    return {
        "k": k,
        "expected": _short(expected),
        "utility": _short(cost.ar_ms * expected / step_ms),
        "accepted": int(tree.accepted()[k - 1]),
        "committed": committed,
        "hindsight": _short(cost.ar_ms * committed / step_ms),
    }


def _texts(data: Collection, run: str) -> dict[tuple[Any, ...], str]:
    rows = data.requests[data.requests["run"] == run]
    keys = rows[list(KEY)].itertuples(index=False, name=None)
    texts = [text if isinstance(text, str) else "" for text in rows["text"]]
    return dict(zip(keys, texts, strict=True))


def _cut(text: str) -> str:
    return text if len(text) <= TEXT_SHOWN else text[:TEXT_SHOWN] + "…"


def _short(value: Any) -> float:
    return float(f"{float(value):.{DIGITS}g}")

"""Collections of a few steps whose every number is chosen: results can be worked out by hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from evict.cost import CostTable
from harness.collection import Collection
from harness.records import RequestRecord, RunResult, StepRecord
from harness.trees import TreeRecord, packed

TARGET = "selection._target_"
PLAIN: dict[str, Any] = {"method": "vanilla", "rank": 0, "baseline": "plain"}
FULL: dict[str, Any] = {
    "method": "eagle3",
    "rank": 20,
    "baseline": "full",
    "parameters": {TARGET: "evict.selection.Full"},
}
EVICT: dict[str, Any] = {
    "method": "evict",
    "rank": 90,
    "parameters": {TARGET: "evict.selection.CostAware", "selection.count_root": True},
}


def coverage(rho: float) -> dict[str, Any]:
    parameters = {TARGET: "evict.selection.Coverage", "selection.rho": rho}
    return {"method": f"coverage {rho:g}", "rank": 40, "parameters": parameters}


def fixed(k: int, **given: Any) -> dict[str, Any]:
    parameters = {TARGET: "evict.selection.FixedPrefix", "selection.k": k}
    return {"method": f"fixed {k}", "rank": 60, "parameters": parameters, **given}


def step(
    verified: int, committed: int, ms: float, experts: float = 1.0, **given: Any
) -> StepRecord:
    """A step whose time is all verification unless `given` says otherwise."""
    values: dict[str, Any] = {"verify_ms": ms, **given}
    return StepRecord(
        0,
        verified - 1,
        verified,
        committed - 1,
        committed,
        4,
        total_ms=ms,
        expert_union=experts,
        **values,
    )


@dataclass
class Tiny:
    """Runs added one by one; its requests are qa-0, qa-1, .. with one list of steps each."""

    runs: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    trees: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, CostTable] = field(default_factory=dict)

    def add(
        self,
        method: dict[str, Any],
        requests: list[list[StepRecord]],
        trees: list[TreeRecord] | None = None,
        cost: CostTable | None = None,
        **given: Any,
    ) -> Tiny:
        values = {**DEFAULTS, **method, **given}
        run = "-".join(
            str(values[name])
            for name in ("experiment", "method", "benchmark", "temperature", "engine")
        )
        place = [str(values[name]) for name in ("experiment", "temperature", "engine")]
        values["settings_hash"] = "-".join(place)
        values["pair_hash"] = "-".join([*place, str(values["benchmark"])])
        values["method_hash"] = values["method_label"] = values["method"]
        self.runs.append({"run": run, **RunResult(**values, requests_ok=len(requests)).to_dict()})
        for i, steps in enumerate(requests):
            self._request(run, f"{values['benchmark']}-{i}", steps)
        for tree in trees or []:
            self.trees.append({**_KEY, "run": run, **packed(tree.to_row())})
        if cost is not None:
            self.costs[run] = cost
        return self

    def _request(self, run: str, prompt: str, steps: list[StepRecord]) -> None:
        record = RequestRecord(
            **{**_KEY, "prompt_id": prompt},
            order=0,
            seed=0,
            temperature=0.0,
            input_hash=prompt,
            input_tokens=4,
            output_ids=[1, 2],
            decode_tokens=sum(one.committed for one in steps),
            prefill_ms=1.0,
            decode_ms=sum(one.total_ms for one in steps),
            part="a",
        )
        self.requests.append({"run": run, **record.to_dict()})
        self.steps += [
            {"run": run, **_KEY, "prompt_id": prompt, **one.to_dict(), "step": i}
            for i, one in enumerate(steps)
        ]

    def collection(self) -> Collection:
        frames = (pd.DataFrame(rows) for rows in (self.runs, self.requests, self.steps, self.trees))
        return Collection(*frames, costs=dict(self.costs))


_KEY: dict[str, Any] = {"prompt_id": "p0", "turn": 0, "repeat": 0}
DEFAULTS: dict[str, Any] = {
    "status": "ok",
    "reasons": [],
    "run_hash": "",
    "machine_hash": "machine",
    "experiment": "paper",
    "model": "tiny",
    "model_label": "Tiny",
    "lab": True,
    "baseline": None,
    "parameters": {},
    "tuned": [],
    "remark": "",
    "scores": "draft",
    "lossless": True,
    "recorded": False,
    "benchmark": "qa",
    "source": "lab",
    "temperature": 0.0,
    "history": "own",
    "repeats": 1,
    "engine": "torch",
    "requests_error": 0,
    "truncated_requests": 0,
    "engine_facts": {"experts": 8, "experts_per_token": 2},
    "engine_ms": 1.0,
    "wall_ms": 1.0,
    "finished_at": "2026-01-01T00:00:00Z",
}

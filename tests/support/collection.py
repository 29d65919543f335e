"""A small deterministic Collection of every kind of run, for the tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from evict.cost import CostTable
from harness.collection import Collection
from harness.identity import digest
from harness.records import RequestRecord, RunResult, StepRecord
from harness.trees import TreeRecord, packed
from tests.support.sample_cells import EASE, TOKENS, Cell, greedy_ids
from tests.support.sample_methods import EVICT, METHODS, REPLAYED, SWEEP, SampleMethod
from tests.support.sample_trees import ENGINE_FACTS, TOP_K, sample_cost

BENCHMARKS = tuple(EASE)


@lru_cache(maxsize=4)
def sample_collection(
    temperatures: tuple[float, ...] = (0.0, 1.0),
    benchmarks: tuple[str, ...] = BENCHMARKS,
    methods: tuple[SampleMethod, ...] = METHODS,
    prompts: int = 4,
    repeats: int = 3,
    label: str = "Sample MoE",
) -> Collection:
    """Timing, tree-size, recorded and replay runs of one lab model on engine torch.

    Frames are shared between callers: copy before you change one.
    """
    sample = _Sample(label)
    for temperature, benchmark in product(temperatures, benchmarks):
        cell = Cell(benchmark, temperature, prompts)
        sample.timed("paper", methods, cell, repeats)
        sample.timed("tree_size", SWEEP, cell, 1)
        recorded = sample.recorded(cell)
        for method in REPLAYED:
            sample.replayed(method, cell, recorded)
    return sample.collection()


@dataclass
class _Sample:
    label: str
    cost: CostTable = field(default_factory=sample_cost)
    runs: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)
    steps: list[dict[str, Any]] = field(default_factory=list)
    trees: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, CostTable] = field(default_factory=dict)

    def timed(
        self, experiment: str, methods: Sequence[SampleMethod], cell: Cell, repeats: int
    ) -> None:
        pool = cell.pool()
        for order, method in enumerate(methods):
            run, ks = (
                self._name(experiment, method, cell, "torch"),
                method.verified(pool, self.cost),
            )
            for key in cell.keys(repeats):
                rng = cell.rng(*key, method.name)
                steps = self._steps(method, pool, ks, key, cell, rng)
                self._request(run, key, cell, order, steps, greedy_ids(cell.benchmark, key))
            self._run(run, method, cell, experiment=experiment, repeats=repeats)

    def _steps(
        self,
        method: SampleMethod,
        pool: list[TreeRecord],
        ks: list[int],
        key: tuple[str, int, int],
        cell: Cell,
        rng: np.random.Generator,
    ) -> list[StepRecord]:
        """Draw trees until the tokens are there; the same draws for every method."""
        draws, left, steps = cell.rng(*key, "draws"), TOKENS, []
        while left:
            index = int(draws.integers(len(pool)))
            step = self._step(method, pool[index], ks[index], len(steps), float(rng.normal()))
            step.committed = min(step.committed, left)
            left -= step.committed
            steps.append(step)
        return steps

    def _step(
        self, method: SampleMethod, tree: TreeRecord, k: int, index: int, noise: float
    ) -> StepRecord:
        if method.plain:
            plain = self.cost.ar_ms * (1 + 0.02 * noise)
            return StepRecord(
                index, 0, 1, 0, 1, 0, verify_ms=plain, total_ms=plain, expert_union=float(TOP_K)
            )
        stages = self.cost.stage_ms or {}
        times = {f"{name}_ms": series[k - 1] for name, series in stages.items()}
        times["verify_ms"] *= 1 + 0.03 * noise
        accepted, expected = int(tree.accepted()[k - 1]), float(tree.scores[:k].sum())
        return StepRecord(
            step=index,
            drafted=int((tree.depths <= method.depth).sum()) - 1,
            verified=k,
            accepted=accepted,
            committed=accepted + 1,
            depth_drawn=method.depth,
            expected=expected,
            utility=self.cost.ar_ms * expected / self.cost.step_ms[k - 1],
            **times,
            total_ms=sum(times.values()),
            context_len=40 + index,
            expert_union=float(tree.union()[k - 1]),
        )

    def recorded(self, cell: Cell) -> str:
        """EVICT with its trees kept; returns the run's name."""
        run = self._name("trees", EVICT, cell, "torch")
        pool = cell.pool()
        ks = EVICT.verified(pool, self.cost)
        for key in cell.keys(1):
            draws = cell.rng(*key, "draws")
            steps = self._steps(EVICT, pool, ks, key, cell, cell.rng(*key, "recorded"))
            for step in steps:
                index = int(draws.integers(len(pool)))
                self._tree(run, key, pool[index], step)
            self._request(run, key, cell, 0, steps, greedy_ids(cell.benchmark, key))
        self._run(run, EVICT, cell, experiment="trees", repeats=1, recorded=True)
        return run

    def _tree(
        self, run: str, key: tuple[str, int, int], tree: TreeRecord, step: StepRecord
    ) -> None:
        row = packed({**tree.to_row(), "step": step.step})
        row |= {"verified": step.verified, "committed": step.committed}
        self.trees.append(
            dict(zip(("prompt_id", "turn", "repeat"), key, strict=True)) | row | {"run": run}
        )

    def replayed(self, method: SampleMethod, cell: Cell, recorded: str) -> None:
        """A policy on the trees of a recorded run; a step takes what the cost table says."""
        run = self._name("replay", method, cell, "replay")
        rows = [row for row in self.trees if row["run"] == recorded]
        for key in dict.fromkeys((row["prompt_id"], row["turn"], row["repeat"]) for row in rows):
            own = [
                TreeRecord.from_row(r)
                for r in rows
                if (r["prompt_id"], r["turn"], r["repeat"]) == key
            ]
            steps = []
            for tree, k in zip(own, method.verified(own, self.cost), strict=True):
                step = self._step(method, tree, k, tree.step, 0.0)
                step.committed = int(tree.tokens_committed()[k - 1])
                steps.append(step)
            self._request(run, key, cell, 0, steps, [])
        self._run(run, method, cell, experiment="replay", repeats=1, engine="replay")

    def _name(self, experiment: str, method: SampleMethod, cell: Cell, engine: str) -> str:
        return f"{experiment}/sample-{method.name}-{cell.benchmark}-T{cell.temperature:g}-{engine}"

    def _request(
        self,
        run: str,
        key: tuple[str, int, int],
        cell: Cell,
        order: int,
        steps: list[StepRecord],
        output: list[int],
    ) -> None:
        prompt_id, turn, repeat = key
        decode = sum(step.total_ms for step in steps)
        record = RequestRecord(
            prompt_id,
            turn,
            repeat,
            order,
            seed=repeat,
            temperature=cell.temperature,
            input_hash=digest([prompt_id, turn])[:16],
            input_tokens=40,
            output_ids=output,
            text=f"answer to {prompt_id}, turn {turn}",
            decode_tokens=sum(step.committed for step in steps),
            finish_reason="length" if output else "replayed",
            prefill_ms=9.0,
            decode_ms=decode,
            engine_ms=decode + 9.0,
            wall_ms=decode + 9.5,
            part="part-0",
        )
        self.requests.append(record.to_dict() | {"run": run})
        place = {"prompt_id": prompt_id, "turn": turn, "repeat": repeat, "run": run}
        self.steps += [place | step.to_dict() for step in steps]

    def _run(self, run: str, method: SampleMethod, cell: Cell, **given: Any) -> None:
        own = [row for row in self.requests if row["run"] == run]
        values: dict[str, Any] = {"engine": "torch", "recorded": False} | given
        settings = [
            "sample",
            cell.temperature,
            values["engine"],
            values["repeats"],
            values["recorded"],
        ]
        result = RunResult(
            status="ok",
            reasons=[],
            run_hash=digest([*settings, method.method_hash, cell.benchmark]),
            pair_hash=digest([*settings, cell.benchmark]),
            settings_hash=digest(settings),
            method_hash=method.method_hash,
            machine_hash="machine",
            model="sample",
            model_label=self.label,
            lab=True,
            method=method.name,
            method_label=method.label,
            rank=method.rank,
            baseline=method.baseline,
            parameters=method.parameters,
            tuned=list(method.tuned),
            remark=method.remark,
            scores=method.scores,
            lossless=True,
            benchmark=cell.benchmark,
            source="lab",
            temperature=cell.temperature,
            history="own",
            engine_facts=dict(ENGINE_FACTS),
            requests_ok=len(own),
            requests_error=0,
            truncated_requests=0,
            engine_ms=sum(row["engine_ms"] for row in own),
            wall_ms=sum(row["wall_ms"] for row in own),
            finished_at="2026-11-30T00:00:00Z",
            **values,
        )
        self.runs.append({"run": run} | result.to_dict())
        if not method.plain:
            self.costs[run] = self.cost

    def collection(self) -> Collection:
        frames = (pd.DataFrame(rows) for rows in (self.runs, self.requests, self.steps, self.trees))
        return Collection(*frames, costs=dict(self.costs))

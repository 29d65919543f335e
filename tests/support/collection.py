"""A small deterministic Collection of every kind of run, for the tests of the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import product
from typing import Any

import pandas as pd

from evict.cost import CostTable
from harness.collection import Collection
from harness.identity import digest
from harness.records import RequestRecord, RunResult, StepRecord
from harness.trees import TreeRecord, packed
from harness.validity.judge import judge
from tests.support.sample_cells import EASE, Cell, greedy_ids
from tests.support.sample_evidence import (
    ABSENT,
    HOST_MS,
    fingerprint,
    order_of,
    outputs,
    started_ms,
    warm_up,
    window,
)
from tests.support.sample_methods import EVICT, METHODS, REPLAYED, SWEEP, SampleMethod
from tests.support.sample_steps import step_of, steps_of
from tests.support.sample_trees import ENGINE_FACTS, sample_cost

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
    telemetry: list[dict[str, Any]] = field(default_factory=list)
    costs: dict[str, CostTable] = field(default_factory=dict)

    def timed(
        self, experiment: str, methods: Sequence[SampleMethod], cell: Cell, repeats: int
    ) -> None:
        pool = cell.pool()
        for place, method in enumerate(methods):
            run, ks = (
                self._name(experiment, method, cell, "torch"),
                method.verified(pool, self.cost),
            )
            for generation, key in enumerate(cell.keys(repeats)):
                rng = cell.rng(*key, method.name, *["again"] * method.replica)
                steps = steps_of(self.cost, method, pool, ks, key, cell, rng)
                order = order_of(place, generation, len(methods))
                began = started_ms(generation, order, len(methods))
                self._request(run, key, cell, order, steps, began)
            self._run(run, method, cell, experiment=experiment, repeats=repeats)

    def recorded(self, cell: Cell) -> str:
        """EVICT with its trees kept; returns the run's name."""
        run = self._name("trees", EVICT, cell, "torch")
        pool = cell.pool()
        ks = EVICT.verified(pool, self.cost)
        for generation, key in enumerate(cell.keys(1)):
            draws = cell.rng(*key, "draws")
            steps = steps_of(self.cost, EVICT, pool, ks, key, cell, cell.rng(*key, "recorded"))
            for step in steps:
                index = int(draws.integers(len(pool)))
                self._tree(run, key, pool[index], step)
            self._request(run, key, cell, 0, steps, started_ms(generation, 0, 1))
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
                step = step_of(self.cost, method, tree, k, tree.step, 0.0)
                step.committed = int(tree.tokens_committed()[k - 1])
                steps.append(step)
            self._request(run, key, cell, 0, steps, None)
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
        began: float | None,
    ) -> None:
        """began: on the part's clock; None for a replay, whose times are no measurement."""
        prompt_id, turn, repeat = key
        decode = sum(step.total_ms for step in steps)
        engine = decode + 9.0 + HOST_MS
        replayed = began is None
        ended = None if began is None else began + engine
        record = RequestRecord(
            prompt_id,
            turn,
            repeat,
            order,
            seed=repeat,
            temperature=cell.temperature,
            input_hash=digest([prompt_id, turn])[:16],
            input_tokens=40,
            output_ids=[] if replayed else greedy_ids(cell.benchmark, key),
            text=f"answer to {prompt_id}, turn {turn}",
            decode_tokens=sum(step.committed for step in steps),
            finish_reason="replayed" if replayed else "length",
            prefill_ms=9.0,
            decode_ms=decode,
            engine_ms=engine,
            wall_ms=engine + 0.5,
            started_ms=began,
            ended_ms=ended,
            cached_tokens=None if replayed else 0,
            part="part-0",
        )
        self.requests.append(record.to_dict() | {"run": run})
        place = {"prompt_id": prompt_id, "turn": turn, "repeat": repeat, "run": run}
        self.steps += [place | step.to_dict() for step in steps]
        if began is not None and ended is not None:
            self.telemetry += [place | sample for sample in window(began, ended)]

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
            **self._evidence(method, cell, values, len(own)),
        )
        self.runs.append({"run": run} | result.to_dict())
        if not method.plain:
            self.costs[run] = self.cost

    def _evidence(
        self, method: SampleMethod, cell: Cell, values: dict[str, Any], pairs: int
    ) -> dict[str, Any]:
        measured = values["engine"] != "replay"
        greedy = measured and cell.temperature == 0 and method.baseline != "plain"
        return {
            "drafter": method.drafter,
            "replica": method.replica,
            "fingerprint": fingerprint(cell, values["engine"], values["repeats"]),
            "warmup": warm_up() if measured else [],
            "absent": dict(ABSENT),
            "outputs": outputs(pairs) if greedy and not values["recorded"] else None,
        }

    def collection(self) -> Collection:
        """Judged, as `harness.collect` leaves it."""
        rows = (self.runs, self.requests, self.steps, self.trees)
        frames = (pd.DataFrame(one) for one in rows)
        telemetry = pd.DataFrame(self.telemetry)
        return judge(Collection(*frames, costs=dict(self.costs), telemetry=telemetry))

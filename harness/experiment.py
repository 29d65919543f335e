"""One command line, from plan to finished run directories: cost, warm-up, measuring, verdicts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from harness.collect import collect
from harness.collection import Collection
from harness.config import MethodConfig, RunConfig
from harness.costs import FILE, Profiler, folder
from harness.engines.base import Engine
from harness.exclusive import machine_lock
from harness.measure import Lane, Meter
from harness.plan import Cell, Group, Plan, cell_config, make_plan
from harness.preparation import Setup
from harness.progress import REPLAYED, Bar, bar
from harness.provenance import collect_provenance
from harness.records import RunResult
from harness.store import RunDirectory
from harness.tuning import FILE as TUNING
from harness.tuning import Tuning, tuned
from harness.verdict import verdict

OpenEngine = Callable[[], Engine]


@dataclass
class Outcome:
    """What happened: every run of the plan, the ones skipped, the status of the others."""

    runs: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    results: dict[Path, RunResult] = field(default_factory=dict)
    cost_folders: list[Path] = field(default_factory=list)
    tunings: list[Tuning] = field(default_factory=list)

    def collect(self, results: Path) -> Collection:
        """The plan's runs, and earlier ones of the same settings and benchmarks beside them."""
        data = collect(results)
        if data.runs.empty:
            return data
        names = {str(path.relative_to(results)) for path in self.runs}
        own = data.runs[data.runs["run"].isin(names)]
        keys = ["experiment", "settings_hash", "benchmark"]
        beside = data.runs[keys].merge(
            own[keys].drop_duplicates(), on=keys, how="left", indicator=True
        )
        chosen = set(data.runs.loc[(beside["_merge"] == "both").to_numpy(), "run"])
        left = {name: why for name, why in data.left_out.items() if name in names}
        return data.select(chosen, left)

    def exit_code(self, allow_partial: bool) -> int:
        """1 when a run failed, or is partial and that was not allowed."""
        accepted = {"ok", "partial"} if allow_partial else {"ok"}
        return int(any(result.status not in accepted for result in self.results.values()))


def run(
    config: RunConfig,
    methods: Sequence[MethodConfig],
    open_engine: OpenEngine,
    profiler: Profiler,
    shared_bar: Bar | None = None,
) -> Outcome:
    """Run what is not finished yet. Raises InputError before anything is written.

    The engine is opened only when a run is pending. An interrupt or a full disk leaves the rows
    written so far; the same call takes up after them. shared_bar: the bar of several runs in a
    row, of which this is one.
    """
    plan = make_plan(config, methods)
    cells = [cell for group in plan.groups for cell in group.cells]
    outcome = Outcome([cell.path for cell in cells])
    pending = {cell.path for cell in plan.pending}
    measuring = "only" not in (config.profile, config.tune)
    if measuring:
        outcome.skipped = [path for path in outcome.runs if path not in pending]
        if not pending:
            return outcome
    total = generations(config, plan) if measuring else 0.0
    with machine_lock(config.machine), shared_or_own(shared_bar, total) as progress:
        engine = open_engine()
        try:
            setup = Setup(config, plan, engine, profiler, progress)
            if measuring:
                _run_pending(setup, outcome)
            else:
                _prepare_only(setup, outcome)
        finally:
            engine.close()
    return outcome


@contextmanager
def shared_or_own(shared: Bar | None, total: float) -> Iterator[Bar]:
    """The bar that runs in a row share, or one for this run alone."""
    if shared is not None:
        yield shared
        return
    with bar(total) as own:
        yield own


def generations(config: RunConfig, plan: Plan) -> float:
    """How many generations are still to be made; replayed ones count little."""
    weight = 1.0 if config.engine.get("runs_model", True) else REPLAYED
    return weight * sum(
        sum(len(prompt.turns) for prompt in group.prompts) * config.repeats * len(group.pending)
        for group in plan.groups
    )


def _prepare_only(setup: Setup, outcome: Outcome) -> None:
    """profile=only, tune=only: measure what precedes a run, and nothing else."""
    methods = setup.plan.methods
    drafting = [one for one in methods if one.speculative]
    if setup.config.profile == "only":
        # Methods that draft nothing have no C(k); with no other, the profiler says so.
        source = setup.price(drafting or methods)
        outcome.cost_folders = [folder(source.results, one) for one in setup.costs.values()]
    if setup.config.tune == "only":
        setup.price(one for one in drafting if one.needs_cost)
        configs = [cell.config for cell in setup.plan.groups[0].cells]
        if not any(config.tune for config in configs):
            raise InputError(
                "no method here has anything to tune",
                seen=", ".join(config.name for config in configs),
                hint="method=ddd or method=best_fixed",
            )
        setup.tune(configs)
        outcome.tunings = [one for one in setup.tunings.values() if one is not None]


def _run_pending(setup: Setup, outcome: Outcome) -> None:
    config, plan, engine = setup.config, setup.plan, setup.engine
    facts = engine.describe()
    part = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z-{secrets.token_hex(4)}"
    groups = [group for group in plan.groups if group.pending]
    room = facts.context_length - config.max_new_tokens
    meter = Meter(engine, config, room, part, setup.progress)
    for group in groups:
        meter.encode_all(group.prompts)
    pending = [cell.method for cell in plan.pending]
    setup.price(one for one in pending if one.needs_cost or (one.speculative and not engine.timed))
    setup.tune(cell.config for cell in plan.pending)
    setup.warm_up(pending)
    provenance = {"part": part, **collect_provenance(), "engine": asdict(facts)}
    for group in groups:
        _run_group(setup, meter, group, provenance, outcome)


def _run_group(
    setup: Setup, meter: Meter, group: Group, provenance: dict[str, Any], outcome: Outcome
) -> None:
    pending = {cell.path for cell in group.pending}
    known = [tuned(cell.config, setup.tuning(cell.config)) for cell in group.cells]
    cells = [cell.with_method(one) for cell, one in zip(group.cells, known, strict=True)]
    lanes: list[Lane] = []
    try:
        for before, cell in zip(group.cells, cells, strict=True):
            lanes.append(Lane(cell.method, None, setup.cost(cell.method)))
            if cell.path in pending:
                lanes[-1].run = _open(setup, cell, lanes[-1].cost, provenance)
                tuning = setup.tuning(before.config)
                if tuning is not None:
                    tuning.save(cell.path / TUNING)
        meter.measure(group.prompts, lanes)
        for cell, lane in zip(cells, lanes, strict=True):
            if lane.run is not None:
                result = verdict(setup.config, cell, group, lane.run, meter.facts)
                outcome.results[cell.path] = result
                lane.run.finish(result)
    finally:
        for lane in lanes:
            if lane.run is not None:
                lane.run.close()


def _open(
    setup: Setup, cell: Cell, cost: CostTable | None, provenance: dict[str, Any]
) -> RunDirectory:
    config = setup.config
    values = cell_config(config, cell)
    run = RunDirectory.open(cell.path, values, provenance, config.record_trees)
    if cost is not None:
        cost.save(cell.path / FILE)
    return run

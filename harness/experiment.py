"""One command line, from plan to finished run directories: cost, warm-up, measuring, verdicts."""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from harness.collect import Collection, collect
from harness.config import MethodConfig, RunConfig
from harness.costs import FILE, CostSource, Profiler, folder
from harness.engines.base import Engine, Request
from harness.measure import Lane, Meter
from harness.plan import Cell, Group, Plan, cell_config, make_plan
from harness.profiling.cost import growth_name
from harness.progress import Bar, bar
from harness.provenance import collect_provenance
from harness.records import RequestRecord, RunResult, Status
from harness.store import RunDirectory

OpenEngine = Callable[[], Engine]


@dataclass
class Outcome:
    """What happened: every run of the plan, the ones skipped, the status of the others."""

    runs: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    results: dict[Path, RunResult] = field(default_factory=dict)
    cost_folders: list[Path] = field(default_factory=list)

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
        return data.select(chosen, [name for name in data.unfinished if name in names])

    def exit_code(self, allow_partial: bool) -> int:
        """1 when a run failed, or is partial and that was not allowed."""
        accepted = {"ok", "partial"} if allow_partial else {"ok"}
        return int(any(result.status not in accepted for result in self.results.values()))


def run(
    config: RunConfig,
    methods: Sequence[MethodConfig],
    open_engine: OpenEngine,
    profiler: Profiler,
) -> Outcome:
    """Run what is not finished yet. Raises InputError before anything is written.

    The engine is opened only when a run is pending. An interrupt or a full disk leaves the rows
    written so far; the same call takes up after them.
    """
    plan = make_plan(config, methods)
    cells = [cell for group in plan.groups for cell in group.cells]
    outcome = Outcome([cell.path for cell in cells])
    pending = {cell.path for cell in plan.pending}
    if config.profile != "only":
        outcome.skipped = [path for path in outcome.runs if path not in pending]
        if not pending:
            return outcome
    engine = open_engine()
    try:
        if config.profile == "only":
            outcome.cost_folders = _profile_only(config, plan, engine, profiler)
        else:
            _run_pending(config, plan, engine, profiler, outcome)
    finally:
        engine.close()
    return outcome


def _profile_only(config: RunConfig, plan: Plan, engine: Engine, profiler: Profiler) -> list[Path]:
    methods = plan.methods
    with bar(0) as progress:
        source = _cost_source(config, plan, engine, profiler, progress)
        # Methods that draft nothing have no C(k); with no other, the profiler says so.
        tables = source.provide_all([one for one in methods if one.speculative] or methods)
    return [folder(source.results, table) for table in tables.values()]


def _cost_source(
    config: RunConfig, plan: Plan, engine: Engine, profiler: Profiler, progress: Bar
) -> CostSource:
    return CostSource(
        engine=engine,
        profiler=profiler,
        calibration=[prompt.turns[0] for prompt in plan.calibration],
        results=Path(config.results_dir),
        seed=config.seed,
        policy=config.profile,
        progress=progress.stage,
    )


def _run_pending(
    config: RunConfig, plan: Plan, engine: Engine, profiler: Profiler, outcome: Outcome
) -> None:
    facts = engine.describe()
    part = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}Z-{secrets.token_hex(4)}"
    groups = [group for group in plan.groups if group.pending]
    limit = facts.context_length - config.max_new_tokens
    with bar(sum(_generations(config, group) for group in groups)) as progress:
        meter = Meter(engine, config, limit, part, progress)
        for group in groups:
            meter.encode_all(group.prompts)
        source = _cost_source(config, plan, engine, profiler, progress)
        pending = [cell.method for cell in plan.pending]
        costs = source.provide_all(method for method in pending if method.needs_cost)
        _warm_up(meter, plan, costs)
        provenance = {"part": part, **collect_provenance(), "engine": asdict(facts)}
        for group in groups:
            _run_group(meter, group, costs, provenance, outcome)


def _generations(config: RunConfig, group: Group) -> int:
    turns = sum(len(prompt.turns) for prompt in group.prompts)
    return turns * config.repeats * len(group.pending)


def _warm_up(meter: Meter, plan: Plan, costs: dict[str, CostTable]) -> None:
    """A few calibration prompts through every pending method; nothing is kept."""
    config, engine = meter.config, meter.engine
    methods = {repr(cell.method): cell.method for cell in plan.pending}
    for prompt in plan.calibration[: config.warmup_prompts]:
        ids = tuple(engine.encode_chat([{"role": "user", "content": prompt.turns[0]}]))
        request = Request(prompt.prompt_id, ids, config.warmup_tokens, config.temperature)
        for method in methods.values():
            meter.use(costs.get(growth_name(method)))
            engine.generate(request, method, config.seed)


def _run_group(
    meter: Meter,
    group: Group,
    costs: dict[str, CostTable],
    provenance: dict[str, Any],
    outcome: Outcome,
) -> None:
    pending = {cell.path for cell in group.pending}
    lanes: list[Lane] = []
    try:
        for cell in group.cells:
            lanes.append(Lane(cell.method, None, costs.get(growth_name(cell.method))))
            if cell.path in pending:
                lanes[-1].run = _open(meter.config, cell, lanes[-1].cost, provenance)
        meter.measure(group.prompts, lanes)
        for cell, lane in zip(group.cells, lanes, strict=True):
            if lane.run is not None:
                outcome.results[cell.path] = verdict(meter.config, cell, group, lane.run)
                lane.run.finish(outcome.results[cell.path])
    finally:
        for lane in lanes:
            if lane.run is not None:
                lane.run.close()


def _open(
    config: RunConfig, cell: Cell, cost: CostTable | None, provenance: dict[str, Any]
) -> RunDirectory:
    run = RunDirectory.open(cell.path, cell_config(config, cell), provenance)
    if cost is not None:
        cost.save(cell.path / FILE)
    return run


def verdict(config: RunConfig, cell: Cell, group: Group, run: RunDirectory) -> RunResult:
    """The summary of a run whose rows are all there."""
    good = [row for row in run.records if row.error_class is None]
    errors = Counter(row.error_class for row in run.records if row.error_class is not None)
    reasons = [f"{count} of {len(run.records)} requests: {name}" for name, count in errors.items()]
    if len(set(run.machines)) > 1:
        reasons.append("rows from processes whose engine or machine differ: speed not compared")
    status: Status = "ok" if not errors else "partial" if good else "failed"
    return RunResult(
        status=status,
        reasons=reasons,
        run_hash=cell.identity.run_hash,
        pair_hash=cell.identity.pair_hash,
        settings_hash=cell.identity.settings_hash(config.limit),
        method_hash=cell.identity.method_hash,
        machine_hash=run.machines[0] if len(set(run.machines)) == 1 else None,
        experiment=config.name,
        model=config.model.name,
        model_label=config.model.label,
        lab=config.model.lab,
        method=cell.config.name,
        method_label=cell.config.label,
        baseline=cell.config.baseline,
        lossless=cell.config.lossless,
        calibrated=cell.method.calibrate,
        benchmark=cell.benchmark.name,
        source=group.prompts[0].source,
        temperature=config.temperature,
        engine=str(config.engine["name"]),
        requests_ok=len(good),
        requests_error=len(run.records) - len(good),
        truncated_requests=sum(row.truncated_tokens > 0 for row in good),
        engine_ms=_total(good, "engine_ms"),
        wall_ms=_total(good, "wall_ms"),
        finished_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )


def _total(rows: Sequence[RequestRecord], name: str) -> float:
    return float(sum(getattr(row, name) or 0.0 for row in rows))

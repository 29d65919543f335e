"""One command line, from plan to finished run directories: cost, warm-up, measuring, verdicts."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

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
    provenance = {"part": part, **collect_provenance(), "engine": asdict(facts)}
    blocks = schedule(engine.together(plan.methods), config.repeats)
    if len(blocks) == 1:
        setup.warm_up(pending)
    for together in [[group] for group in groups] if len(blocks) == 1 else [groups]:
        with opened(setup, together, provenance) as lanes:
            for block in blocks:
                if len(blocks) > 1:
                    setup.warm_up(plan.methods[place] for place in block.lanes)
                for group, own in zip(together, lanes, strict=True):
                    chosen = [own[place].lane for place in block.lanes]
                    meter.measure(group.prompts, chosen, block.repeats)
            for group, own in zip(together, lanes, strict=True):
                _finish(setup, meter, group, own, outcome)


@dataclass(frozen=True)
class Block:
    """Lanes measured interleaved, by position, for these repeats."""

    lanes: Sequence[int]
    repeats: Sequence[int]


def schedule(parts: Sequence[Sequence[int]], repeats: int) -> list[Block]:
    """All repeats at once where all lanes can take turns; else part by part, repeat by repeat.

    Odd repeats visit the parts backwards, so that drift of the machine meets them alike.
    """
    if len(parts) == 1:
        return [Block(parts[0], range(repeats))]
    return [
        Block(part, [repeat])
        for repeat in range(repeats)
        for part in (parts if repeat % 2 == 0 else list(reversed(parts)))
    ]


@dataclass(frozen=True)
class Opened:
    """A cell with its tuned setting, and its lane."""

    cell: Cell
    lane: Lane


@contextmanager
def opened(
    setup: Setup, groups: Sequence[Group], provenance: dict[str, Any]
) -> Iterator[list[list[Opened]]]:
    """The lanes of these groups, directories of pending cells open; closed whatever happens."""
    lanes: list[list[Opened]] = []
    try:
        for group in groups:
            lanes.append([])
            for cell in group.cells:
                lanes[-1].append(_open(setup, cell, provenance))
        yield lanes
    finally:
        for one in (one for own in lanes for one in own):
            if one.lane.run is not None:
                one.lane.run.close()


def _finish(
    setup: Setup, meter: Meter, group: Group, lanes: Sequence[Opened], outcome: Outcome
) -> None:
    for one in lanes:
        if one.lane.run is not None:
            result = verdict(setup.config, one.cell, group, one.lane.run, meter.facts)
            outcome.results[one.cell.path] = result
            one.lane.run.finish(result)


def _open(setup: Setup, before: Cell, provenance: dict[str, Any]) -> Opened:
    tuning = setup.tuning(before.config)
    cell = before.with_method(tuned(before.config, tuning))
    lane = Lane(cell.method, None, setup.cost(cell.method))
    if not before.finished:
        config = setup.config
        values = cell_config(config, cell)
        lane.run = RunDirectory.open(cell.path, values, provenance, config.record_trees)
        if lane.cost is not None:
            lane.cost.save(cell.path / FILE)
        if tuning is not None:
            tuning.save(cell.path / TUNING)
    return Opened(cell, lane)

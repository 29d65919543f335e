"""One command line, from plan to finished run directories: cost, warm-up, measuring, results."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime

from evict.errors import InputError
from harness.clock import Clock
from harness.config import MethodConfig, RunConfig
from harness.costs import Profiler, folder
from harness.engines.base import Engine
from harness.exclusive import check_gpus, machine_lock
from harness.lanes import Opened, finish, opened, warm_up
from harness.measure import Meter
from harness.outcome import Outcome
from harness.plan import Plan, make_plan
from harness.preparation import Setup
from harness.progress import REPLAYED, Bar, bar
from harness.provenance import collect_provenance
from harness.telemetry.sampler import open_telemetry
from harness.telemetry.window import NoTelemetry, Telemetry

__all__ = ["Outcome", "generations", "run", "schedule"]

OpenEngine = Callable[[], Engine]


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
            engine.together(plan.methods)  # what it cannot run is refused before it starts anything
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
    blocks = schedule(engine.together(plan.methods), config.repeats)
    with sampled(engine, config, meter.clock) as meter.telemetry:
        absent = meter.telemetry.absent
        provenance = {"part": part, **collect_provenance(), "telemetry_absent": absent}
        provenance["engine"] = asdict(facts)
        check_gpus(config.foreign_gpu, facts.device, provenance["gpu_state"])
        for together in [[group] for group in groups] if len(blocks) == 1 else [groups]:
            with opened(setup, together, provenance) as lanes:
                every = [one for own in lanes for one in own]
                meter.recover = lambda every=every: warm_up(setup, meter, every)  # type: ignore[misc]
                if len(blocks) == 1:
                    warm_up(setup, meter, every)
                for block in blocks:
                    _measure(setup, meter, block, lanes, alone=len(blocks) == 1)
                for own in lanes:
                    finish(setup, meter, own, outcome)


def _measure(
    setup: Setup, meter: Meter, block: Block, lanes: Sequence[Sequence[Opened]], alone: bool
) -> None:
    chosen = [[own[place] for place in block.lanes] for own in lanes]
    if not alone:
        warm_up(setup, meter, [one for own in chosen for one in own])
    for own in chosen:
        meter.measure(own[0].prompts, [one.lane for one in own], block.repeats)


@contextmanager
def sampled(engine: Engine, config: RunConfig, clock: Clock) -> Iterator[Telemetry]:
    """Telemetry of the engine's device while it is measured; none where nothing is timed."""
    telemetry: Telemetry = NoTelemetry("no model runs")
    if engine.timed:
        telemetry = open_telemetry(engine.describe().device, clock, config.telemetry_s)
    try:
        yield telemetry
    finally:
        telemetry.close()


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

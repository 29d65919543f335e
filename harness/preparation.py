"""What precedes measuring: step costs, tuned settings, warm-up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from evict.cost import CostTable
from harness.clock import Clock
from harness.config import MethodConfig, RunConfig
from harness.costs import CostSource, Profiler
from harness.engines.base import Engine, Method, Request
from harness.identity import digest
from harness.plan import Plan
from harness.profiling.cost import growth_name
from harness.progress import Bar
from harness.tuning import Tuning, TuningSource
from harness.warm_up import WarmUp, WarmUpPlan


@dataclass
class Setup:
    """Costs by growth and tuned settings by method, for the runs of one plan."""

    config: RunConfig
    plan: Plan
    engine: Engine
    profiler: Profiler
    progress: Bar
    costs: dict[str, CostTable] = field(default_factory=dict)
    tunings: dict[str, Tuning | None] = field(default_factory=dict)

    def price(self, methods: Iterable[Method]) -> CostSource:
        """Find or measure a cost table for every growth among these methods."""
        source = CostSource(
            engine=self.engine,
            profiler=self.profiler,
            calibration=[prompt.turns[0] for prompt in self.plan.calibration],
            results=Path(self.config.results_dir),
            seed=self.config.seed,
            policy=self.config.profile,
            given=self.config.cost_table,
            progress=self.progress.stage,
        )
        self.costs = source.provide_all(methods)
        return source

    def tune(self, methods: Iterable[MethodConfig]) -> None:
        """Find or measure the tuned setting of every method that has one."""
        source = TuningSource(
            engine=self.engine,
            config=self.config,
            calibration=[prompt.turns[0] for prompt in self.plan.calibration],
            use_cost=self.use_cost,
            progress=self.progress.stage,
        )
        for method in methods:
            if digest(asdict(method)) not in self.tunings:
                self.tunings[digest(asdict(method))] = source.provide(method)

    def cost(self, method: Method) -> CostTable | None:
        """The table of this method's growth, if one was needed."""
        return self.costs.get(growth_name(method))

    def use_cost(self, method: Method) -> None:
        """Give the engine the table that belongs to this method's growth, if there is one."""
        cost = self.cost(method)
        if cost is not None:
            self.engine.set_cost(cost)

    def tuning(self, config: MethodConfig) -> Tuning | None:
        """What was tuned for this method."""
        return self.tunings.get(digest(asdict(config)))

    def warm_up(self, methods: Iterable[Method], part: str, clock: Clock) -> WarmUp:
        """A few calibration prompts through every method; none where nothing is timed."""
        config, engine = self.config, self.engine
        requests = []
        for prompt in self.plan.calibration[: config.warmup_prompts if engine.timed else 0]:
            ids = tuple(engine.encode_chat([{"role": "user", "content": prompt.turns[0]}]))
            requests.append(
                Request(prompt.prompt_id, ids, config.warmup_tokens, config.temperature)
            )
        plan = WarmUpPlan(requests, config.seed, part, clock)
        return plan.run(engine, methods, self.use_cost)

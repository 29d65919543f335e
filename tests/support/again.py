"""One command line that is run again and again, as a user does after something went wrong."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest

from harness.config import MethodConfig, RunConfig
from harness.engines.base import Method, Observer, Request, RequestTrace
from harness.experiment import Outcome, run
from tests.support.bench import Bench, composed
from tests.support.fake_engine import FakeEngine, FakeProfiler
from tests.support.sample_trees import sample_tree


@dataclass
class TreesEngine(FakeEngine):
    """Records a tree for every step where trees are asked for."""

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        trace = super().generate(request, method, seed, observer)
        rng = np.random.default_rng(seed)
        steps = len(trace.steps) if request.record_trees else 0
        trace.trees = [sample_tree(i, 0.7, rng) for i in range(steps)]
        return trace


@dataclass
class Command:
    """Composed once; every `run` has an engine of its own unless one is given."""

    bench: Bench
    config: RunConfig
    methods: list[MethodConfig]
    engine: FakeEngine = field(default_factory=FakeEngine)
    profiler: FakeProfiler = field(default_factory=FakeProfiler)

    @classmethod
    def of(cls, bench: Bench, *overrides: str) -> Command:
        return cls(bench, *composed(*bench.overrides(), *overrides))

    def run(self, engine: FakeEngine | None = None) -> Outcome:
        self.engine = engine or TreesEngine()
        return run(self.config, self.methods, lambda: self.engine, self.profiler)

    def stopped(self, after: int) -> Path:
        """The directory of the single run, interrupted after so many generations."""
        with pytest.raises(KeyboardInterrupt):
            self.run(TreesEngine(fail=stop_after(after)))
        (path,) = (self.bench.results / self.config.name).iterdir()
        return path

    @property
    def measured(self) -> list[str]:
        """Prompts of the last run's generations that were no warm-up."""
        return [name for name, _ in self.engine.calls if not name.startswith("calibration")]


def stop_after(count: int) -> Callable[[Request, Method], None]:
    """Interrupts the generation after `count` measured ones."""
    left = iter(range(count))

    def stop(request: Request, method: Method) -> None:
        if not request.prompt_id.startswith("calibration") and next(left, None) is None:
            raise KeyboardInterrupt

    return stop

"""All points in order: the trained checkpoint first, then regimes of the timed one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Generic, TypeVar

from harness.engines.sglang.arguments import Kind, Settings, Weights
from harness.engines.sglang.gpu_check.arms import PLAIN, STOCK, Arms, Starts
from harness.engines.sglang.gpu_check.budget import Budget, OutOfBudget
from harness.engines.sglang.gpu_check.captures import captures
from harness.engines.sglang.gpu_check.document import Document, reason_of
from harness.engines.sglang.gpu_check.dummy import Pair, write_pair
from harness.engines.sglang.gpu_check.intervals import exposed_gap, random_prompts, step_cost
from harness.engines.sglang.gpu_check.lab import LAB, lab_prompts
from harness.engines.sglang.gpu_check.matches import full_equals_stock, match_by_width
from harness.engines.sglang.gpu_check.plan import Plan, Regime
from harness.engines.sglang.gpu_check.ties import score_ties
from harness.engines.sglang.launch import Launch
from harness.engines.sglang.reply import Reply

T = TypeVar("T")
GAP = "exposed_gap"
STOP_S = 8.0


class NotInstalled(Exception):
    """A regime needs a package that is missing."""


class Once(Generic[T]):
    """A value computed at the first call; an error is raised again at every call."""

    def __init__(self, compute: Callable[[], T]) -> None:
        self._compute = compute
        self._values: list[T] = []
        self._error: Exception | None = None

    def settle(self) -> None:
        """Compute it now, whatever comes of it."""
        try:
            self()
        except Exception as error:
            self._error = error

    def __call__(self) -> T:
        if self._error is not None:
            raise self._error
        if not self._values:
            self._values.append(self._compute())
        return self._values[0]


@dataclass
class Check:
    """One run of a plan. folder: logs and checkpoints of the servers lie here."""

    plan: Plan
    folder: Path
    budget: Budget
    document: Document
    starts: Starts

    def run(self) -> None:
        """Try every point; errors are in the document, servers are stopped at the end of each part.

        OutOfBudget only where the alarm rang between two points.
        """
        for stage in (self.lab_points, self.cost_points):
            try:
                stage()
            except OutOfBudget:
                raise
            except Exception as error:
                self.document.give_up(error)

    def lab_points(self) -> None:
        """Outputs and trees of the trained checkpoint; one server at a time, each started once."""
        sizes = self.plan.sizes
        attempt = self.document.attempt
        widths = {"tiers": list(sizes.match_widths)}
        with self._arms("lab", self.plan.lab, LAB, widths, live=1) as arms:
            prompts = lab_prompts(sizes.prompts)
            plain = Once(lambda: _outputs(arms, PLAIN, prompts, sizes.tokens))
            stock = Once(lambda: _outputs(arms, STOCK, prompts, sizes.tokens))
            plain.settle()
            stock.settle()
            asked = (arms, prompts, sizes.tokens)
            attempt("full_equals_stock", lambda: full_equals_stock(*asked, stock))
            attempt("match_by_width", lambda: match_by_width(*asked, sizes.match_widths, plain))
            attempt("score_ties", lambda: score_ties(*asked))

    def cost_points(self) -> None:
        """Times of random weights; the first regime that works gives captures and step costs."""
        plan = self.plan
        pair = write_pair(self.folder / "dummy", plan.geometry, plan.regimes[0].settings.dtype)
        rows: list[dict[str, Any]] = []
        for regime in plan.regimes:
            began = self.budget.spent()
            row = self._regime(regime, pair)
            rows.append({"regime": regime.name, **row})
            partial = [one["reason"] for one in rows if one["reason"]]
            value = {"regimes": rows} if len(partial) < len(rows) else None
            before = self.document.points[GAP].get("seconds", 0.0)
            seconds = before + self.budget.spent() - began
            self.document.settle(GAP, value, "; ".join(partial) or None, seconds)

    def _regime(self, regime: Regime, pair: Pair) -> dict[str, Any]:
        sizes, live = self.plan.sizes, self.plan.live
        widths = {"tiers": list(sizes.cost_widths)}
        count, context, vocabulary = (
            sizes.cost_prompts,
            sizes.context,
            self.plan.geometry.vocabulary,
        )
        prompts = random_prompts(count, context, vocabulary)
        try:
            _check_package(regime)
            with self._arms(regime.name, regime.settings, pair, widths, live) as arms:
                self._once("captures", regime, lambda: captures(arms))
                costs = (arms, prompts, sizes.cost_tokens, sizes.cost_widths, sizes.rounds)
                self._once("step_cost", regime, lambda: step_cost(*costs))
                self.budget.need(1.0, regime.name)
                return {**exposed_gap(arms, prompts, sizes.cost_tokens, live), "reason": None}
        except Exception as error:
            return {"plugin_over_stock": None, "reason": reason_of(error)}

    def _once(self, name: str, regime: Regime, answer: Callable[[], dict[str, Any]]) -> None:
        """A point that one regime answers for all."""
        if not self.document.answered(name):
            self.document.attempt(name, lambda: {"regime": regime.name, **answer()})

    def _arms(
        self, name: str, settings: Settings, pair: Pair, worker: dict[str, Any], live: int
    ) -> Arms:
        weights = Weights(str(pair.target), str(pair.draft), context_length=settings.context_length)
        launch = Launch(
            settings=settings,
            weights=weights,
            folder=self.folder / "servers" / name,
            environment=dict(self.plan.environment),
            worker=worker,
            stop_timeout_s=STOP_S,
        )
        return Arms(launch, live, self.starts)


def _check_package(regime: Regime) -> None:
    if regime.package is not None and find_spec(regime.package) is None:
        raise NotInstalled(f"regime {regime.name} needs the package {regime.package}")


def _outputs(arms: Arms, kind: Kind, prompts: Sequence[Sequence[int]], tokens: int) -> list[Reply]:
    running = arms.get(kind)
    return [arms.generate(running, prompt, tokens) for prompt in prompts]

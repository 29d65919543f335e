"""Steps of one simulated request as records: drawn, selected, verified, priced."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from evict.acceptance import greedy
from evict.cost import STAGES, CostTable
from harness.engines.base import Method
from harness.records import StepRecord
from harness.simulate.acceptance import Draws, Spread, propose
from harness.simulate.cost import StepCost
from harness.simulate.overlap import Floats
from harness.simulate.trees import simulate_step


@dataclass(frozen=True, eq=False)
class Simulation:
    """One drafter on one device.

    cost: what a step really takes. own_union: distinct experts of one request's k = 1..N nodes.
    believed: the table that selections see, cost's own if None.
    """

    spread: Spread
    difficulty: float
    cost: StepCost
    own_union: Floats
    believed: CostTable | None = None

    def run(self, method: Method, tokens: int, seed: int, context: int) -> list[StepRecord]:
        """Steps until `tokens` tokens are committed; the last one is cut as a stop rule does."""
        take = self._speculative(method, tokens, seed) if method.speculative else self._plain
        records: list[StepRecord] = []
        left = tokens
        while left > 0:
            one = take(len(records), context + tokens - left)
            one.committed = min(one.committed, left)
            left -= one.committed
            records.append(one)
        return records

    def _plain(self, step: int, context: int) -> StepRecord:
        return StepRecord(
            step=step,
            drafted=0,
            verified=1,
            accepted=0,
            committed=1,
            depth_drawn=0,
            verify_ms=self.cost.ar_ms,
            total_ms=self.cost.ar_ms,
            context_len=context,
            expert_union=self._union(1),
        )

    def _speculative(
        self, method: Method, tokens: int, seed: int
    ) -> Callable[[int, int], StepRecord]:
        growth, table = method.growth, self.believed or self.cost.cost_table()
        draws = Draws.make(tokens, growth.steps, growth.topk, self.spread.persistence, seed)
        proposals = propose(draws, self.spread, self.difficulty)
        selector = method.selection.bind(table, method.draft_tokens)

        def take(number: int, context: int) -> StepRecord:
            step = simulate_step(proposals, number, growth, method.draft_tokens)
            expected_N = step.tree.expected()
            k = int(selector(expected_N))
            accepted = len(greedy(step.tree, step.argmax_N[:k]).path) - 1
            utility = table.ar_ms * float(expected_N[k - 1]) / table.step_ms[k - 1]
            found = StepRecord(
                step=number,
                drafted=step.tree.size - 1,
                verified=k,
                accepted=accepted,
                committed=accepted + 1,
                depth_drawn=int(step.tree.depths_N.max()),
                expected=float(expected_N[k - 1]),
                utility=utility,
                context_len=context,
                expert_union=self._union(k),
            )
            for stage in STAGES:
                setattr(found, f"{stage}_ms", float(self.cost.stage_ms(stage)[k - 1]))
            not_drawn_ms = (growth.steps - step.levels) * self.cost.level_ms
            found.draft_ms -= not_drawn_ms
            found.total_ms = float(self.cost.step_ms()[k - 1]) - not_drawn_ms
            return found

        return take

    def _union(self, k: int) -> float | None:
        """Of this request alone; None for a dense model."""
        return float(self.own_union[k - 1]) if self.own_union[0] else None

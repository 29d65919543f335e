"""Steps of the sample runs: trees drawn from a pool, with the times that a cost table gives."""

from __future__ import annotations

import numpy as np

from evict.cost import CostTable
from harness.records import StepRecord
from harness.trees import TreeRecord
from tests.support.sample_cells import TOKENS, Cell
from tests.support.sample_methods import SampleMethod
from tests.support.sample_trees import TOP_K


def steps_of(
    cost: CostTable,
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
        step = step_of(cost, method, pool[index], ks[index], len(steps), float(rng.normal()))
        step.committed = min(step.committed, left)
        left -= step.committed
        steps.append(step)
    return steps


def step_of(
    cost: CostTable, method: SampleMethod, tree: TreeRecord, k: int, index: int, noise: float
) -> StepRecord:
    if method.plain:
        plain = cost.ar_ms * (1 + 0.02 * noise)
        return StepRecord(
            index, 0, 1, 0, 1, 0, verify_ms=plain, total_ms=plain, expert_union=float(TOP_K)
        )
    stages = cost.stage_ms or {}
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
        utility=cost.ar_ms * expected / cost.step_ms[k - 1],
        **times,
        total_ms=sum(times.values()),
        context_len=40 + index,
        expert_union=float(tree.union()[k - 1]),
    )

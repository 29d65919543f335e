"""The fast path is the real code: same draws, same k, same accepted, same committed tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from evict.acceptance import greedy, sampling
from evict.growth import FixedDepth
from evict.selection import CostAware, Coverage, FixedPrefix, Full, Selection
from harness.simulate.acceptance import Draws, Proposals, Spread, grow_batch, propose
from harness.simulate.architecture import load_geometry
from harness.simulate.cost import Setting, StepCost, step_cost
from harness.simulate.hardware import load_hardware
from harness.simulate.simulator import SimulatedRun, verify_batch
from harness.simulate.trees import simulate_step

COST = step_cost(Setting(load_geometry("qwen3_30b"), load_hardware("a100_80")))
SELECTIONS = [CostAware(), CostAware(count_root=False), Coverage(0.7), FixedPrefix(6), Full()]
SHAPES = [(4, 8, 32), (3, 4, 20), (1, 8, 32), (5, 2, 12), (4, 1, 5)]


def verified(
    proposals: Proposals, selection: Selection, paid: StepCost = COST, believed: StepCost = COST
) -> SimulatedRun:
    return verify_batch(grow_batch(proposals, 4, 32), selection, believed.cost_table(), paid)


def many(shape: tuple[int, int, int], count: int = 60) -> Draws:
    return Draws.make(count, shape[0], shape[1], 0.3, seed=sum(shape))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("difficulty", [-2.0, 1.0, 6.0])
def test_trees_of_the_batch_are_the_trees_of_the_real_code(
    shape: tuple[int, int, int], difficulty: float, spread: Spread
) -> None:
    steps, topk, tokens = shape
    proposals = propose(many(shape), spread, difficulty)
    batch = grow_batch(proposals, steps, tokens)
    for number in range(len(batch.scores_SN)):
        step = simulate_step(proposals, number, FixedDepth(steps, topk), tokens)
        assert step.tree.is_closed()
        assert torch.equal(step.tree.scores_N, batch.scores_SN[number])
        assert torch.equal(step.tree.expected(), batch.expected_SN()[number])


@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
@pytest.mark.parametrize("difficulty", [-2.0, 1.0, 6.0])
def test_every_policy_chooses_and_commits_the_same(
    selection: Selection, difficulty: float, spread: Spread
) -> None:
    proposals = propose(many((4, 8, 32), 150), spread, difficulty)
    fast = verify_batch(grow_batch(proposals, 4, 32), selection, COST.cost_table(), COST)
    selector = selection.bind(COST.cost_table(), 32)
    for number in range(150):
        step = simulate_step(proposals, number, FixedDepth(4, 8), 32)
        k = int(selector(step.tree.expected()))
        path = greedy(step.tree, step.argmax_N[:k]).path
        assert k == int(fast.verified_S[number])
        assert len(path) == int(fast.committed_S[number])


@dataclass
class OnePerNode:
    """Chance that spends one uniform at each node: what is left of it after each refusal."""

    uniforms: Iterator[float]
    left: float | None = None

    def accept(self, p: float) -> bool:
        u = next(self.uniforms) if self.left is None else self.left
        self.left = None if u < p else (u - p) / (1 - p)
        return u < p

    def draw(self, p_V: Tensor) -> int:
        return int(p_V.argmax())


@pytest.mark.parametrize("k", [1, 5, 32])
def test_sampling_accepts_the_path_that_the_drawn_choices_mean(k: int, spread: Spread) -> None:
    """Sibling by sibling with renormalising (EVICT, eq. 3) on the uniforms behind the choices."""
    draws = many((4, 8, 32), 150)
    proposals = propose(draws, replace(spread, sharpness=1.2), 0.5)
    for number in range(150):
        step = simulate_step(proposals, number, FixedDepth(4, 8), 32)
        path = greedy(step.tree, step.argmax_N[:k]).path
        expanded = [place for node in path if (place := step.places[node]) is not None]
        spent = iter([float(draws.targets_SDW[number][place]) for place in expanded])
        assert sampling(step.tree, step.probs_NV[:k], OnePerNode(spent)).path == path


def test_cost_aware_selection_beats_every_fixed_length(draws: Draws, spread: Spread) -> None:
    """On a calibrated drafter and the true prices no constant k is faster."""
    proposals = propose(draws, spread, 1.0)
    best = max(verified(proposals, FixedPrefix(k)).tokens_per_s for k in range(1, 33))
    adaptive = verified(proposals, CostAware())
    assert adaptive.tokens_per_s > best
    assert 1 < adaptive.mean_verified < 32


def test_a_step_is_believed_at_one_price_and_paid_at_another(draws: Draws, spread: Spread) -> None:
    proposals = propose(draws, spread, 1.0)
    dear = step_cost(Setting(load_geometry("ling_flash"), load_hardware("a100_80"), 4))
    own = verified(proposals, CostAware())
    other = verified(proposals, CostAware(), believed=dear)
    wanted = verified(proposals, CostAware(), dear, dear)
    assert torch.equal(other.verified_S, wanted.verified_S)
    assert not torch.equal(other.verified_S, own.verified_S)
    assert other.step_ms_S.max() <= COST.step_ms().max()

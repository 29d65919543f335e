"""Methods on simulated steps: the real selection over simulated trees, priced by a cost model."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from evict.acceptance import greedy
from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import FixedDepth
from evict.selection import Selection
from harness.engines.base import Method
from harness.simulate.acceptance import DraftBatch, Proposals, grow_batch
from harness.simulate.cost import StepCost
from harness.simulate.overlap import Floats
from harness.simulate.trees import simulate_step


@dataclass(frozen=True, eq=False)
class SimulatedRun:
    """S decode steps of one method. All tensors [S]; times in ms, predicted.

    verified_S: k. committed_S: tokens. step_ms_S, verify_ms_S: whole step and its verification.
    union_S: expected distinct experts per layer.
    """

    verified_S: Tensor
    committed_S: Tensor
    step_ms_S: Tensor
    verify_ms_S: Tensor
    union_S: Tensor

    @property
    def mat(self) -> float:
        """Committed tokens per step."""
        return float(self.committed_S.double().mean())

    @property
    def mean_verified(self) -> float:
        """Mean k."""
        return float(self.verified_S.double().mean())

    @property
    def step_ms(self) -> float:
        """Mean milliseconds of a step."""
        return float(self.step_ms_S.mean())

    @property
    def tokens_per_s(self) -> float:
        """Decode speed: committed tokens by decode seconds."""
        return 1e3 * self.mat / self.step_ms


def simulate(
    method: Method, proposals: Proposals, cost: StepCost, table: CostTable | None = None
) -> SimulatedRun:
    """Run a method; `cost` prices its steps, `table` is what it believes (default: the same).

    Growth that decides while it draws goes step by step through the real trees, plain FixedDepth
    through the equal batch. InputError for a drafter that is not simulated.
    """
    if not method.speculative:
        return _plain(len(proposals.choices_SDW), cost)
    if method.drafter != "eagle3" or method.scores != "draft":
        raise InputError(
            "no acceptance model for this method",
            seen=f"{method.name}: drafter {method.drafter}, scores {method.scores}",
            allowed="drafter none or eagle3, scores draft",
            hint="method=eagle3",
        )
    believed = table or cost.cost_table()
    if type(method.growth) is FixedDepth:
        batch = grow_batch(proposals, method.growth.steps, method.draft_tokens)
        return verify_batch(batch, method.selection, believed, cost)
    return verify_singly(method, proposals, believed, cost)


def verify_batch(
    batch: DraftBatch, selection: Selection, table: CostTable, cost: StepCost
) -> SimulatedRun:
    """Select and verify all trees at once; the selector sees [S, N] as it sees [N]."""
    expected_SN = batch.expected_SN()
    k_S = selection.bind(table, expected_SN.shape[1])(expected_SN)
    committed_S = batch.committed_SN().gather(1, k_S.unsqueeze(1) - 1).squeeze(1)
    return _priced(k_S, committed_S, cost)


def verify_singly(
    method: Method, proposals: Proposals, table: CostTable, cost: StepCost
) -> SimulatedRun:
    """The same step by step; levels that growth left undrawn are not paid."""
    selector = method.selection.bind(table, method.draft_tokens)
    ks, committed, not_drawn = [], [], []
    for number in range(len(proposals.choices_SDW)):
        step = simulate_step(proposals, number, method.growth, method.draft_tokens)
        k = int(selector(step.tree.expected()))
        ks.append(k)
        committed.append(len(greedy(step.tree, step.argmax_N[:k]).path))
        not_drawn.append(method.growth.steps - step.levels)
    run = _priced(torch.tensor(ks), torch.tensor(committed), cost)
    return replace(run, step_ms_S=run.step_ms_S - cost.level_ms * torch.tensor(not_drawn))


def _plain(steps: int, cost: StepCost) -> SimulatedRun:
    ones = torch.ones(steps, dtype=torch.long)
    times = torch.full((steps,), cost.ar_ms, dtype=torch.float64)
    return SimulatedRun(ones, ones, times, times, _at(cost.union, ones))


def _priced(k_S: Tensor, committed_S: Tensor, cost: StepCost) -> SimulatedRun:
    return SimulatedRun(
        verified_S=k_S,
        committed_S=committed_S,
        step_ms_S=_at(cost.step_ms(), k_S),
        verify_ms_S=_at(cost.stage_ms("verify"), k_S),
        union_S=_at(cost.union, k_S),
    )


def _at(series: Floats, k_S: Tensor) -> Tensor:
    return torch.from_numpy(series)[k_S - 1]

"""Many simulated steps at once: the real selection over equal trees, priced by a cost model."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from evict.cost import CostTable
from evict.selection import Selection
from harness.simulate.acceptance import DraftBatch
from harness.simulate.cost import StepCost
from harness.simulate.overlap import Floats


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


def verify_batch(
    batch: DraftBatch, selection: Selection, table: CostTable, cost: StepCost
) -> SimulatedRun:
    """Select and verify all trees at once; the selector sees [S, N] as it sees [N]."""
    expected_SN = batch.expected_SN()
    k_S = selection.bind(table, expected_SN.shape[1])(expected_SN)
    committed_S = batch.committed_SN().gather(1, k_S.unsqueeze(1) - 1).squeeze(1)
    return _priced(k_S, committed_S, cost)


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

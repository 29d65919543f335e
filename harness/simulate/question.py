"""Vanilla, EAGLE-3 and EVICT on one model, device and batch size, in one world."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.simulate.acceptance import DraftBatch, grow_batch, propose
from harness.simulate.basis import World
from harness.simulate.cost import Setting, StepCost, step_cost
from harness.simulate.paper import EAGLE3, EVICT
from harness.simulate.simulator import SimulatedRun, verify_batch
from harness.simulate.target import Drafter
from harness.simulate.uncertainty import faster

OVER_ALL = "all"
Trees = Mapping[str, DraftBatch]


@dataclass(frozen=True, eq=False)
class Question:
    """What is asked: the setting, the drafter, and for which benchmarks and temperature."""

    setting: Setting
    drafter: Drafter
    benchmarks: Sequence[str]
    temperature: float

    def cost(self, world: World, batch: int | None = None, rho: float | None = None) -> StepCost:
        """C(k) there, for `batch` requests at once; rho: another routing overlap than the fit's."""
        setting = faster(self.setting, world.more_bandwidth)
        setting = replace(setting, batch=batch or setting.batch)
        fitted = self.drafter.calibration(world.fit)
        return step_cost(setting, fitted if rho is None else replace(fitted, rho=rho))

    def trees(self, world: World) -> dict[str, DraftBatch]:
        """Drafted trees by benchmark; InputError for a Mat that the tree cannot have."""
        return {name: self._grown(world, name) for name in self.benchmarks}

    def _grown(self, world: World, benchmark: str) -> DraftBatch:
        fit = world.fit
        difficulty = fit.curve.find(self.drafter.mat(self.temperature, benchmark))
        proposals = propose(fit.draws, fit.spread, difficulty)
        return grow_batch(proposals, self.setting.steps, self.setting.draft_tokens)


def verified(trees: Trees, cost: StepCost) -> dict[str, tuple[SimulatedRun, SimulatedRun]]:
    """EAGLE-3's and EVICT's run by benchmark."""
    table = cost.cost_table()
    return {
        name: (
            verify_batch(batch, EAGLE3.selection, table, cost),
            verify_batch(batch, EVICT.selection, table, cost),
        )
        for name, batch in trees.items()
    }


def speedups(trees: Trees, cost: StepCost) -> pd.DataFrame:
    """A row per benchmark and one over all of them (geometric mean).

    Columns: vs_eagle3, vs_vanilla (EVICT's speed over theirs), eagle3_vs_vanilla.
    """
    rows = {}
    for name, (full, cut) in verified(trees, cost).items():
        plain = 1e3 / cost.ar_ms
        rows[name] = {
            "vs_eagle3": cut.tokens_per_s / full.tokens_per_s,
            "vs_vanilla": cut.tokens_per_s / plain,
            "eagle3_vs_vanilla": full.tokens_per_s / plain,
        }
    frame = pd.DataFrame(rows).T
    frame.loc[OVER_ALL] = np.exp(np.log(frame).mean())
    return frame


def gain(trees: Trees, cost: StepCost) -> float:
    """EVICT's speed over EAGLE-3's, geometric mean over the benchmarks."""
    return float(speedups(trees, cost)["vs_eagle3"][OVER_ALL])

"""From a published Mat to the drafter's mean confidence, for one tree shape and set of draws."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.interpolate import PchipInterpolator

from evict.errors import InputError
from harness.simulate.acceptance import Draws, Spread, grow_batch, propose
from harness.simulate.overlap import Floats

EASIEST, HARDEST, POINTS = 12.0, -6.0, 37


@dataclass(frozen=True, eq=False)
class MatCurve:
    """Mat of whole trees over difficulty, both rising; made once, inverted for every benchmark."""

    difficulty: Floats
    mat: Floats
    shape: str

    @staticmethod
    def make(draws: Draws, spread: Spread, levels: int, draft_tokens: int) -> MatCurve:
        """Simulate the whole range of difficulties on the given draws."""
        grid = np.linspace(HARDEST, EASIEST, POINTS)
        mats = [grow_batch(propose(draws, spread, d), levels, draft_tokens).mat() for d in grid]
        rising = np.maximum.accumulate(np.array(mats))
        distinct = np.concatenate([[True], np.diff(rising) > 0])
        topk = draws.nodes_SDW.shape[2]
        shape = f"N = {draft_tokens}, {levels} levels, topk = {topk}"
        return MatCurve(grid[distinct], rising[distinct], shape)

    def find(self, mat: float) -> float:
        """The difficulty at which whole trees commit `mat` tokens per step.

        InputError with the attainable range for a Mat that this tree cannot have.
        """
        low, high = float(self.mat[0]), float(self.mat[-1])
        if not low <= mat <= high:
            raise InputError(
                "mean accepted tokens that no difficulty reaches with this tree",
                seen=f"{mat:g} with {self.shape}",
                allowed=f"{low:.2f} to {high:.2f}",
                hint="a deeper tree for more, a smaller one for less",
            )
        return float(PchipInterpolator(self.mat, self.difficulty)(mat))

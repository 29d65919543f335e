"""What predictions beyond the paper stand on: its fit, and the fits that might be true instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from harness.report.published import FOLDER
from harness.simulate.acceptance import Draws
from harness.simulate.fit import PaperFit, fit_paper
from harness.simulate.holdout import Halves, model_error, predict_other_half, ratio_error
from harness.simulate.paper import TREE, Batches, paper_batches, paper_settings
from harness.simulate.readable import FitView
from harness.simulate.recorded import RecordedTrees, spread_of
from harness.simulate.uncertainty import INTERVAL, parameters
from harness.unpack import read_pack

RECORDINGS = FOLDER.parent / "reference" / "paper"
Answer = Callable[["World"], pd.Series]


@dataclass(frozen=True, eq=False)
class World:
    """One way things may be: a fit, and how far the device's bandwidth share is off."""

    fit: PaperFit
    more_bandwidth: float = 0.0


@dataclass(frozen=True, eq=False)
class Basis:
    """The likeliest world, pairs of worlds one deviation apart, and the model's own errors.

    own_errors: relative deviation by measure, as the lab hold-out shows it.
    """

    likeliest: World
    pairs: list[tuple[str, World, World]]
    own_errors: Mapping[str, float]

    @staticmethod
    @cache
    def of(steps: int, seed: int = 0, recordings: Path = RECORDINGS) -> Basis:
        """Fit on `steps` simulated steps per cell; half a minute for 500."""
        trees = RecordedTrees.read(recordings / "trees.parquet")
        fit, batches = fitted(FitView.published(), trees, steps, seed)
        pairs = list(_pairs(fit, batches, trees))
        lab = predict_other_half(Halves.of(read_pack(recordings)), steps, seed)
        speed = model_error(lab)["tokens_per_s"]
        own = {"vs_eagle3": ratio_error(lab), "vs_vanilla": speed, "eagle3_vs_vanilla": speed}
        return Basis(World(fit), pairs, own)

    def effects(self, answer: Answer) -> pd.DataFrame:
        """Half the difference of log answers of each pair: a row per parameter."""
        rows = {
            name: (np.log(answer(high)) - np.log(answer(low))) / 2 for name, low, high in self.pairs
        }
        return pd.DataFrame(rows).T


@cache
def likeliest(steps: int, seed: int = 0, recordings: Path = RECORDINGS) -> World:
    """The likeliest world alone; a few seconds."""
    trees = RecordedTrees.read(recordings / "trees.parquet")
    return World(fitted(FitView.published(), trees, steps, seed)[0])


def band(best: pd.Series, effects: pd.DataFrame, own: pd.Series) -> pd.DataFrame:
    """90 % band of positive answers, effects counted as independent: predicted, low, high.

    own: relative deviation of each answer whatever the parameters are.
    """
    width = np.exp(INTERVAL * np.sqrt((effects**2).sum() + own**2))
    return pd.DataFrame({"predicted": best, "low": best / width, "high": best * width})


def fitted(view: FitView, trees: RecordedTrees, steps: int, seed: int) -> tuple[PaperFit, Batches]:
    """The paper's setting fitted with the recorded trees' spread, and every cell's trees."""
    spread = spread_of(trees)
    draws = Draws.make(steps, TREE.steps, TREE.topk, spread.persistence, seed)
    fit = fit_paper(view, paper_settings(), spread, draws)
    return fit, paper_batches(fit)


def _pairs(
    fit: PaperFit, batches: Batches, trees: RecordedTrees
) -> Iterator[tuple[str, World, World]]:
    for one in parameters(fit, batches, trees):
        low, high = (_world(fit, one.moved(by)[0]) for by in (-1.0, 1.0))
        yield one.name, low, high


def _world(fit: PaperFit, moved: PaperFit) -> World:
    """The moved fit, with what it assumes of every device's bandwidth beside the likeliest's."""
    name = next(iter(fit.models))
    before, after = (one.models[name].setting.hardware.bandwidth_efficiency for one in (fit, moved))
    return World(moved, after - before)

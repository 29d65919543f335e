"""The spread of confidences, measured on recorded draft trees."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from evict.errors import InputError
from harness.simulate.acceptance import RANKS_COVERED, Spread
from harness.simulate.overlap import Floats

Ints = NDArray[np.int64]
CERTAIN = 1e-4
LARGEST_PERSISTENCE = 0.95
COLUMNS = ["run", "prompt_id", "turn", "repeat", "step", "scores", "parents"]


@dataclass(frozen=True, eq=False)
class RecordedTrees:
    """n trees of N nodes in score order, the root first; only the drafter's side of them.

    scores_nN: path probabilities. parents_nN: -1 for the root. group_n: trees of one benchmark
    and temperature. follows_n: whether a tree's predecessor in this list is the step before it.
    """

    scores_nN: Floats
    parents_nN: Ints
    group_n: Ints
    follows_n: NDArray[np.bool_]

    @staticmethod
    def read(file: Path) -> RecordedTrees:
        """Trees of a trees.parquet of one tree size; InputError where there is none."""
        if not file.is_file():
            raise InputError(
                "no recorded trees", seen=str(file), allowed="a trees.parquet", hint="record first"
            )
        return RecordedTrees.of(pd.read_parquet(file, columns=COLUMNS))

    @staticmethod
    def of(frame: pd.DataFrame) -> RecordedTrees:
        """Rows of a trees.parquet or of a Collection, consecutive steps of a request together."""
        request = frame[["run", "prompt_id", "turn", "repeat"]]
        same = (request == request.shift()).all(axis=1)
        return RecordedTrees(
            scores_nN=np.stack(frame["scores"].tolist()).astype(np.float64),
            parents_nN=np.stack(frame["parents"].tolist()).astype(np.int64),
            group_n=pd.factorize(frame["run"])[0].astype(np.int64),
            follows_n=(same & (frame["step"].diff() == 1)).to_numpy(),
        )

    def of_group(self, group: int) -> RecordedTrees:
        """The trees of one group."""
        rows = self.group_n == group
        return RecordedTrees(
            self.scores_nN[rows], self.parents_nN[rows], self.group_n[rows], self.follows_n[rows]
        )

    def best_children(self) -> tuple[Floats, Floats]:
        """Conditional probability of the root's best child, and of that node's best child, [n].

        The second is not a number where the tree has no such node.
        """
        first = self.scores_nN[:, 1]
        child = self.parents_nN == 1
        rows = np.arange(len(first))
        second = self.scores_nN[rows, child.argmax(axis=1)] / first
        return first, np.where(child.any(axis=1), second, np.nan)

    def root_children(self, topk: int = RANKS_COVERED) -> Floats:
        """Probabilities of the root's children, best first, where a tree holds all topk of them."""
        complete = (self.parents_nN == 0).sum(axis=1) == topk
        inside = self.parents_nN[complete] == 0
        return np.asarray(self.scores_nN[complete][inside].reshape(-1, topk))


def spread_of(trees: RecordedTrees) -> Spread:
    """Moments of the recorded confidences as a Spread.

    Total variance from the root's best child; the part between steps is what a step's root and
    its best child have in common; persistence is what consecutive steps keep of that part. The
    two deviations come out up to a sixth too small: a best child cannot fall below the second.
    """
    first, second = (_centred(_logit(p), trees.group_n) for p in trees.best_children())
    total = float(np.mean(first**2))
    both = ~np.isnan(second)
    between = max(float(np.mean(first[both] * second[both])), 0.0)
    after = trees.follows_n
    kept = float(np.mean(first[after] * first[np.flatnonzero(after) - 1])) if after.any() else 0.0
    persistence = min(max(kept / between, 0.0), LARGEST_PERSISTENCE) if between else 0.0
    children = trees.root_children()
    rest = (children[:, 1:] / (1.0 - children[:, :1])).mean(axis=0)
    return Spread(
        between=between**0.5,
        within=max(total - between, 0.0) ** 0.5,
        persistence=persistence,
        tail=_power(rest),
        cover=float(rest.sum()),
    )


def _power(shares: Floats) -> float:
    ranks = np.arange(1, len(shares) + 1)

    def misfit(tail: float) -> float:
        law = ranks**-tail
        return float(np.square(law / law.sum() - shares / shares.sum()).sum())

    return float(minimize_scalar(misfit, bounds=(0.0, 5.0), method="bounded").x)


def _logit(p: Floats) -> Floats:
    clipped = np.clip(p, CERTAIN, 1.0 - CERTAIN)
    return np.asarray(np.log(clipped / (1.0 - clipped)))


def _centred(x: Floats, group_n: Ints) -> Floats:
    means = pd.Series(x).groupby(group_n).transform("mean").to_numpy()
    return np.asarray(x - means)

"""Spread from recorded trees: what was drawn comes back, and the committed recordings give one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from evict.errors import InputError
from evict.growth import FixedDepth
from harness.report.published import FOLDER
from harness.simulate.acceptance import Draws, Spread, propose
from harness.simulate.recorded import RecordedTrees, spread_of
from harness.simulate.trees import simulate_step

TRUE = Spread(between=1.2, within=1.0, persistence=0.6, tail=0.9, cover=0.6)
REFERENCE = FOLDER.parent / "reference" / "paper" / "trees.parquet"


def recorded(spread: Spread, difficulty: tuple[float, ...], count: int) -> RecordedTrees:
    """Real trees of a known drafter, one group per difficulty, as a run would record them."""
    scores, parents, groups = [], [], []
    for group, mean in enumerate(difficulty):
        draws = Draws.make(count, 4, 8, spread.persistence, seed=group)
        proposals = propose(draws, spread, mean)
        for number in range(count):
            tree = simulate_step(proposals, number, FixedDepth(4, 8), 32).tree
            scores.append(tree.scores_N.double().numpy())
            parents.append(tree.parents_N.numpy())
            groups.append(group)
    follows = np.r_[False, np.diff(groups) == 0]
    return RecordedTrees(np.stack(scores), np.stack(parents), np.array(groups), follows)


@pytest.fixture(scope="module")
def known() -> RecordedTrees:
    return recorded(TRUE, (0.0, 2.0), count=900)


def test_a_known_spread_comes_back_from_its_own_trees(known: RecordedTrees) -> None:
    """Up to a sixth too narrow: a best child never falls below the second, which cuts a tail."""
    found = spread_of(known)
    assert 0.83 * TRUE.between < found.between < 1.05 * TRUE.between
    assert 0.83 * TRUE.within < found.within < 1.05 * TRUE.within
    assert found.persistence == pytest.approx(TRUE.persistence, abs=0.12)
    assert found.tail == pytest.approx(TRUE.tail, abs=0.1)
    assert found.cover == pytest.approx(TRUE.cover, abs=0.05)


def test_benchmarks_of_different_difficulty_do_not_count_as_spread(known: RecordedTrees) -> None:
    mixed, alone = spread_of(known), spread_of(known.of_group(1))
    merged = replace(known, group_n=np.zeros_like(known.group_n))
    assert mixed.between == pytest.approx(alone.between, rel=0.15)
    assert spread_of(merged).between > 1.2 * mixed.between


def test_the_lab_models_recordings_give_a_usable_spread() -> None:
    trees = RecordedTrees.read(REFERENCE)
    assert len(trees.scores_nN) > 3000
    assert trees.follows_n.mean() > 0.9
    found = spread_of(trees)
    assert found.within > found.between > 0
    assert 0.4 < found.cover < 0.8


def test_recordings_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trees\.parquet"):
        RecordedTrees.read(tmp_path / "trees.parquet")

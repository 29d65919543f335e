"""The simulated drafter: calibrated, persistent, honest about its range."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.simulate.acceptance import Draws, Spread, child_shares, grow_batch, propose
from harness.simulate.difficulty import MatCurve


def test_a_nodes_score_is_the_rate_at_which_the_target_accepts_it(
    draws: Draws, spread: Spread
) -> None:
    """The paper's calibration claim, over nodes of one band of scores."""
    many = Draws.make(6000, 4, 8, spread.persistence, seed=11)
    batch = grow_batch(propose(many, spread, 1.0), 4, 32)
    scores, kept = batch.scores_SN[:, 1:], batch.on_path_SN[:, 1:]
    for low, high in [(0.01, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)]:
        band = (scores >= low) & (scores < high)
        rate = float(kept[band].double().mean())
        error = 4 * np.sqrt(rate * (1 - rate) / int(band.sum())) + 1e-3
        assert rate == pytest.approx(float(scores[band].mean()), abs=error)
    assert batch.mat() == pytest.approx(float(batch.expected_SN()[:, -1].mean()), rel=0.02)


def test_probabilities_of_a_nodes_children_are_a_distribution(draws: Draws, spread: Spread) -> None:
    probs = propose(draws, replace(spread, sharpness=1.3), -1.0).target_SDWt
    assert (probs > 0).all()
    assert (probs.sum(-1) <= 1 + 1e-12).all()
    assert (probs.diff(dim=-1) <= 0).all()


def test_a_target_surer_than_its_drafter_accepts_more_than_the_scores_say(spread: Spread) -> None:
    many = Draws.make(4000, 4, 8, spread.persistence, seed=12)
    plain, sharp = (
        grow_batch(propose(many, replace(spread, sharpness=s), 0.5), 4, 32) for s in (1.0, 1.4)
    )
    assert torch.equal(plain.scores_SN, sharp.scores_SN)
    assert sharp.mat() > 1.05 * float(sharp.expected_SN()[:, -1].mean())


@pytest.mark.parametrize("topk", [1, 2, 8, 64])
def test_ranks_share_the_rest_by_one_law_whatever_topk_is(topk: int) -> None:
    spread = Spread(0, 0, 0, tail=0.9, cover=0.62)
    shares = child_shares(topk, spread)
    assert len(shares) == topk - 1
    assert shares.sum() <= 1 + 1e-12
    if topk == 8:
        assert float(shares.sum()) == pytest.approx(0.62)
        assert float(shares[0] / shares[1]) == pytest.approx(2**0.9)
    if topk == 2:
        assert float(shares[0]) == pytest.approx(float(child_shares(8, spread)[0]))


def test_hard_steps_come_in_runs() -> None:
    lagged = []
    for persistence in (0.0, 0.8):
        steps = Draws.make(20_000, 1, 1, persistence, seed=0).steps_S.numpy()
        assert steps.std() == pytest.approx(1.0, abs=0.05)
        lagged.append(np.corrcoef(steps[1:], steps[:-1])[0, 1])
    assert lagged == pytest.approx([0.0, 0.8], abs=0.03)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    one, same, other = (Draws.make(50, 2, 4, 0.3, seed) for seed in (5, 5, 6))
    assert torch.equal(one.nodes_SDW, same.nodes_SDW)
    assert torch.equal(one.targets_SDW, same.targets_SDW)
    assert not torch.equal(one.targets_SDW, other.targets_SDW)


@settings(max_examples=15, deadline=None)
@given(st.floats(2.1, 4.9))
def test_a_mat_is_reached_by_the_difficulty_found_for_it(mat: float) -> None:
    draws, spread = SMALL
    found = CURVE.find(mat)
    assert grow_batch(propose(draws, spread, found), 4, 32).mat() == pytest.approx(mat, rel=0.012)


SMALL = (Draws.make(1500, 4, 8, 0.3, seed=2), Spread(0.5, 2.0, 0.3, 0.9, 0.62))
CURVE = MatCurve.make(*SMALL, levels=4, draft_tokens=32)


@pytest.mark.parametrize("mat", [1.0, 5.2])
def test_an_unreachable_mat_comes_with_the_range_of_this_tree(mat: float) -> None:
    with pytest.raises(InputError) as raised:
        CURVE.find(mat)
    low, high = map(float, str(raised.value.allowed).split(" to "))
    assert 1.5 < low < 2.2
    assert high == pytest.approx(5.0, abs=0.01)
    assert "N = 32, 4 levels, topk = 8" in str(raised.value)


def test_a_shallower_tree_cannot_reach_as_far() -> None:
    draws, spread = SMALL
    shallow = MatCurve.make(draws, spread, levels=2, draft_tokens=32)
    assert shallow.mat[-1] == pytest.approx(3.0, abs=0.01)
    with pytest.raises(InputError, match="2 levels"):
        shallow.find(3.5)


@pytest.mark.parametrize(
    "wrong",
    [{"between": -1.0}, {"persistence": 1.0}, {"cover": 1.2}, {"tail": -0.1}, {"sharpness": 0.0}],
)
def test_a_spread_that_cannot_be_is_refused(wrong: dict) -> None:
    given = {"between": 1.0, "within": 1.0, "persistence": 0.0, "tail": 1.0, "cover": 0.5}
    with pytest.raises(InputError, match=next(iter(wrong))):
        Spread(**{**given, **wrong})

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.reliability import (
    brier_score,
    expected_calibration_error,
    reliability_bins,
    wilson,
)

nodes = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


def test_bins_hold_the_mean_score_and_the_rate_of_their_nodes() -> None:
    low, high = reliability_bins([0.02, 0.06, 0.95, 1.0, 0.9], [False, True, True, True, False])
    assert (low.low, low.high, low.count) == (0.0, 0.1, 2)
    assert (low.mean_score, low.rate) == (pytest.approx(0.04), 0.5)
    assert (high.low, high.high, high.count) == (0.9, 1.0, 3)
    assert (high.mean_score, high.rate) == (pytest.approx(0.95), pytest.approx(2 / 3))
    assert high.interval == wilson(2, 3)


def test_an_edge_belongs_to_the_bin_above_it() -> None:
    found = reliability_bins([0.25, 0.5, 0.75, 1.0], [True] * 4, bins=4)
    assert [(b.low, b.count) for b in found] == [(0.25, 1), (0.5, 1), (0.75, 2)]


def test_ece_and_brier_by_hand() -> None:
    scores, accepted = [0.2, 0.2, 0.8, 0.8], [False, True, True, True]
    assert expected_calibration_error(scores, accepted) == pytest.approx(0.5 * 0.3 + 0.5 * 0.2)
    assert brier_score(scores, accepted) == pytest.approx((0.04 + 0.64 + 0.04 + 0.04) / 4)
    assert expected_calibration_error([0.7] * 10, [True] * 7 + [False] * 3) == pytest.approx(0.0)
    assert expected_calibration_error([], []) == 0.0
    assert math.isnan(brier_score([], []))


@given(nodes, st.integers(1, 12))
@settings(deadline=None)
def test_no_node_is_lost_and_errors_stay_in_range(
    pairs: list[tuple[float, bool]], bins: int
) -> None:
    scores, accepted = [score for score, _ in pairs], [hit for _, hit in pairs]
    found = reliability_bins(scores, accepted, bins)
    assert sum(b.count for b in found) == len(pairs)
    assert sum(b.rate * b.count for b in found) == pytest.approx(sum(accepted))
    assert sum(b.mean_score * b.count for b in found) == pytest.approx(sum(scores))
    for b in found:
        assert b.low - 1e-9 <= b.mean_score <= b.high + 1e-9
        assert b.interval[0] - 1e-9 <= b.rate <= b.interval[1] + 1e-9
    ece = expected_calibration_error(scores, accepted, bins)
    assert 0 <= ece <= 1
    assert abs(sum(scores) - sum(accepted)) / len(pairs) <= ece + 1e-9


def test_wilson_bounds_are_the_published_ones() -> None:
    """10 of 20: 0.299..0.701; no hit in 10: 0..0.278; and never outside 0..1."""
    assert wilson(10, 20) == (pytest.approx(0.2993, abs=5e-5), pytest.approx(0.7007, abs=5e-5))
    assert wilson(0, 10) == (0.0, pytest.approx(0.2775, abs=5e-5))
    assert wilson(10, 10) == (pytest.approx(0.7225, abs=5e-5), 1.0)
    assert wilson(700, 1000)[1] - wilson(700, 1000)[0] < 0.06


@pytest.mark.parametrize(
    ("scores", "accepted", "bins", "match"),
    [
        ([0.5], [], 10, "one verdict per score"),
        ([1.2], [True], 10, r"no probability; seen: 1\.2"),
        ([-0.2], [True], 10, "no probability"),
        ([float("nan")], [True], 10, "no probability"),
        ([0.5], [True], 0, "bins"),
    ],
)
def test_what_is_no_score_is_refused(
    scores: list[float], accepted: list[bool], bins: int, match: str
) -> None:
    with pytest.raises(InputError, match=match):
        reliability_bins(scores, accepted, bins)

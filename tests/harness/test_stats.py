from __future__ import annotations

import numpy as np
import pytest

from harness.stats import Pair, mean_interval, percentile, speedup


def pairs(method_ms: list[float], baseline_ms: list[float], tokens: list[int]) -> list[Pair]:
    rows = zip(method_ms, baseline_ms, tokens, strict=True)
    return [Pair(f"p{i}", m, n, b, n) for i, (m, b, n) in enumerate(rows)]


def test_case_13_geometric_mean_and_total_time_are_two_numbers() -> None:
    found = speedup(pairs([1000, 20000], [2000, 22000], [100, 1000]))
    assert found.ratio == pytest.approx(1.483, abs=5e-4)
    assert found.time_ratio == pytest.approx(1.143, abs=5e-4)


def test_case_13_different_token_counts_compare_time_per_token() -> None:
    found = speedup([Pair("p", 100.0, 10, 400.0, 20)])
    assert found.ratio == pytest.approx(2.0)
    assert (found.low, found.high) == (None, None)
    assert not found.shown


def test_case_13_a_missing_partner_is_counted() -> None:
    found = speedup([*pairs([1, 1], [2, 2], [5, 5]), Pair("p9", 1.0, 0, 1.0, 5)], missing=2)
    assert (found.clusters, found.excluded) == (2, 3)


def test_no_pairs_give_no_number() -> None:
    found = speedup([], missing=4)
    assert (found.ratio, found.low, found.excluded) == (None, None, 4)


def test_identical_arms_are_exactly_one() -> None:
    times = [3.0, 7.0, 11.0]
    found = speedup(pairs(times, times, [3, 3, 3]))
    assert (found.ratio, found.low, found.high, found.time_ratio) == (1.0, 1.0, 1.0, 1.0)
    assert not found.shown


def test_turns_of_a_prompt_are_one_cluster() -> None:
    turns = [Pair("p", 1.0, 1, 2.0, 1), Pair("p", 1.0, 1, 8.0, 1), Pair("q", 1.0, 1, 4.0, 1)]
    found = speedup(turns)
    assert found.clusters == 2
    assert found.ratio == pytest.approx(4.0)


def test_case_45_pairing_makes_the_interval_narrow() -> None:
    rng = np.random.default_rng(0)
    baseline = np.exp(rng.normal(0, 0.6, 80))
    method = baseline / (1.10 * np.exp(rng.normal(0, 0.05, 80)))
    found = speedup(pairs(list(method), list(baseline), [1] * 80))
    assert found.low is not None
    assert found.high is not None
    assert found.shown
    assert 1.07 < found.low < found.ratio < found.high < 1.13  # type: ignore[operator]
    assert found.high - found.low < 0.04


def test_case_45_three_runs_use_student_t() -> None:
    mean, half = mean_interval([100.0, 104.0, 96.0]) or (0.0, 0.0)
    assert (mean, half) == (100.0, pytest.approx(9.94, abs=5e-3))
    assert mean_interval([100.0]) is None


def test_case_45_a_percentile_needs_enough_points() -> None:
    assert percentile([1, 2, 3, 4, 100], 99) is None
    assert percentile(list(range(100)), 99) is not None
    assert percentile([1, 2, 3], 50) == 2.0


def test_case_45_equal_arms_are_covered_by_the_interval() -> None:
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(40):
        noise = np.exp(rng.normal(0, 0.05, 40))
        found = speedup(pairs(list(noise), [1.0] * 40, [1] * 40))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert covered >= 35

"""Case 45: intervals that mean what they say, and none where there are too few points."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import bootstrap

from harness import compare
from harness.stats import Pair, mean_interval, percentile, speedup
from tests.support.bench import Bench

SIMULATIONS = 400
RECORDED = Path(__file__).resolve().parents[2] / "results/reference/paper/requests.parquet"
AA_SIMULATIONS = 200
LEAST = 0.93
Turns = list[list[tuple[float, int]]]


def pairs(method_ms: np.ndarray, baseline_ms: np.ndarray) -> list[Pair]:
    rows = zip(method_ms, baseline_ms, strict=True)
    return [Pair(f"p{i}", float(m), 1, float(b), 1) for i, (m, b) in enumerate(rows)]


def eighty_prompts() -> tuple[np.ndarray, np.ndarray]:
    """Log-normal baselines, sigma 0.6, and a method faster by 1.10 with 5 % of noise."""
    rng = np.random.default_rng(0)
    baseline = np.exp(rng.normal(0, 0.6, 80))
    return baseline / (1.10 * np.exp(rng.normal(0, 0.05, 80))), baseline


def unpaired(method: np.ndarray, baseline: np.ndarray) -> tuple[float, float]:
    """What forgetting the pairs gives: both arms resampled apart."""
    rng = np.random.default_rng(0)
    n = len(method)
    draws = [np.log(arm)[rng.integers(0, n, (5000, n))].mean(axis=1) for arm in (baseline, method)]
    low, high = np.exp(np.percentile(draws[0] - draws[1], [2.5, 97.5]))
    return float(low), float(high)


def test_case_45_three_runs_use_student_t() -> None:
    """Careless: 1.96 standard errors, a half-width of 4.53."""
    mean, half = mean_interval([100.0, 104.0, 96.0]) or (0.0, 0.0)
    assert (mean, half) == (100.0, pytest.approx(9.94, abs=5e-3))
    assert mean_interval([100.0]) is None


def test_case_45_a_percentile_of_five_points_is_no_number() -> None:
    """Careless: p99 = 96.2, interpolated between the two largest of five values."""
    values = [1.0, 2.0, 3.0, 4.0, 100.0]
    assert np.percentile(values, 99) == pytest.approx(96.2, abs=0.05)
    assert percentile(values, 99) is None
    assert percentile([*range(99)], 99) is None
    assert percentile([*range(100)], 99) == pytest.approx(98.01)
    assert percentile(values, 50) == 3.0


def test_case_45_the_paired_interval_is_the_one_used() -> None:
    """Careless: unpaired arms, whose interval [0.914, 1.313] hides a real 1.10."""
    method, baseline = eighty_prompts()
    found = speedup(pairs(method, baseline))
    assert (found.low, found.high) == (
        pytest.approx(1.084, abs=2e-3),
        pytest.approx(1.107, abs=2e-3),
    )
    assert found.shown
    low, high = unpaired(method, baseline)
    assert (low, high) == (pytest.approx(0.914, abs=0.03), pytest.approx(1.313, abs=0.03))
    assert low < 1.0 < high


def test_case_45_identical_arms_are_covered() -> None:
    """Careless: a percentile interval of few points, or both turns counted as two clusters."""
    rng = np.random.default_rng(45)
    covered = 0
    for _ in range(SIMULATIONS):
        prompts = rng.normal(0, 0.6, 80)
        once, again = (np.exp(prompts + rng.normal(0, 0.05, 80)) for _ in range(2))
        found = speedup(pairs(once, again))
        assert found.low is not None
        assert found.high is not None
        covered += found.low <= 1.0 <= found.high
    assert covered >= 0.93 * SIMULATIONS


@pytest.fixture(scope="module")
def repeated() -> list[list[Turns]]:
    """Plain decoding as recorded: by temperature and prompt, (ms, tokens) by turn and repeat."""
    rows = pd.read_parquet(RECORDED)
    plain = rows[rows["run"].str.startswith("paper/lab-vanilla-")].sort_values(["turn", "repeat"])
    found = []
    for _, same in plain.groupby("temperature"):
        times = same.assign(time=list(zip(same["decode_ms"], same["decode_tokens"], strict=True)))
        turns = times.groupby(["prompt_id", "turn"])["time"].agg(list)
        found.append([list(own) for _, own in turns.groupby("prompt_id")])
    return found


def equal_arms(rng: np.random.Generator, prompts: list[Turns], count: int) -> list[Pair]:
    """Two repeats of each of `count` drawn prompts; which one is called the method is drawn."""
    found = []
    for place, prompt in enumerate(rng.integers(len(prompts), size=count)):
        once, again = rng.permutation(3)[:2]
        found += [Pair(f"{place}", *turn[once], *turn[again]) for turn in prompts[prompt]]
    return found


def held_by_bca_alone(found: list[Pair]) -> bool:
    """Whether resampling the prompts' mean logs holds 1."""
    logs: dict[str, list[float]] = {}
    for one in found:
        method, baseline = one.method_ms / one.method_tokens, one.baseline_ms / one.baseline_tokens
        logs.setdefault(one.cluster, []).append(np.log(baseline / method))
    means = [np.mean(own) for own in logs.values()]
    ends = bootstrap((means,), np.mean, n_resamples=1000, rng=0).confidence_interval
    return bool(ends.low <= 0.0 <= ends.high)


@pytest.mark.parametrize("prompts", [60, 16, 10])
def test_case_45_arms_of_one_method_as_recorded_are_covered(
    repeated: list[list[Turns]], prompts: int
) -> None:
    """Careless: resampling alone, which sees nothing beyond the few prompts that there are.

    The true ratio is 1, since both arms are repeats of recorded plain decoding and their names are
    drawn. The unit of resampling is the prompt, with all of its turns.
    """
    rng = np.random.default_rng(prompts)
    arms = [equal_arms(rng, repeated[i % 2], prompts) for i in range(AA_SIMULATIONS)]
    found = [speedup(one) for one in arms]
    held = sum(not one.shown for one in found)
    alone = sum(map(held_by_bca_alone, arms))
    print(f"\n{prompts} prompts: 1.0 held in {held} of {AA_SIMULATIONS}, by BCa alone in {alone}")
    assert all(one.clusters == prompts and one.low is not None for one in found)
    assert held >= LEAST * AA_SIMULATIONS
    assert alone < held


logarithms = st.lists(st.floats(-2.0, 2.0), min_size=2, max_size=12)


@settings(max_examples=60)
@given(logarithms)
def test_case_45_no_interval_is_narrower_than_student_t(logs: list[float]) -> None:
    """Careless: two prompts resampled, whose interval ends at the two prompts."""
    ones = np.ones(len(logs))
    found = speedup(pairs(np.exp(-np.array(logs)), ones))
    mean, half = mean_interval(logs) or (0.0, 0.0)
    assert found.low is not None
    assert found.high is not None
    assert np.log(found.low) <= mean - half + 1e-9
    assert np.log(found.high) >= mean + half - 1e-9


def test_case_45_the_long_side_of_a_skewed_sample_is_longer() -> None:
    """Careless: Student's t alone, as far below the mean as above."""
    logs = np.array([0.0, 0.01, 0.0, 0.02, 0.01, 0.0, 0.01, 0.9, 0.02, 0.0, 0.01, 0.0])
    found = speedup(pairs(np.exp(-logs), np.ones(12)))
    assert found.ratio is not None
    assert found.low is not None
    assert found.high is not None
    assert found.high / found.ratio > 1.1 * found.ratio / found.low


def test_case_45_one_in_the_interval_prints_no_difference_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str], compared: Callable[[], dict[str, Any]]
) -> None:
    """Careless: "1.00x" printed as a speedup."""
    bench.run("method=evict", "compare=[eagle3]")
    assert compared()["evict"]["vs_full"] == 1.0
    assert compare.main([str(bench.results)]) == 0
    (line,) = [line for line in capsys.readouterr().out.splitlines() if "EVICT" in line]
    assert "no difference shown [1.00, 1.00]" in line
    assert "1.00x" not in line

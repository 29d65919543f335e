"""The best total rate in hindsight bounds every policy; the best ratio of each step does not."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.oracle import best_rate

Recorded = tuple[np.ndarray, np.ndarray]


@st.composite
def recordings(draw: st.DrawFn) -> Recorded:
    """Few steps and lengths; trees of any size; whole tokens, as a real step commits them."""
    steps, lengths = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    cost = draw(st.lists(st.floats(0.25, 20.0), min_size=lengths, max_size=lengths))
    committed = np.full((steps, lengths), np.nan)
    for row in committed:
        size = draw(st.integers(1, lengths))
        row[:size] = draw(st.lists(st.integers(0, 5), min_size=size, max_size=size))
    return committed, np.array(cost)


def rate_of(recorded: Recorded, k_S: tuple[int, ...] | np.ndarray) -> float:
    committed, cost = recorded
    tokens = sum(committed[step, k - 1] for step, k in enumerate(k_S))
    return float(tokens / sum(cost[k - 1] for k in k_S))


def best_by_trying(recorded: Recorded) -> float:
    sizes = (~np.isnan(recorded[0])).sum(axis=1)
    choices = itertools.product(*(range(1, size + 1) for size in sizes))
    return max(rate_of(recorded, choice) for choice in choices)


def best_ratio_of_each_step(recorded: Recorded) -> np.ndarray:
    committed, cost = recorded
    return np.nanargmax(committed / cost, axis=1) + 1


@given(recordings())
@settings(max_examples=300, deadline=None)
def test_best_rate_is_the_best_of_all_choices(recorded: Recorded) -> None:
    rate, k_S = best_rate(*recorded)
    assert rate == pytest.approx(best_by_trying(recorded), rel=1e-12)
    assert rate == pytest.approx(rate_of(recorded, k_S), rel=1e-12)
    assert k_S.dtype == np.int64


@given(recordings())
@settings(max_examples=200, deadline=None)
def test_the_best_ratio_of_each_step_earns_no_more(recorded: Recorded) -> None:
    assert rate_of(recorded, best_ratio_of_each_step(recorded)) <= best_rate(*recorded)[0] + 1e-12


def test_the_best_ratio_of_each_step_can_earn_less() -> None:
    """A poor step lowers the going rate to 2, where 2.5 more tokens are worth one more ms."""
    recorded = np.array([[3.0, 5.5], [1.0, 1.0]]), np.array([1.0, 2.0])
    step_by_step = best_ratio_of_each_step(recorded)
    assert step_by_step.tolist() == [1, 1]
    assert rate_of(recorded, step_by_step) == 2.0
    rate, k_S = best_rate(*recorded)
    assert k_S.tolist() == [2, 1]
    assert rate == pytest.approx(6.5 / 3)


def test_every_fixed_length_and_random_policy_stays_below_the_bound() -> None:
    generator = np.random.default_rng(3)
    chances = np.sort(generator.random((200, 31)), axis=1)[:, ::-1]
    committed = np.cumsum(np.c_[np.ones(200), chances], axis=1)
    cost = 1.0 + 0.2 * np.arange(32) ** 0.8
    rate, k_S = best_rate(committed, cost)
    assert 1 <= k_S.min() <= k_S.max() <= 32
    fixed = [np.full(200, k) for k in range(1, 33)]
    drawn = [generator.integers(1, 33, 200) for _ in range(100)]
    assert all(rate_of((committed, cost), policy) < rate for policy in fixed + drawn)


def test_nothing_committed_is_a_rate_of_zero() -> None:
    rate, k_S = best_rate([[0.0, np.nan]], [2.0, 3.0])
    assert rate == 0.0
    assert k_S.tolist() == [1]


@pytest.mark.parametrize(
    ("committed", "cost", "message"),
    [
        ([[1.0, 2.0]], [1.0], r"seen: \(1, 2\) and \(1,\); allowed: \[S, N\] and \[N\]"),
        ([1.0, 2.0], [1.0, 2.0], r"seen: \(2,\) and \(2,\)"),
        ([[]], [], r"S, N >= 1"),
        ([[1.0, 2.0]], [1.0, 0.0], r"cost at k=2; seen: 0\.0; allowed: a finite number > 0"),
        ([[1.0, 2.0]], [np.nan, 1.0], r"cost at k=1; seen: nan"),
        ([[1.0, 2.0], [np.nan, 1.0]], [1.0, 2.0], r"step 1 at k=1; seen: nan"),
        ([[1.0, -2.0]], [1.0, 2.0], r"step 0 at k=2; seen: -2\.0; allowed: .*>= 0"),
        ([[1.0, np.inf]], [1.0, 2.0], r"step 0 at k=2; seen: inf"),
    ],
)
def test_unusable_recordings_are_refused(committed: object, cost: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        best_rate(committed, cost)  # type: ignore[arg-type]

"""Drift of speed over a part: found when it is there, and not when it is not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.validity.drift import drifts

HOUR_MS = 3.6e6
SIMULATIONS = 200
Speed = Callable[[np.ndarray], np.ndarray]


def measured(
    rng: np.random.Generator,
    speed: Speed = np.zeros_like,
    prompts: int = 10,
    methods: int = 4,
    repeats: int = 3,
    noise: float = 0.02,
    part: str = "a",
    hours: float = 0.5,
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Runs and requests of interleaved methods, ABBA from prompt to prompt, in order of time.

    Methods and prompts differ several times over, and each pair of them once more. speed: log of
    the time per token that is added, over time from 0 to 1.
    """
    places = [
        (repeat, prompt, method)
        for repeat in range(repeats)
        for prompt in range(prompts)
        for method in _turns(methods, prompt + repeat)
    ]
    time = np.arange(len(places)) / len(places)
    costs = rng.normal(0, 0.5, (prompts, methods)) + rng.normal(0, 0.5, methods)
    logs = np.array([costs[prompt, method] for _, prompt, method in places])
    logs = logs + speed(time) + rng.normal(0, noise, len(places))
    requests = pd.DataFrame(places, columns=["repeat", "prompt_id", "method"])
    requests = requests.assign(
        run=[f"run-{part}-{method}" for _, _, method in places],
        turn=0,
        part=part,
        started_ms=5.0 + time * hours * HOUR_MS,
        ended_ms=5.0 + (time + 1 / len(places)) * hours * HOUR_MS,
        decode_tokens=20,
        decode_ms=20 * np.exp(logs),
        finish_reason="length",
        error_class=None,
    )
    return runs_of(requests), requests.drop(columns=["method"])


def _turns(methods: int, position: int) -> list[int]:
    return list(range(methods))[:: 1 if position % 2 == 0 else -1]


def runs_of(requests: pd.DataFrame, **given: Any) -> pd.DataFrame:
    return pd.DataFrame({"run": requests["run"].unique(), "recorded": False, **given})


def slower(percent: float) -> Speed:
    return lambda time: np.log1p(percent / 100) * time


def test_five_percent_over_a_run_are_found() -> None:
    found = [drifts(*measured(np.random.default_rng(seed), slower(5.0))) for seed in range(40)]
    shown = [one.shown for (one,) in found]
    assert sum(shown) >= 0.93 * len(shown)
    assert np.mean([one.over_run for (one,) in found]) == pytest.approx(5.0, abs=0.5)
    covered = [one.low <= 5.0 <= one.high for (one,) in found]
    assert sum(covered) >= 0.9 * len(covered)


def test_a_machine_that_speeds_up_has_the_other_sign() -> None:
    (one,) = drifts(*measured(np.random.default_rng(0), slower(-8.0), noise=0.01, hours=0.25))
    assert one.shown
    assert one.high < 0.0
    assert one.per_hour == pytest.approx(4 * one.over_run, rel=0.01)
    assert one.low <= -8.0 <= one.high


def test_shuffled_data_show_no_drift() -> None:
    """Times drawn anew among the repeats of each prompt and method: nothing depends on time."""
    rng = np.random.default_rng(7)
    runs, requests = measured(rng, slower(5.0))
    cells = requests.groupby(["run", "prompt_id"]).ngroup().to_numpy()
    times, places = requests["decode_ms"].to_numpy(), np.argsort(cells, kind="stable")
    quiet = 0
    for _ in range(SIMULATIONS):
        moved = np.empty_like(times)
        moved[places] = times[np.lexsort((rng.random(len(times)), cells))]
        (one,) = drifts(runs, requests.assign(decode_ms=moved))
        quiet += not one.shown
    print(f"\nno drift shown in {quiet} of {SIMULATIONS} shuffles")
    assert quiet >= 0.93 * SIMULATIONS


def test_noise_that_lasts_for_minutes_is_no_drift() -> None:
    """Careless: 360 independent points, where a busy minute is one event."""
    rng = np.random.default_rng(0)
    runs, requests = measured(rng, noise=0.01)
    minutes = np.arange(len(requests)) * 36 // len(requests)
    quiet = 0
    for _ in range(SIMULATIONS // 2):
        busy = np.exp(rng.normal(0, 0.03, 36))[minutes]
        (one,) = drifts(runs, requests.assign(decode_ms=requests["decode_ms"] * busy))
        quiet += not one.shown
    print(f"\nno drift shown in {quiet} of {SIMULATIONS // 2} runs with busy minutes")
    assert quiet >= 0.93 * (SIMULATIONS // 2)


def test_prompts_that_grow_harder_are_no_drift() -> None:
    """Each repeat visits the prompts in one order, the last ones twenty times as slow."""
    rng = np.random.default_rng(3)
    runs, requests = measured(rng)
    requests["decode_ms"] *= np.exp(0.3 * requests["prompt_id"])
    (one,) = drifts(runs, requests)
    assert not one.shown
    assert abs(one.over_run) < 3.0


def test_one_repeat_cannot_tell_a_slow_prompt_from_a_slow_minute() -> None:
    rng = np.random.default_rng(0)
    assert drifts(*measured(rng, slower(50.0), repeats=1)) == ()
    assert drifts(*measured(rng, slower(50.0), repeats=2)) != ()


def test_parts_have_clocks_of_their_own() -> None:
    rng = np.random.default_rng(0)
    first = measured(rng, slower(10.0), part="a", repeats=4)
    second = measured(rng, part="b")
    runs, requests = (pd.concat(frames) for frames in zip(first, second, strict=True))
    large, small = drifts(runs, requests.sample(frac=1.0, random_state=1))
    assert (large.part, small.part) == ("a", "b")
    assert (large.generations, small.generations) == (160, 120)
    assert large.shown
    assert not small.shown


def test_a_small_change_is_not_shown_however_sure_it_is() -> None:
    (one,) = drifts(*measured(np.random.default_rng(0), slower(0.5), noise=1e-4))
    assert one.low > 0.0
    assert not one.shown


@pytest.mark.parametrize(
    "change",
    [
        lambda runs, rows: (runs, rows.drop(columns=["started_ms"])),
        lambda runs, rows: (runs, rows.assign(started_ms=None)),
        lambda runs, rows: (runs, rows.assign(error_class="RuntimeError", decode_ms=None)),
        lambda runs, rows: (runs, rows.assign(finish_reason="replayed")),
        lambda runs, rows: (runs.assign(recorded=True), rows),
        lambda runs, rows: (runs, rows[:8]),
        lambda runs, rows: (runs, rows[:0]),
        lambda runs, rows: (runs[:0], rows),
        lambda runs, rows: (pd.DataFrame(), pd.DataFrame()),
    ],
)
def test_nothing_is_said_where_nothing_was_measured(
    change: Callable[[pd.DataFrame, pd.DataFrame], tuple[pd.DataFrame, pd.DataFrame]],
) -> None:
    assert drifts(*change(*measured(np.random.default_rng(0), slower(50.0)))) == ()


def test_failed_generations_are_left_out() -> None:
    runs, requests = measured(np.random.default_rng(0), slower(5.0), repeats=4)
    requests["error_class"] = requests["error_class"].astype(object)
    lost = requests["repeat"] == 3
    requests.loc[lost, "error_class"] = "EngineLost"
    requests.loc[lost, ["started_ms", "ended_ms", "decode_ms", "decode_tokens"]] = None
    (one,) = drifts(runs, requests)
    assert one.generations == 120
    assert one.over_run == pytest.approx(np.expm1(0.75 * np.log(1.05)) * 100, abs=1.5)

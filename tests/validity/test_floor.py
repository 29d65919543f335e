"""Plain decoding against its replica: what equal arms show, and which pairs may say so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from harness.collection import Collection
from harness.validity.floor import floor
from tests.support.tiny import EVICT, PLAIN, Tiny, step

AGAIN: dict[str, Any] = {**PLAIN, "method": "vanilla_aa", "baseline": None, "replica": 1}


def decoded(prompts: int, ms: float, noise: float = 0.0, seed: int = 0) -> list[list[Any]]:
    """Two plain steps per prompt of `ms` each, with log-normal noise from prompt to prompt."""
    draws = np.random.default_rng(seed).normal(0.0, noise, prompts)
    return [[step(1, 1, ms * float(np.exp(draw)))] * 2 for draw in draws]


def block(ms: float = 10.0, noise: float = 0.02, prompts: int = 12, **given: Any) -> Collection:
    """A baseline of 10 ms a token, EVICT at 5, and a replica at `ms`; both noisy apart."""
    tiny = Tiny().add(PLAIN, decoded(prompts, 10.0, noise, 1)).add(EVICT, decoded(prompts, 5.0))
    return tiny.add(AGAIN, decoded(prompts, ms, noise, 2), **given).collection()


def changed(data: Collection, column: str, value: Any, where: str = "vanilla_aa") -> Collection:
    """The same with one column of the requests of one method replaced."""
    requests = data.requests
    rows = zip(requests["run"], requests[column], strict=True)
    values = [value if where in run else before for run, before in rows]
    return replace(data, requests=requests.assign(**{column: pd.Series(values, requests.index)}))


def test_equal_arms_hold_one_and_the_floor_has_a_width() -> None:
    found = floor(block())
    assert found is not None
    assert found.holds_one
    assert found.found.clusters == 12
    assert found.found.low is not None
    assert found.found.high is not None
    assert 0.95 < found.found.low < 1.0 < found.found.high < 1.05
    assert (found.outputs.pairs, found.outputs.different) == (12, 0)


def test_arms_that_should_be_equal_and_are_not_leave_one_out() -> None:
    """The baseline takes 10 ms, its replica 9: something other than the method decides."""
    found = floor(block(ms=9.0))
    assert found is not None
    assert not found.holds_one
    assert found.found.ratio == pytest.approx(10 / 9, rel=0.03)


def test_one_prompt_has_no_interval_and_holds_nothing() -> None:
    found = floor(block(prompts=1))
    assert found is not None
    assert found.found.ratio is not None
    assert not found.holds_one


def test_without_a_replica_there_is_no_floor() -> None:
    alone = Tiny().add(PLAIN, decoded(4, 10.0)).add(EVICT, decoded(4, 5.0)).collection()
    assert floor(alone) is None
    assert (
        floor(Collection(*(frame.iloc[:0] for frame in (alone.runs, alone.requests)), alone.steps))
        is None
    )
    older = replace(alone, runs=alone.runs.drop(columns=["replica"]))
    assert floor(older) is None


@pytest.mark.parametrize(
    "given", [{"machine_hash": "other"}, {"machine_hash": None}, {"recorded": True}]
)
def test_a_replica_of_another_machine_or_with_trees_kept_is_none(given: dict[str, Any]) -> None:
    assert floor(block(**given)) is None


def test_rows_of_several_processes_that_differ_are_no_equal_arms() -> None:
    data = block()
    assert floor(replace(data, runs=data.runs.assign(machine_hash=None))) is None


@pytest.mark.parametrize(
    ("column", "value"),
    [("part", "another day"), ("input_hash", "another"), ("error_class", "RuntimeError")],
)
def test_only_pairs_that_took_turns_on_one_input_count(column: str, value: str) -> None:
    """A replica that was measured on another day says nothing about arms that took turns."""
    assert floor(changed(block(), column, value)) is None


def test_invalid_runs_say_nothing() -> None:
    data = block()
    verdicts = ["invalid" if again else "valid" for again in data.runs["replica"]]
    assert floor(replace(data, runs=data.runs.assign(verdict=verdicts))) is None
    assert floor(replace(data, runs=data.runs.assign(verdict="unknown"))) is not None


def test_outputs_that_differ_between_equal_arms_are_counted() -> None:
    data = changed(block(), "output_ids", [1, 3])
    found = floor(data)
    assert found is not None
    assert (found.outputs.different, found.outputs.rate) == (12, 1.0)
    sampled = floor(changed(data, "temperature", 1.0))
    assert sampled is not None
    assert sampled.outputs.rate is None
    assert sampled.found.clusters == 12


def test_the_order_of_rows_does_not_matter() -> None:
    data = block()
    turned = replace(data, runs=data.runs.iloc[::-1], requests=data.requests.iloc[::-1])
    one, other = floor(data), floor(turned)
    assert one is not None
    assert other is not None
    assert one.found.ratio == pytest.approx(other.found.ratio)
    assert one.outputs == other.outputs

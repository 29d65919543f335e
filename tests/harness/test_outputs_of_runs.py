"""A run's outputs against plain decoding's: which rows are pairs, and what excuses a difference."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.engines.base import EngineFacts, EngineLost
from harness.equality import KINDS, NextTokens
from harness.outputs import check_outputs
from harness.records import RequestRecord
from tests.support.fake_engine import FakeEngine

PROMPT = [1, 2, 3]
PLAIN = [10, 11, 12, 13, 14]
Answer = Callable[[tuple[int, ...]], NextTokens | None]


@dataclass
class Asked(FakeEngine):
    """Answers `answer(context)` and keeps every context that it was asked about."""

    answer: Answer = field(kw_only=True)
    dtype: str = "float32"
    contexts: list[tuple[int, ...]] = field(default_factory=list)

    def describe(self) -> EngineFacts:
        return replace(super().describe(), dtype=self.dtype)

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        self.contexts.append(tuple(ids))
        return self.answer(tuple(ids))


def row(output: Sequence[int], prompt: str = "p0", **given: Any) -> RequestRecord:
    record = RequestRecord(
        prompt_id=prompt,
        turn=0,
        repeat=0,
        order=0,
        seed=0,
        temperature=0.0,
        input_hash=prompt,
        input_tokens=3,
        output_ids=list(output),
        finish_reason="length",
    )
    return replace(record, **given)


def check(engine: FakeEngine, rows: Any, baseline: Any) -> dict[str, Any]:
    found = check_outputs(engine, rows, baseline, lambda one: PROMPT)
    assert json.loads(json.dumps(found)) == found
    return found


def listed(*behind: float, ids: Sequence[int] = (12, 99, 77)) -> Answer:
    return lambda context: NextTokens(tuple(ids), behind)


def kinds(found: dict[str, Any]) -> list[str]:
    return [one["kind"] for one in found["differences"]]


def test_the_engine_is_asked_only_where_two_outputs_part() -> None:
    engine = Asked(answer=listed(0.0, 0.001, 3.0))
    rows = [row(PLAIN), row([10, 11, 99, 5], "p1"), row(PLAIN[:2], "p2", finish_reason="stop")]
    baseline = [row(PLAIN), row(PLAIN, "p1"), row(PLAIN, "p2")]
    found = check(engine, rows, baseline)
    assert found["pairs"] == 3
    assert found["counts"] == {"equal": 1, "near_tie": 1, "stop_rule": 1, "fault": 0}
    assert engine.contexts == [(*PROMPT, 10, 11)]
    near, cut = found["differences"]
    assert near == {
        "prompt_id": "p1",
        "turn": 0,
        "repeat": 0,
        "kind": "near_tie",
        "first_divergence": 2,
        "tokens": [99, 12],
        "gap": 0.001,
    }
    assert (cut["kind"], cut["first_divergence"], cut["gap"]) == ("stop_rule", 2, None)


@pytest.mark.parametrize(
    ("answer", "gap", "why"),
    [
        (listed(0.0, 0.02, 3.0), 0.02, None),
        (listed(0.0, 0.001, 0.002, ids=(77, 12, 55)), None, "not among the 3 likeliest tokens"),
        (listed(0.0, 0.001, 0.5, ids=(77, 12, 99)), 0.5, None),
        (listed(0.0, float("nan"), 1.0), None, "gap nan"),
        (lambda context: None, None, "the engine cannot tell"),
    ],
)
def test_a_difference_that_is_no_tie_is_a_fault(
    answer: Answer, gap: float | None, why: str | None
) -> None:
    """The own token is 99, the baseline's 12: both must lie close behind the target's best."""
    found = check(Asked(answer=answer), [row([10, 11, 99])], [row(PLAIN)])
    (one,) = found["differences"]
    assert (one["kind"], one["gap"], one.get("gap_unknown")) == ("fault", gap, why)
    assert found["counts"]["fault"] == 1


def test_what_a_tie_is_depends_on_the_engines_number_format() -> None:
    rows, baseline = [row([10, 11, 99])], [row(PLAIN)]
    answer = listed(0.0, 0.125, 3.0)
    for dtype, kind, below in (("float32", "fault", 0.01), ("bfloat16", "near_tie", 0.5)):
        found = check(Asked(answer=answer, dtype=dtype), rows, baseline)
        assert (kinds(found), found["near_tie_below"]) == ([kind], below)


def test_partners_with_another_input_are_no_pairs() -> None:
    """A second turn follows its own first answer; unlike questions have unlike answers."""
    rows = [row(PLAIN), row([7, 8], turn=1, input_hash="after own answer")]
    baseline = [row(PLAIN), row(PLAIN, turn=1, input_hash="after the baseline's")]
    found = check(Asked(answer=listed(0.0, 0.0, 0.0)), rows, baseline)
    assert (found["pairs"], found["different_input"], found["differences"]) == (1, 1, [])


def test_failed_sampled_and_lone_rows_are_no_pairs() -> None:
    rows = [
        row([], "p0", error_class="RuntimeError"),
        row([5], "p1", temperature=1.0),
        row([5], "p2"),
        row([5], "p3", repeat=1),
        row([], "p4", finish_reason="replayed"),
    ]
    baseline = [row(PLAIN, name) for name in ("p0", "p1", "p3", "p4")]
    found = check(Asked(answer=listed(0.0, 0.0, 0.0)), rows, baseline)
    assert (found["pairs"], found["different_input"]) == (0, 0)
    assert found["counts"] == dict.fromkeys(KINDS, 0)


def test_repeats_that_part_at_one_place_cost_one_question() -> None:
    engine = Asked(answer=listed(0.0, 0.001, 3.0))
    rows = [row([10, 11, 99], repeat=repeat) for repeat in range(3)]
    baseline = [row(PLAIN, repeat=repeat) for repeat in range(3)]
    found = check(engine, rows, baseline)
    assert kinds(found) == ["near_tie"] * 3
    assert len(engine.contexts) == 1


def test_an_engine_that_fails_leaves_faults_and_no_exception() -> None:
    def fails(context: tuple[int, ...]) -> NextTokens:
        raise ValueError("no logits")

    engine = Asked(answer=fails)
    rows = [row([10, 99], "p0"), row([99], "p1"), row(PLAIN, "p2")]
    baseline = [row(PLAIN, name) for name in ("p0", "p1", "p2")]
    found = check(engine, rows, baseline)
    assert [one["gap_unknown"] for one in found["differences"]] == ["ValueError"] * 2
    assert (found["counts"]["fault"], found["counts"]["equal"]) == (2, 1)
    assert len(engine.contexts) == 2


def test_a_lost_engine_is_not_asked_again() -> None:
    """Starting the next one may take minutes, and the question may be what ended it."""

    def lost(context: tuple[int, ...]) -> NextTokens:
        raise EngineLost("killed")

    engine = Asked(answer=lost)
    names = [f"p{i}" for i in range(4)]
    found = check(engine, [row([99], name) for name in names], [row(PLAIN, name) for name in names])
    assert [one["gap_unknown"] for one in found["differences"]] == ["EngineLost"] * 4
    assert len(engine.contexts) == 1


def test_an_engine_that_was_lost_before_excuses_nothing() -> None:
    class Gone(Asked):
        def describe(self) -> EngineFacts:
            raise EngineLost("killed before")

    found = check(Gone(answer=listed(0.0, 0.3, 1.0)), [row([10, 11, 99])], [row(PLAIN)])
    assert kinds(found) == ["fault"]


outputs = st.lists(st.integers(0, 3), min_size=1, max_size=8)


@given(st.lists(st.tuples(outputs, outputs), max_size=12), st.floats(0.0, 0.05))
def test_every_pair_has_one_kind_and_every_difference_an_entry(
    pairs: list[tuple[list[int], list[int]]], gap: float
) -> None:
    engine = Asked(answer=lambda context: NextTokens((0, 1, 2, 3), (0.0, gap, gap, gap)))
    rows = [row(own, f"p{i}") for i, (own, _) in enumerate(pairs)]
    baseline = [row(other, f"p{i}") for i, (_, other) in enumerate(pairs)]
    found = check(engine, rows, baseline)
    assert found["pairs"] == len(pairs) == sum(found["counts"].values())
    assert found["counts"]["equal"] == sum(own == other for own, other in pairs)
    assert len(found["differences"]) == found["pairs"] - found["counts"]["equal"]
    for one in found["differences"]:
        own, other = pairs[int(one["prompt_id"][1:])]
        at = one["first_divergence"]
        assert own[:at] == other[:at]
        assert own[at : at + 1] != other[at : at + 1]

"""What the GPU check makes of replies and step records: the arithmetic of its answers."""

from __future__ import annotations

import pytest

from harness.engines.sglang.gpu_check.captures import capture_rows
from harness.engines.sglang.gpu_check.intervals import (
    order,
    ratio,
    steady_gaps,
    step_times,
    timed,
)
from harness.engines.sglang.gpu_check.matches import match
from harness.engines.sglang.gpu_check.ties import ScoredTree, count_ties, trees
from harness.engines.sglang.metadata import read_metadata
from harness.engines.sglang.reply import Chunk, Reply


def replied(at_ms: list[float], steps: int) -> Reply:
    """A reply whose chunks arrived then."""
    meta = read_metadata({"spec_verify_ct": steps})
    chunks = tuple(Chunk(at, 1) for at in at_ms)
    return Reply("rid", tuple(range(len(at_ms))), -5.0, chunks, meta)


def test_two_servers_take_turns_and_each_has_the_same_places() -> None:
    turns = order(3, live=2)
    for prompt in range(3):
        assert [arm for arm, at in turns if at == prompt] == list("ABBA")


def test_one_server_is_started_once_for_each_arm() -> None:
    arms = [arm for arm, _ in order(3, live=1)]
    assert arms == ["B"] * 6 + ["A"] * 6


def test_ratio_is_above_one_where_the_plugin_is_slower() -> None:
    """By a fifth per step at every prompt, whatever the number of steps."""
    found = {("A", p): [(100.0 * (p + 1), 10), (50.0 * (p + 1), 5)] for p in range(4)}
    found |= {("B", p): [(120.0 * (p + 1), 10), (120.0 * (p + 1), 10)] for p in range(4)}
    row = ratio(found, 4)
    assert row["plugin_over_stock"] == pytest.approx(1.2)
    assert (row["low"], row["high"]) == (pytest.approx(1.2), pytest.approx(1.2))
    assert (row["stock_ms"], row["plugin_ms"]) == (pytest.approx(25.0), pytest.approx(30.0))


def test_gaps_of_a_stream_leave_out_the_first_steps_and_merged_events() -> None:
    at_ms = [0.0, 50.0, 90.0, 120.0, 140.0, 150.0, 161.0]
    assert steady_gaps(replied(at_ms, steps=6)) == [10.0, 11.0]
    assert timed(replied(at_ms, steps=6)) == (161.0, 6)
    assert steady_gaps(replied(at_ms, steps=7)) == []


def test_steady_steps_of_the_width_that_was_asked_for() -> None:
    records = [{"k": 8, "step_ms": float(i)} for i in range(7)] + [{"k": 8, "step_ms": None}]
    assert step_times(records, 8) == [4.0, 5.0, 6.0]
    with pytest.raises(ValueError, match="width 16"):
        step_times(records, 16)


def test_tokens_count_up_to_the_first_difference() -> None:
    row = match([[1, 2, 3, 4], [5, 6, 7, 8]], [[1, 2, 9, 4], [5, 6, 7, 8]])
    assert (row["outputs"], row["equal"]) == (2, 1)
    assert row["token_rate"] == 6 / 8
    assert row["first_divergences"] == [2, None]
    assert row["differences"] == [{"prompt": 0, "at": 2, "reference": [3, 4], "seen": [9, 4]}]


def test_ties_are_neighbours_with_equal_scores() -> None:
    """Scores best first: cuts after nodes 2 and 4 of the first tree fall between equals."""
    first = ScoredTree([1.0, 0.5, 0.5, 0.25, 0.0, 0.0], [-1, 0, 0, 1, 2, 2])
    second = ScoredTree([1.0, 1.0, 0.5, 0.25, 0.2, 0.1], [-1, 0, 1, 1, 2, 2])
    found = count_ties([first, second])
    assert (found["trees"], found["trees_with_a_tie"]) == (2, 1)
    assert (found["pairs"], found["tied_pairs"], found["tied_at_zero"]) == (8, 2, 1)
    assert found["cuts"] == {"2": 1, "5": 1}
    assert (found["nodes"], found["with_parent"]) == (10, 1)


def test_record_without_the_tree_that_was_ordered_is_an_error() -> None:
    with pytest.raises(ValueError, match="step 3"):
        list(trees([{"step": 3, "tree": None}]))


def test_captures_take_seconds_from_the_log_where_nothing_is_reported() -> None:
    log = "INFO verify width 16 captured in 1.5 s\nINFO verify width 8 captured in 2.0 s\n"
    assert capture_rows({}, log)[0] == {
        "k": 8,
        "seconds": 2.0,
        "gib": None,
        "reason": "the worker reports no memory of its captures",
    }
    told = {"8": {"seconds": 2.04, "gib": 0.07}}
    rows = capture_rows(told, log)
    assert [row["k"] for row in rows] == [8, 16]
    assert rows[0] == {"k": 8, "seconds": 2.04, "gib": 0.07, "reason": None}


def test_captures_take_memory_from_the_log_where_it_is_there() -> None:
    rows = capture_rows({}, "INFO verify width 8 captured in 2.0 s, 0.062 GB\n")
    assert rows == [{"k": 8, "seconds": 2.0, "gib": 0.062, "reason": None}]

"""Stage times inside SGLang: every interval its own, read when reading waits for nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.sglang.stage_timer import StageTimer
from tests.support.scripted_clock import ScriptedClock, quick_step, step

# Whole milliseconds, so that sums and differences are exact.
STAGES = st.tuples(*[st.integers(1, 9)] * 4)
RUNS = st.lists(st.lists(STAGES, min_size=1, max_size=7), min_size=1, max_size=5)


@given(RUNS, st.integers(2, 5))
@settings(deadline=None)
def test_every_interval_is_its_own_however_few_steps_are_in_flight(
    runs: list[list[tuple[int, ...]]], depth: int
) -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", depth, clock)
    expected: list[tuple[Any, ...]] = []
    for run in runs:
        timer.break_run()
        clock.now_ms += 100  # a prefill
        for stages in run:
            step(timer, clock, stages)
        expected += [(*stages, sum(stages)) for stages in run[:-1]]
        expected += [(*run[-1][:3], None, None)]
    times = timer.drain(synchronize=True)
    assert [one.step for one in times] == list(range(len(expected)))
    assert [
        (one.draft_ms, one.verify_ms, one.extend_ms, one.gap_ms, one.step_ms) for one in times
    ] == expected


def test_a_step_is_read_depth_steps_late_and_moments_are_reused() -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", 4, clock)
    made = clock.made
    for number in range(4):
        step(timer, clock, (1, 1, 1, 1))
        assert not clock.waits
        assert timer.drain() == []
        assert timer.last == number
    for number in range(4, 12):
        step(timer, clock, (1, 1, 1, 1))
        assert clock.waits[-1] == 4 * number
        assert [one.step for one in timer.drain()] == [number - 4]
    assert clock.made == made


def test_draining_while_steps_follow_waits_for_none_in_flight() -> None:
    timer = StageTimer("cpu", 3, ScriptedClock())
    for _ in range(5):
        quick_step(timer)
    assert [one.step for one in timer.drain()] == [0, 1]
    assert [one.step for one in timer.drain(synchronize=True)] == [2, 3, 4]
    assert timer.drain(synchronize=True) == []


def test_a_drain_ends_the_run() -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", 3, clock)
    step(timer, clock, (1, 2, 3, 4))
    assert timer.drain(synchronize=True)[0].step_ms is None
    for _ in range(2):
        step(timer, clock, (1, 2, 3, 4))
    assert [one.step_ms for one in timer.drain(synchronize=True)] == [10, None]


def test_a_step_left_half_way_is_forgotten_and_breaks_the_run() -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", 2, clock)
    for _ in range(3):
        step(timer, clock, (1, 2, 3, 4))
        timer.start()
        timer.after_draft()
        timer.break_run()
    timer.start()
    times = timer.drain(synchronize=True)
    assert timer.last is None
    assert [(one.step, one.verify_ms, one.step_ms) for one in times] == [
        (0, 2, None), (2, 2, None), (4, 2, None)
    ]  # fmt: skip


def test_the_host_clock_of_a_cpu_runs_forward() -> None:
    timer = StageTimer("cpu")
    quick_step(timer)
    quick_step(timer)
    first, last = timer.drain(synchronize=True)
    assert first.step_ms is not None
    assert first.gap_ms is not None
    parts = first.draft_ms + first.verify_ms + first.extend_ms + first.gap_ms
    assert first.step_ms == pytest.approx(parts)
    assert min(first.draft_ms, first.gap_ms, last.extend_ms) >= 0 < first.step_ms


def test_marks_out_of_order_are_refused() -> None:
    timer = StageTimer("cpu")
    with pytest.raises(InputError, match="after_draft; allowed: start"):
        timer.after_draft()
    timer.start()
    with pytest.raises(InputError, match="after_verify; allowed: after_draft"):
        timer.after_verify()
    with pytest.raises(InputError, match=r"start; allowed: after_draft.*break_run"):
        timer.start()
    with pytest.raises(InputError, match="seen: 1; allowed: >= 2"):
        StageTimer("cpu", 1)

"""An engine in a process of its own: the same answers, and what becomes of it when it breaks."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from evict.cost import CostTable
from evict.errors import InputError
from harness.engines.base import EngineLost, Method, Request
from harness.engines.isolated.child import Limits
from harness.engines.isolated.engine import IsolatedEngine
from tests.support.breaking_engine import BreakingEngine, stalls, where
from tests.support.fake_engine import FakeEngine
from tests.support.servers import linux, noted, reaped

PLAIN = Method("vanilla")
ALL = {
    name: name for name in ("segfault", "killed", "exit", "memory", "tensor memory", "prints")
} | {name: name for name in ("input", "plain", "unsendable")}


def ask(prompt: str) -> Request:
    return Request(prompt, (65, 66, 67), 8)


def process_of(engine: IsolatedEngine) -> str:
    return engine.generate(ask("fine"), PLAIN, 0).text.rpartition(" ")[2]


@pytest.fixture(scope="module")
def engine() -> Iterator[IsolatedEngine]:
    found = IsolatedEngine(partial(BreakingEngine, ALL))
    found.set_cost(CostTable((1.0, 2.0), 1.0, (0.0, 0.0)))
    yield found
    found.close()


def test_the_answers_are_those_of_the_engine(engine: IsolatedEngine) -> None:
    inside = FakeEngine()
    here, there = (one.generate(ask("fine"), PLAIN, 0) for one in (inside, engine))
    assert (there.output_ids, there.steps) == (here.output_ids, here.steps)
    assert engine.describe() == inside.describe()
    chat = [{"role": "user", "content": "hi"}]
    assert engine.decode(engine.encode_chat(chat)) == "<user>hi"
    assert engine.forced_step_times(PLAIN, [[1]], 3) == inside.forced_step_times(PLAIN, [[1]], 3)
    assert engine.together([PLAIN, PLAIN]) == [[0, 1]]
    assert (engine.timed, list(engine.own_costs), engine.observable) == (True, [], False)
    assert process_of(engine) != str(os.getpid())


@pytest.mark.parametrize(
    ("breakage", "happened", "last_words"),
    [
        ("segfault", "ended with signal 11 (SIGSEGV)", "breaking_engine.py"),
        ("killed", "signal 9 (SIGKILL), with which the kernel", ""),
        ("exit", "ended with exit status 7", "leaving"),
        ("memory", "ran out of memory (MemoryError)", "in _memory"),
        ("tensor memory", "ran out of memory (RuntimeError", "can't allocate memory"),
    ],
)
def test_a_crash_is_told_and_the_next_call_has_another_process_with_the_same_costs(
    engine: IsolatedEngine, breakage: str, happened: str, last_words: str
) -> None:
    before = process_of(engine)
    with pytest.raises(EngineLost) as lost:
        engine.generate(ask(breakage), PLAIN, 0)
    first, *rest = str(lost.value).splitlines()
    assert happened in first
    assert " s into generate" in first
    assert last_words in "\n".join(rest)
    after = engine.generate(ask("fine"), PLAIN, 0).text
    assert after.startswith("1 tables, process ")
    assert not after.endswith((f" {before}", f" {os.getpid()}"))


@pytest.mark.parametrize(
    ("prompt", "kind", "message"),
    [
        ("input", InputError, "the prompt; seen: 3; allowed: at most 2; try: another"),
        ("plain", KeyError, "'a key'"),
    ],
)
def test_an_error_of_a_request_arrives_as_it_is_and_ends_no_process(
    engine: IsolatedEngine, prompt: str, kind: type[Exception], message: str
) -> None:
    before = process_of(engine)
    with pytest.raises(kind) as caught:
        engine.generate(ask(prompt), PLAIN, 0)
    assert str(caught.value) == message
    assert "breaking_engine.py" in "".join(caught.value.__notes__)
    assert process_of(engine) == before


def test_an_error_that_cannot_be_sent_keeps_its_name_and_message(engine: IsolatedEngine) -> None:
    before = process_of(engine)
    with pytest.raises(Exception, match="of its own") as caught:
        engine.generate(ask("unsendable"), PLAIN, 0)
    assert type(caught.value).__name__ == "Unsendable"
    assert process_of(engine) == before


def test_what_the_engine_prints_is_passed_on(
    engine: IsolatedEngine, capsys: pytest.CaptureFixture[str]
) -> None:
    engine.generate(ask("prints"), PLAIN, 0)
    shown = capsys.readouterr().err
    assert "a warning of the engine\n" in shown
    assert "a line on standard output\n" in shown
    process_of(engine)
    assert capsys.readouterr().err == ""


def test_an_observer_is_refused_and_nothing_is_lost(engine: IsolatedEngine) -> None:
    before = process_of(engine)
    with pytest.raises(InputError, match=r"observers.*isolated=false"):
        engine.generate(ask("fine"), PLAIN, 0, observer=lambda view: None)
    with pytest.raises(Exception, match="pickle"):
        engine.carry_out(lambda engine, progress: None)
    assert process_of(engine) == before


def test_a_procedure_runs_where_the_engine_is_and_reports() -> None:
    heard: list[tuple[str, float]] = []
    limits = Limits(request_timeout_s=2.0)
    engine = IsolatedEngine(BreakingEngine, limits)
    try:
        before = process_of(engine)
        told = engine.carry_out(where, 12, progress=lambda *report: heard.append(report))
        assert told == f"process {before}, BreakingEngine"
        assert heard == [("counting", (step + 1) / 12) for step in range(12)]
        with pytest.raises(EngineLost, match="no sign of life for 2 s"):
            engine.carry_out(stalls)
    finally:
        engine.close()


@linux
def test_a_hang_ends_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    load = partial(BreakingEngine, {"slow": "family"}, str(pids))
    engine = IsolatedEngine(load, Limits(request_timeout_s=1.5))
    try:
        with pytest.raises(EngineLost) as lost:
            engine.generate(ask("slow"), PLAIN, 0)
        family = noted(pids, 3)
        assert reaped(family)
        assert "gave no sign of life for 1.5 s, 1.5 s into generate" in str(lost.value)
        assert "about to hang" in str(lost.value)
        assert process_of(engine) not in map(str, family)
    finally:
        engine.close()
    assert reaped(noted(pids, 4))


@linux
@pytest.mark.parametrize(
    ("breakage", "kind", "message"),
    [
        ("input", InputError, "the prompt"),
        ("family", EngineLost, "no sign of life"),
    ],
)
def test_an_engine_that_cannot_be_made_says_why_and_leaves_nothing(
    tmp_path: Path, breakage: str, kind: type[Exception], message: str
) -> None:
    pids = tmp_path / "pids"
    load = partial(BreakingEngine, {"load": breakage}, str(pids))
    with pytest.raises(kind, match=message):
        IsolatedEngine(load, Limits(ready_timeout_s=6.0))
    assert reaped(noted(pids, 1))


def test_another_engine_than_the_one_that_was_lost_is_refused(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_text("first")
    engine = IsolatedEngine(partial(BreakingEngine, ALL, weights=str(weights)))
    try:
        weights.write_text("second")
        with pytest.raises(EngineLost):
            engine.generate(ask("exit"), PLAIN, 0)
        with pytest.raises(InputError, match=r"is another.*second.*first"):
            process_of(engine)
    finally:
        engine.close()


@pytest.mark.parametrize("name", ["request_timeout_s", "ready_timeout_s"])
def test_a_limit_is_above_zero_or_null(name: str) -> None:
    with pytest.raises(InputError, match=rf"engine\.process\.{name}; seen: 0"):
        Limits(**{name: 0})
    assert getattr(Limits(**{name: None}), name) is None

"""A process that dies at any operation on a file, one after the other: nothing is lost."""

from __future__ import annotations

import itertools
import multiprocessing
import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import Method, Request
from tests.faults.invariants import Ledger
from tests.faults.state import generations, summary
from tests.support.again import Command, TreesEngine
from tests.support.bench import Bench

OPERATIONS = ("replace", "unlink", "fsync", "ftruncate")
QUESTIONS = 3
NOTHING: dict[str, list[str]] = {"lost": [], "duplicates": [], "wrongly ok": []}


@pytest.fixture
def command(bench: Bench) -> Command:
    bench.questions = [[f"what is {i}?"] for i in range(QUESTIONS)]
    return Command.of(bench, "method=vanilla", "record_trees=true", "warmup_prompts=0")


def apart(work: Callable[[], object]) -> int | None:
    """Exit code of a fork that does this; -9 when it was killed."""
    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying_at(point: int, work: Callable[[], object]) -> Callable[[], None]:
    """Does the work until the operation of this number; a write is done by half before."""
    left = itertools.count(point - 1, -1)

    def watched(operation: Callable[..., Any]) -> Callable[..., Any]:
        def one(*arguments: Any, **names: Any) -> Any:
            if next(left) == 0:
                die()
            return operation(*arguments, **names)

        return one

    def half(handle: int, data: bytes, write: Callable[..., int] = os.write) -> int:
        if next(left) == 0:
            write(handle, data[: len(data) // 2])
            die()
        return write(handle, data)

    def run() -> None:
        for name in OPERATIONS:
            setattr(os, name, watched(getattr(os, name)))
        os.write = half  # type: ignore[assignment]
        work()

    return run


@pytest.mark.parametrize("harmed", [False, True])
def test_a_run_survives_the_death_of_its_process_at_any_point(
    command: Command, harmed: bool
) -> None:
    """harmed: half a line stands at the end of every file, so that each start rewrites them.

    Careless: result.json before the tables, lines that go before the tables are there, a line
    written behind half a line.
    """
    apart(dying_at(1, command.run))
    (path,) = (command.bench.results / "adhoc").iterdir()
    ledger = _ledger(command, path)
    for point in itertools.count(1):
        for file in path.glob("*.jsonl") if harmed and summary(path) is None else ():
            file.write_bytes(file.read_bytes() + b'{"prompt_id": "gsm8k-')
        code = apart(dying_at(point, command.run))
        assert ledger.check() == NOTHING, f"operation {point}"
        if code == 0:
            break
        assert code == -signal.SIGKILL
    assert point > 20
    _whole(command, path)


def test_a_run_that_failed_in_part_survives_a_death_while_it_is_taken_up(command: Command) -> None:
    """Careless: the summary and the tables go before their rows stand in lines again."""
    (path,) = command.run(TreesEngine(fail=_refuse)).runs
    saved = command.bench.folder / "saved"
    path.rename(saved)
    for point in range(1, 18):
        shutil.copytree(saved, path)
        ledger = _ledger(command, path)
        assert apart(dying_at(point, command.run)) == -signal.SIGKILL
        assert ledger.check() == NOTHING, f"operation {point}"
        command.run()
        assert ledger.check() == NOTHING, f"after operation {point}"
        assert command.measured in ([], ["gsm8k-1"])
        _whole(command, path)
        shutil.rmtree(path)


def _ledger(command: Command, path: Path) -> Ledger:
    """What is there already must stay."""
    plan = {path.name: {(f"gsm8k-{i}", 0, 0) for i in range(QUESTIONS)}}
    ledger = Ledger(command.bench.results, plan)
    assert ledger.check() == NOTHING
    return ledger


def _whole(command: Command, path: Path) -> None:
    assert command.run().skipped == [path]
    assert set(generations(path)) == {(f"gsm8k-{i}", 0, 0) for i in range(QUESTIONS)}


def _refuse(request: Request, method: Method) -> None:
    if request.prompt_id == "gsm8k-1":
        raise RuntimeError("boom")


def test_what_was_finished_before_the_process_was_killed_is_there(command: Command) -> None:
    """Careless: lines that wait in a buffer. The engine itself is the witness of what was made."""

    def killed(request: Request, method: Method) -> None:
        if request.prompt_id == "gsm8k-2":
            die()

    assert apart(lambda: command.run(TreesEngine(fail=killed))) == -signal.SIGKILL
    (path,) = (command.bench.results / "adhoc").iterdir()
    assert list(generations(path)) == [("gsm8k-0", 0, 0), ("gsm8k-1", 0, 0)]
    command.run()
    assert command.measured == ["gsm8k-2"]


@pytest.fixture
def littered(command: Command) -> Path:
    """A run whose process died between its summary and clearing away the lines."""

    def killed() -> None:
        unlink = os.unlink

        def dies(path: Path, **names: Any) -> None:
            if str(path).endswith("steps.jsonl"):
                die()
            unlink(path, **names)

        os.unlink = dies  # type: ignore[assignment]
        command.run()

    assert apart(killed) == -signal.SIGKILL
    (path,) = (command.bench.results / "adhoc").iterdir()
    assert (path / "steps.jsonl").exists()
    return path


def test_a_run_killed_after_its_summary_is_finished(command: Command, littered: Path) -> None:
    """Careless: what was left to clear away makes it measure again."""
    assert command.run().skipped == [littered]


def test_damage_to_lines_that_a_table_holds_as_well_costs_nothing(
    command: Command, littered: Path
) -> None:
    """Careless: without a summary only the lines are looked at."""
    before = generations(littered)
    (littered / "result.json").write_bytes(b"")
    (littered / "steps.jsonl").write_bytes((littered / "steps.jsonl").read_bytes()[:-30])
    command.run()
    assert command.measured == []
    assert generations(littered) == before

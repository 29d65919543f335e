"""A disk that fills up at any byte: whole lines stay, and the same command goes on."""

from __future__ import annotations

import errno
import json
import resource
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from harness.engines.base import Method, Request, RequestTrace
from harness.store import read_result
from tests.faults.disk import largest_file, mounted, remounted
from tests.faults.state import generations, keys, summary
from tests.support.again import Command
from tests.support.bench import Bench
from tests.support.fake_engine import FakeEngine
from tests.support.steps import ScriptedEngine, steps, trace

COUNT = 60


def wide_rows(request: Request, method: Method) -> RequestTrace:
    """One step of many tokens: requests.jsonl is the largest file."""
    return trace(steps((400, 401, 400)))


def many_steps(request: Request, method: Method) -> RequestTrace:
    """steps.jsonl is the largest file."""
    return trace(steps(*[(0, 1, 0)] * 12))


@dataclass
class Filling(FakeEngine):
    """Asked for its settings at the end of the measurement, it fills the disk up to `size`."""

    size: int = 0

    def read_back(self, method: Method) -> dict[str, str]:
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (self.size, limit[1]))
        return {}


@pytest.fixture
def _limit_restored() -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("size", [17_000, 19_321, 22_222, 24_999, 31_007])
@pytest.mark.parametrize("script", [wide_rows, many_steps])
def test_a_disk_that_fills_up_in_the_middle_of_a_line(
    bench: Bench, script: type[RequestTrace], size: int
) -> None:
    """Careless: half a line stays, and the next process writes its first line behind it."""
    bench.questions = [[f"what is {i}?"] for i in range(COUNT)]
    command = Command.of(bench, "method=vanilla")
    with largest_file(size), pytest.raises(OSError, match=r"File too large.*\.jsonl"):
        command.run(ScriptedEngine(script=script))
    (path,) = (bench.results / "adhoc").iterdir()
    before = generations(path)
    assert 0 < len(before) < COUNT
    assert max(file.stat().st_size for file in path.iterdir()) <= size
    for name in ("requests", "steps", "telemetry"):
        content = (path / f"{name}.jsonl").read_bytes()
        assert content.endswith(b"\n")
        assert content.count(b"\n") == len(before)
    assert summary(path) is None
    command.run(ScriptedEngine(script=script))
    assert len(command.measured) == COUNT - len(before)
    found = generations(path)
    assert {key: found[key] for key in before} == before
    _whole(path, COUNT)


@pytest.mark.usefixtures("_limit_restored")
@pytest.mark.parametrize("size", [1, 3_000])
def test_a_disk_that_fills_up_while_steps_are_folded(bench: Bench, size: int) -> None:
    """Careless: half a table under its final name, or lines that are gone already."""
    command = Command.of(bench, "method=vanilla")
    with largest_file(resource.RLIM_INFINITY), pytest.raises(OSError, match="File too large"):
        command.run(Filling(size=size))
    (path,) = (bench.results / "adhoc").iterdir()
    before = generations(path)
    assert summary(path) is None
    assert not list(path.glob("*.parquet"))
    assert not list(path.glob(".*"))
    command.run()
    assert command.measured == []
    assert generations(path) == before
    _whole(path, 4)


@pytest.mark.usefixtures("_limit_restored")
def test_a_disk_that_fills_up_while_the_summary_is_written(bench: Bench) -> None:
    """Careless: half a result.json, or a run that counts although its summary is missing."""
    command = Command.of(bench, "method=vanilla", f"method.remark={'x' * 40_000}")
    with largest_file(resource.RLIM_INFINITY), pytest.raises(OSError, match="File too large"):
        command.run(Filling(size=30_000))
    (path,) = (bench.results / "adhoc").iterdir()
    before = generations(path)
    assert {file.name for file in path.glob("*.parquet")} == {"steps.parquet", "telemetry.parquet"}
    assert not list(path.glob("*result.json*"))
    command.run()
    assert command.measured == []
    assert generations(path) == before
    _whole(path, 4)


def test_a_disk_without_a_free_page_and_then_with_some(bench: Bench) -> None:
    """The disk is really full: what was finished is there, and more room is all it takes."""
    bench.questions = [[f"what is {i}?"] for i in range(COUNT)]
    command = Command.of(bench, "method=vanilla")
    with mounted(bench.results, "size=96k") as possible:
        if not possible:
            pytest.skip("no file system can be mounted here")
        with pytest.raises(OSError, match="No space left") as failed:
            command.run(ScriptedEngine(script=many_steps))
        assert failed.value.errno == errno.ENOSPC
        (path,) = (bench.results / "adhoc").iterdir()
        before = generations(path)
        assert 0 < len(before) < COUNT
        assert summary(path) is None
        remounted(bench.results, "size=8m")
        command.run(ScriptedEngine(script=many_steps))
        assert len(command.measured) == COUNT - len(before)
        found = generations(path)
        assert {key: found[key] for key in before} == before
        _whole(path, COUNT)


def _whole(path: Path, count: int) -> None:
    result = read_result(path)
    assert result is not None
    assert (result.status, result.requests_ok) == ("ok", count)
    assert len(keys(path)) == count
    assert set(keys(path).values()) == {1}
    for one in generations(path).values():
        assert sum(step["committed"] for step in one.rows("steps")) == one.values["decode_tokens"]
    assert json.loads((path / "result.json").read_text())["files"]

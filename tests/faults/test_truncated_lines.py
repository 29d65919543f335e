"""A cut run one of whose growing files is damaged: what is whole stays, the rest is redone."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from harness.collect import collect
from harness.store import read_result
from tests.faults.state import Generation, Key, generations, keys, summary
from tests.support.again import Command

FILES = ("requests.jsonl", "steps.jsonl", "telemetry.jsonl", "trees.jsonl")
PROMPTS = [f"gsm8k-{i}" for i in range(4)]


@pytest.fixture
def cut(command: Command) -> Path:
    """Three of four generations are there, and no summary."""
    path = command.stopped(after=3)
    assert list(generations(path)) == [(name, 0, 0) for name in PROMPTS[:3]]
    return path


def test_collect_names_a_cut_run_and_reads_none_of_it(command: Command, cut: Path) -> None:
    data = collect(command.bench.results)
    assert data.runs.empty
    assert "the same command resumes" in data.left_out[f"adhoc/{cut.name}"]


@pytest.mark.parametrize("file", FILES)
def test_a_file_cut_anywhere_costs_only_what_is_no_longer_whole(
    command: Command, cut: Path, file: str
) -> None:
    """Careless: half a line is read as a row, or everything is measured again."""
    saved = cut.with_name("saved")
    cut.rename(saved)
    content = (saved / file).read_bytes()
    ends = [i + 1 for i, byte in enumerate(content) if byte == ord("\n")]
    assert len(ends) == 3
    for size in {0, 1, ends[0] - 1, ends[0], ends[0] + 1, (ends[0] + ends[1]) // 2, ends[2] - 1}:
        shutil.copytree(saved, cut)
        before = generations(cut)
        (cut / file).write_bytes(content[:size])
        command.run()
        whole = sum(end <= size for end in ends)
        assert command.measured == PROMPTS[whole:], size
        _as_before(cut, {key: before[key] for key in list(before)[:whole]})
        shutil.rmtree(cut)


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("garbage", [b"\0" * 40, b"\xff\x13garbage\n", b"\n\n"])
def test_damage_in_the_middle_of_a_file_costs_the_generations_it_hit(
    command: Command, cut: Path, file: str, garbage: bytes
) -> None:
    """Careless: what stands behind the damage is lost, or is taken for another generation's."""
    before = generations(cut)
    content = (cut / file).read_bytes()
    middle = content.index(b"\n") + 50
    (cut / file).write_bytes(content[:middle] + garbage + content[middle + len(garbage) :])
    command.run()
    assert command.measured == ["gsm8k-1", "gsm8k-3"]
    _as_before(cut, {key: one for key, one in before.items() if key[0] != "gsm8k-1"})


@pytest.mark.parametrize("file", FILES)
def test_a_missing_file_costs_what_stood_in_it(command: Command, cut: Path, file: str) -> None:
    """Telemetry alone may be missing: older versions wrote none."""
    before = generations(cut)
    (cut / file).unlink()
    command.run()
    optional = file == "telemetry.jsonl"
    assert command.measured == (PROMPTS[3:] if optional else PROMPTS)
    rows = {key: one.row for key, one in generations(cut).items()}
    assert (rows.items() >= {key: one.row for key, one in before.items()}.items()) == optional


def test_a_row_without_its_steps_and_steps_without_their_row_count_for_nothing(
    command: Command, cut: Path
) -> None:
    """Careless: steps are matched to rows by their place in the file."""
    requests, steps = (_lines(cut / f"{name}.jsonl") for name in ("requests", "steps"))
    (cut / "requests.jsonl").write_bytes(requests[0] + requests[1])
    (cut / "steps.jsonl").write_bytes(steps[1] + steps[2])
    before = generations(cut)["gsm8k-1", 0, 0]
    command.run()
    assert sorted(command.measured) == ["gsm8k-0", "gsm8k-2", "gsm8k-3"]
    _as_before(cut, {("gsm8k-1", 0, 0): before})


def test_copies_of_a_row_count_once(command: Command, cut: Path) -> None:
    before = generations(cut)
    for name in ("requests.jsonl", "steps.jsonl"):
        content = (cut / name).read_bytes()
        (cut / name).write_bytes(content + content)
    command.run()
    assert command.measured == ["gsm8k-3"]
    _as_before(cut, before)


def test_rows_that_contradict_each_other_are_measured_again(command: Command, cut: Path) -> None:
    """Careless: the first, or the last, is kept."""
    before = generations(cut)
    saved = (cut / "requests.jsonl").read_bytes()
    shutil.rmtree(cut)
    command.stopped(after=3)
    (cut / "requests.jsonl").write_bytes(_lines(cut / "requests.jsonl")[0] + saved)
    command.run()
    assert "gsm8k-0" in command.measured
    assert generations(cut)["gsm8k-0", 0, 0].row != before["gsm8k-0", 0, 0].row
    assert set(keys(cut).values()) == {1}


def test_half_a_warm_up_line_costs_no_other(command: Command, cut: Path) -> None:
    """Careless: the next process writes its line behind the half."""
    (cut / "warmup.jsonl").write_bytes((cut / "warmup.jsonl").read_bytes()[:-5])
    (result,) = command.run().results.values()
    (line,) = (cut / "warmup.jsonl").read_bytes().splitlines()
    parts = json.loads((cut / "provenance.json").read_text())["parts"]
    assert json.loads(line)["part"] == parts[1]["part"]
    assert [one["part"] for one in result.warmup] == [parts[1]["part"]]


def test_a_run_cut_again_while_it_is_taken_up_loses_nothing(command: Command, cut: Path) -> None:
    before = generations(cut)
    (cut / "steps.jsonl").write_bytes((cut / "steps.jsonl").read_bytes()[:-10])
    del before["gsm8k-2", 0, 0]
    command.stopped(after=0)
    assert generations(cut) == before
    command.stopped(after=1)
    command.run()
    assert command.measured == ["gsm8k-3"]
    _as_before(cut, before)


def _as_before(path: Path, before: dict[Key, Generation]) -> None:
    """The run is whole, and holds these generations byte by byte."""
    found = generations(path)
    assert {key: found.get(key) for key in before} == before
    assert sorted(found) == [(name, 0, 0) for name in PROMPTS]
    assert set(keys(path).values()) == {1}
    result = read_result(path)
    assert result is not None
    assert (result.status, result.requests_ok) == ("ok", 4)
    assert summary(path) is not None
    for one in found.values():
        assert len(one.rows("steps")) == len(one.rows("trees")) == 4
        assert sum(step["committed"] for step in one.rows("steps")) == one.values["decode_tokens"]


def _lines(file: Path) -> list[bytes]:
    return file.read_bytes().splitlines(keepends=True)

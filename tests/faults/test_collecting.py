"""What reaches a table: every run once, and no run that is not what was measured."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import compare
from harness.collect import collect
from harness.report.tables import summary
from harness.sealed import read_lines, sealed
from tests.faults.state import generations
from tests.support.again import Command
from tests.support.bench import Bench
from tests.support.collection import sample_collection
from tests.support.run_folder import write_runs
from tests.support.sample_methods import EVICT, VANILLA

Change = Callable[[dict[str, Any]], None]


@pytest.fixture
def older(tmp_path: Path) -> Path:
    """Runs as versions wrote them that kept no sums; the directory of an EVICT run."""
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 2)
    write_runs(data, tmp_path)
    chosen = data.runs[(data.runs["method"] == "evict") & ~data.runs["recorded"]]
    return tmp_path / str(chosen["run"].iloc[0])


def test_runs_of_older_versions_are_read(older: Path) -> None:
    data = collect(older.parents[1])
    assert len(data.runs) == len(list(older.parents[1].glob("*/*/result.json")))
    assert data.left_out == {}


@pytest.mark.parametrize(
    "harm",
    [
        lambda lines: lines[:-1],
        lambda lines: [*lines, lines[0]],
        lambda lines: [*lines[:-1], lines[-1][:30]],
        lambda lines: [lines[0], b"\0" * 30 + b"\n", *lines[2:]],
    ],
    ids=["fewer", "more", "half", "zeroed"],
)
def test_an_older_run_whose_rows_are_not_as_many_as_told_is_left_out_whole(
    older: Path, harm: Callable[[list[bytes]], list[bytes]]
) -> None:
    """Careless: the mean of the rows that are left."""
    lines = (older / "requests.jsonl").read_bytes().splitlines(keepends=True)
    assert len(lines) == 4
    (older / "requests.jsonl").write_bytes(b"".join(harm(lines)))
    assert "whole rows of 4: run the same command again" in _reason(older)


def _reason(run: Path) -> str:
    data = collect(run.parents[1])
    name = str(run.relative_to(run.parents[1]))
    assert data.runs.empty or name not in list(data.runs["run"])
    return data.left_out[name]


def _changed(run: Path, change: Change) -> None:
    rows = [json.loads(line) for line in (run / "requests.jsonl").read_text().splitlines()]
    change(rows[1])
    (run / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.mark.parametrize("name", ["prefill_ms", "decode_ms", "engine_ms", "wall_ms"])
def test_a_row_whose_time_is_below_zero_is_never_averaged(older: Path, name: str) -> None:
    """Careless: -744 tokens a second, or a mean that is only a little too good."""
    _changed(older, lambda row: row.update({name: -0.5}))
    assert f"{name} is -0.5: a clock went back" in _reason(older)
    assert str(older.relative_to(older.parents[1])) not in set(collect(older.parents[1]).steps.run)


def test_a_row_that_ends_before_it_starts_is_never_averaged(older: Path) -> None:
    _changed(older, lambda row: row.update(started_ms=20.0, ended_ms=10.0))
    assert "ends before it starts" in _reason(older)


def test_a_step_whose_time_is_below_zero_is_never_averaged(older: Path) -> None:
    steps = pd.read_parquet(older / "steps.parquet")
    steps.loc[3, "total_ms"] = -1.0
    steps.to_parquet(older / "steps.parquet", index=False)
    assert "total_ms is -1: a clock went back" in _reason(older)


def test_an_older_run_that_failed_in_part_is_taken_up_where_it_stands(bench: Bench) -> None:
    command = Command.of(bench, "method=vanilla")
    (path,) = command.run().runs
    rows = [json.loads(line) for line in (path / "requests.jsonl").read_bytes().splitlines()]
    plain = [{name: row[name] for name in row if name != "crc32"} for row in rows[:3]]
    (path / "requests.jsonl").write_text("".join(json.dumps(row) + "\n" for row in plain))
    result = json.loads((path / "result.json").read_text())
    result |= {"status": "partial", "requests_ok": 3, "files": {}}
    (path / "result.json").write_text(json.dumps(result))
    assert len(collect(bench.results).runs) == 1
    command.run()
    assert command.measured == ["gsm8k-3"]
    written = [json.loads(line) for line in (path / "requests.jsonl").read_bytes().splitlines()]
    assert written[:3] == rows[:3]


def test_a_time_below_zero_of_a_request_that_failed_harms_nobody(older: Path) -> None:
    _changed(older, lambda row: row.update(error_class="InconsistentTrace", wall_ms=-5.0))
    assert collect(older.parents[1]).left_out == {}


def test_rows_with_times_below_zero_are_measured_again(bench: Bench) -> None:
    command = Command.of(bench, "method=vanilla")
    path = command.stopped(after=3)
    rows = read_lines(path / "requests.jsonl")
    rows[1] = sealed(rows[1].values | {"decode_ms": -1.0})
    (path / "requests.jsonl").write_bytes(b"".join(row.raw for row in rows))
    command.run()
    assert command.measured == ["gsm8k-1", "gsm8k-3"]


def test_rows_whose_steps_do_not_add_up_are_measured_again(bench: Bench) -> None:
    """A table of an older version, without a sum, that lacks the steps of one generation."""
    command = Command.of(bench, "method=vanilla")
    (path,) = command.run().runs
    result = json.loads((path / "result.json").read_text())
    (path / "result.json").write_text(json.dumps(result | {"files": {}, "status": "partial"}))
    steps = pd.read_parquet(path / "steps.parquet")
    steps[steps["prompt_id"] != "gsm8k-2"].to_parquet(path / "steps.parquet", index=False)
    command.run()
    assert command.measured == ["gsm8k-2"]


def test_two_copies_of_a_run_count_once(bench: Bench) -> None:
    """Careless: twice the requests, half the interval."""
    (path,) = Command.of(bench, "method=vanilla").run().runs
    alone = summary(collect(bench.results))
    shutil.copytree(path, bench.results / "adhoc" / f"{path.name} (copy)")
    shutil.copytree(path, bench.results / "saved" / path.name)
    data = collect(bench.results)
    assert len(data.left_out) == 2
    assert all("copy of adhoc/" in reason for reason in data.left_out.values())
    pd.testing.assert_frame_equal(summary(data), alone)


@pytest.mark.parametrize("name", ["requests.jsonl", "steps.parquet"])
def test_a_report_on_damaged_runs_says_so_and_ends_well(
    bench: Bench, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    (path,) = Command.of(bench, "method=vanilla").run().runs
    (path / name).write_bytes(b"PAR1" + bytes(range(256)))
    assert compare.main([str(bench.results)]) == 0
    printed = capsys.readouterr().out
    assert "no finished runs" in printed
    assert f"{path.name}: {name} has changed since the run ended" in printed


def test_a_change_that_no_parser_sees_is_seen(bench: Bench) -> None:
    """Careless: a table that can be read is believed."""
    (path,) = Command.of(bench, "method=vanilla").run().runs
    before = generations(path)
    faster = pd.read_parquet(path / "steps.parquet")
    faster["verify_ms"] /= 2
    faster.to_parquet(path / "steps.parquet", index=False)
    assert "steps.parquet has changed" in _reason(path)
    rows = (path / "requests.jsonl").read_bytes()
    (path / "requests.jsonl").write_bytes(rows.replace(b'"decode_ms": 40.0', b'"decode_ms": 20.0'))
    command = Command.of(bench, "method=vanilla")
    command.run()
    assert command.measured == [key[0] for key in before]
    assert b'"decode_ms": 20.0' not in (path / "requests.jsonl").read_bytes()

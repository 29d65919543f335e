"""Cases 41 and 42: a run that was cut, and a sweep of which one setting fails."""

from __future__ import annotations

import json
import logging
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.collect import collect
from harness.engines.base import Method, Request
from harness.store import read_result
from tests.support.again import Command, TreesEngine
from tests.support.bench import Bench, rows
from tests.support.command import run_py
from tests.support.fake_engine import FakeEngine

SWEEP = (
    "-m",
    "method=vanilla",
    "benchmark=qa",
    "limit=1",
    "max_new_tokens=4",
    "warmup_prompts=0",
    "machine=shared",
    "engine=torch",
    "engine.process.isolated=false",
    "engine.threads=1,-1,2",
)


def test_case_41_half_a_line_is_dropped_and_the_prompts_after_it_run(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    """Careless: half a row is repaired or kept, or rows are appended and doubles dropped later."""
    command = Command.of(bench, "method=vanilla")
    path = command.stopped(after=3)
    lines = (path / "requests.jsonl").read_bytes().splitlines(keepends=True)
    (path / "requests.jsonl").write_bytes(lines[0] + lines[1] + lines[2][:40])
    with caplog.at_level(logging.WARNING):
        command.run()
    assert "1 broken lines are left out" in caplog.text
    assert command.measured == ["gsm8k-2", "gsm8k-3"]
    assert (path / "requests.jsonl").read_bytes().startswith(lines[0] + lines[1])
    assert [row["prompt_id"] for row in rows(path)] == [f"gsm8k-{i}" for i in range(4)]
    assert len(json.loads((path / "provenance.json").read_text())["parts"]) == 2


def test_case_41_rows_of_two_servers_are_a_mixed_session_and_no_speed(
    bench: Bench, compared: Callable[[], dict[str, Any]]
) -> None:
    """Careless: the speeds of both parts are averaged."""
    command = Command.of(bench, "method=evict", "compare=[vanilla]")
    with pytest.raises(KeyboardInterrupt):
        command.run(FakeEngine(fail=_stop_at("gsm8k-2")))
    results = command.run(FakeEngine(device="elsewhere")).results.values()
    assert [(result.status, result.machine_hash) for result in results] == [("ok", None)] * 2
    assert all("engine or machine differ" in "; ".join(one.reasons) for one in results)
    data = collect(bench.results)
    assert ["mixed_session" in codes for codes in data.runs["verdict_codes"]] == [True, True]
    assert (
        compared()["evict"]["vs_plain"] is None
        or compared()["evict"]["vs_plain"] != (compared()["evict"]["vs_plain"])
    )


def test_case_41_a_run_whose_rows_one_server_made_is_no_mixed_session(bench: Bench) -> None:
    """Careless: a server that made no row, or whose rows all failed, spoils those of another."""
    command = Command.of(bench, "method=vanilla")
    with pytest.raises(KeyboardInterrupt):
        command.run(FakeEngine(device="elsewhere", fail=_stop_at("gsm8k-0")))
    (result,) = command.run().results.values()
    assert result.machine_hash is not None
    assert "mixed_session" not in collect(bench.results).runs["verdict_codes"][0]


def test_case_41_the_summary_appears_whole_and_after_everything_else(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Careless: result.json is opened and written while steps are still being folded."""
    seen: list[str] = []
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        if target.name == "result.json":
            assert json.loads(source.read_text())["status"] == "ok"
            seen.extend(sorted(file.name for file in target.parent.iterdir()))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    (path,) = Command.of(bench, "method=vanilla").run().runs
    assert {"requests.jsonl", "steps.parquet", "telemetry.parquet"} <= set(seen)
    assert "result.json" not in seen
    assert not list(path.glob("*steps.jsonl"))


def test_case_42_of_three_settings_one_fails_and_the_others_finish(tmp_path: Path) -> None:
    """Careless: the sweep ends with the failure, exits 0, or measures everything again."""
    first = _sweep(tmp_path)
    assert first.returncode == 1
    assert "1 of 3 jobs failed" in first.stderr
    (line,) = [line for line in first.stderr.splitlines() if line.strip().endswith("RuntimeError")]
    assert "engine.threads=-1" in line
    ended = {file: file.read_bytes() for file in tmp_path.glob("*/*/requests.jsonl")}
    assert len(ended) == 2
    assert len(collect(tmp_path).runs) == 2
    second = _sweep(tmp_path)
    assert second.returncode == 1
    assert second.stdout.count("1 of 1 runs were finished before") == 2
    assert {file: file.read_bytes() for file in tmp_path.glob("*/*/requests.jsonl")} == ended


def _sweep(results: Path) -> subprocess.CompletedProcess[str]:
    return run_py(*SWEEP, f"results_dir={results}")


def test_case_42_a_failed_run_is_not_done_although_its_summary_is_there(bench: Bench) -> None:
    """Careless: a directory with a result.json is skipped."""
    command = Command.of(bench, "method=vanilla")
    (path,) = command.run(FakeEngine(fail=_refuse)).runs
    assert read_result(path).status == "failed"  # type: ignore[union-attr]
    assert "failed" in collect(bench.results).left_out[f"adhoc/{path.name}"]
    outcome = command.run()
    assert (outcome.skipped, outcome.results[path].status) == ([], "ok")
    assert command.run(TreesEngine()).skipped == [path]


def test_case_42_a_partial_run_is_not_done_either(bench: Bench) -> None:
    command = Command.of(bench, "method=vanilla")
    (path,) = command.run(FakeEngine(fail=lambda r, m: _refuse(r, m, "gsm8k-1"))).runs
    assert read_result(path).status == "partial"  # type: ignore[union-attr]
    assert command.run().skipped == []
    assert command.measured == ["gsm8k-1"]


def _refuse(request: Request, method: Method, only: str = "gsm8k") -> None:
    if request.prompt_id.startswith(only):
        raise RuntimeError("boom")


def _stop_at(prompt: str) -> Callable[[Request, Method], None]:
    def stop(request: Request, method: Method) -> None:
        if request.prompt_id == prompt:
            raise KeyboardInterrupt

    return stop

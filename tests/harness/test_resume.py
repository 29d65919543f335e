from __future__ import annotations

import errno
import json
import logging
from pathlib import Path

import pandas as pd
import pytest

from harness import store
from harness.engines.base import Method, Request
from tests.support.bench import Bench, only, rows
from tests.support.fake_engine import FakeEngine

VANILLA = "method=vanilla"


def test_a_finished_run_is_skipped_without_opening_the_engine(bench: Bench) -> None:
    first = only(bench, VANILLA)
    content = (first / "requests.jsonl").read_bytes()
    bench.engine = FakeEngine()
    outcome = bench.run(VANILLA)
    assert outcome.skipped == [first]
    assert bench.engine.calls == []
    assert (first / "requests.jsonl").read_bytes() == content


@pytest.mark.parametrize("change", ["max_new_tokens=64", "temperature=1", "seed=3", "repeats=2"])
def test_what_changes_a_measurement_changes_the_directory(bench: Bench, change: str) -> None:
    assert only(bench, VANILLA) != only(bench, VANILLA, change)


@pytest.mark.parametrize("change", ["log_level=INFO", "warmup_prompts=1", "allow_partial=true"])
def test_what_does_not_change_a_measurement_keeps_it(bench: Bench, change: str) -> None:
    path = only(bench, VANILLA)
    assert bench.run(VANILLA, change).skipped == [path]


def test_case_41_a_cut_run_resumes_after_its_last_whole_row(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    path = only(bench, VANILLA)
    reference = rows(path)
    lines = (path / "requests.jsonl").read_bytes().splitlines(keepends=True)
    steps = pd.read_parquet(path / "steps.parquet")
    cut(path, lines[0] + lines[1] + lines[2][:40])
    bench.engine = FakeEngine()
    with caplog.at_level(logging.WARNING):
        bench.run(VANILLA)
    assert "broken line" in caplog.text
    assert (path / "requests.jsonl").read_bytes().startswith(lines[0] + lines[1])
    assert [row["prompt_id"] for row in rows(path)] == [row["prompt_id"] for row in reference]
    assert [prompt for prompt, _ in bench.measured] == ["gsm8k-2", "gsm8k-3"]
    pd.testing.assert_frame_equal(pd.read_parquet(path / "steps.parquet"), steps)
    assert len(json.loads((path / "provenance.json").read_text())["parts"]) == 2


def cut(path: Path, requests: bytes) -> None:
    """Bring a finished run into the state that a kill in the middle of a row leaves."""
    frame = json.loads(pd.read_parquet(path / "steps.parquet").to_json(orient="records"))
    keys = dict.fromkeys(step["prompt_id"] for step in frame)
    lines = [
        json.dumps(
            [
                {k: v for k, v in step.items() if k not in ("prompt_id", "turn", "repeat")}
                for step in frame
                if step["prompt_id"] == key
            ]
        )
        for key in list(keys)[:3]
    ]
    (path / "steps.jsonl").write_text("".join(line + "\n" for line in lines))
    (path / "requests.jsonl").write_bytes(requests)
    (path / "result.json").unlink()
    (path / "steps.parquet").unlink()


def test_an_interrupt_leaves_finished_rows_and_no_result(bench: Bench) -> None:
    def interrupt(request: Request, method: Method) -> None:
        if request.prompt_id == "gsm8k-2":
            raise KeyboardInterrupt

    bench.engine = FakeEngine(fail=interrupt)
    with pytest.raises(KeyboardInterrupt):
        bench.run(VANILLA)
    (path,) = (bench.results / "adhoc").iterdir()
    assert len(rows(path)) == 2
    assert not (path / "result.json").exists()
    assert bench.engine.closed
    bench.engine = FakeEngine()
    bench.run(VANILLA)
    assert [prompt for prompt, _ in bench.measured] == ["gsm8k-2", "gsm8k-3"]
    assert store.read_result(path).status == "ok"  # type: ignore[union-attr]


def test_a_full_disk_leaves_finished_rows_and_no_result(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = store._write_line
    count = iter(range(100))

    def full(file: object, values: object) -> None:
        if next(count) >= 5:
            raise OSError(errno.ENOSPC, "No space left on device")
        written(file, values)  # type: ignore[arg-type]

    monkeypatch.setattr(store, "_write_line", full)
    with pytest.raises(OSError, match="No space left"):
        bench.run(VANILLA)
    (path,) = (bench.results / "adhoc").iterdir()
    assert not (path / "result.json").exists()
    assert len(rows(path)) == 2
    monkeypatch.undo()
    bench.engine = FakeEngine()
    bench.run(VANILLA)
    assert len(bench.measured) == 2
    assert len(pd.read_parquet(path / "steps.parquet")) == 16


def test_case_11_a_failed_request_is_a_row_without_timings(bench: Bench) -> None:
    def fail(request: Request, method: Method) -> None:
        if request.prompt_id == "gsm8k-1":
            raise RuntimeError("boom")

    bench.engine = FakeEngine(fail=fail)
    outcome = bench.run(VANILLA)
    (path,) = outcome.runs
    (bad,) = [row for row in rows(path) if row["error_class"]]
    assert (bad["error_class"], bad["error_message"]) == ("RuntimeError", "boom")
    assert bad["decode_ms"] is bad["prefill_ms"] is bad["engine_ms"] is None
    result = outcome.results[path]
    assert (result.status, result.requests_ok, result.requests_error) == ("partial", 3, 1)
    assert outcome.exit_code(False) == 1
    assert outcome.exit_code(True) == 0
    bench.engine = FakeEngine()
    again = bench.run(VANILLA)
    assert [prompt for prompt, _ in bench.measured] == ["gsm8k-1"]
    assert again.results[path].status == "ok"
    assert len(pd.read_parquet(path / "steps.parquet")) == 16


def test_case_42_a_failed_run_is_not_done(bench: Bench) -> None:
    def fail(request: Request, method: Method) -> None:
        if not request.prompt_id.startswith("calibration"):
            raise RuntimeError("boom")

    bench.engine = FakeEngine(fail=fail)
    outcome = bench.run(VANILLA)
    (path,) = outcome.runs
    assert outcome.results[path].status == "failed"
    assert outcome.exit_code(True) == 1
    bench.engine = FakeEngine()
    assert bench.run(VANILLA).results[path].status == "ok"

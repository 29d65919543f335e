from __future__ import annotations

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
    assert len(pd.read_parquet(path / "steps.parquet")) == 32

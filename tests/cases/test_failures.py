"""Case 11: a failed request is its own row, and in no statistic."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.collect import collect
from harness.engines.base import Method, Request, RequestTrace
from tests.support.bench import Bench, rows
from tests.support.steps import ScriptedEngine, steps, trace

TIMES = ("prefill_ms", "decode_ms", "engine_ms")


def script(request: Request, method: Method) -> RequestTrace:
    """The second prompt is refused by the engine; the third stops half-way through its steps."""
    if request.prompt_id == "gsm8k-1":
        raise RuntimeError("HTTP 500")
    found = trace(steps(*[(0, 1, 0)] * 8))
    if request.prompt_id == "gsm8k-2":
        found.output_ids, found.decode_ms = found.output_ids[:5], 1.0
    return found


def cut_off(request: Request, method: Method) -> RequestTrace:
    """The same, but the engine says itself that the third one is not whole."""
    if request.prompt_id == "gsm8k-2":
        raise ConnectionError("the stream ended after 5 tokens")
    return script(request, method)


@pytest.fixture
def failing(bench: Bench) -> Bench:
    bench.questions = [["one?"], ["two?"], ["three?"]]
    bench.engine = ScriptedEngine(script=script)
    return bench


def test_case_11_one_is_ok_one_failed_and_one_is_incomplete(failing: Bench) -> None:
    """Careless: three successes, or a run that ends with the first failure."""
    outcome = failing.run("method=vanilla")
    (result,) = outcome.results.values()
    assert (result.status, result.requests_ok, result.requests_error) == ("partial", 1, 2)
    assert sorted(result.reasons) == [
        "1 of 3 requests: InconsistentTrace",
        "1 of 3 requests: RuntimeError",
    ]
    assert outcome.exit_code(allow_partial=False) == 1
    assert outcome.exit_code(allow_partial=True) == 0


def test_case_11_an_error_row_says_what_happened_and_holds_no_numbers(failing: Bench) -> None:
    """Careless: the previous request's time and steps are stored again under the failed one."""
    (path,) = failing.run("method=vanilla").runs
    good, refused, stopped = rows(path)
    assert (good["error_class"], good["decode_ms"]) == (None, 80.0)
    assert (refused["error_class"], refused["error_message"]) == ("RuntimeError", "HTTP 500")
    assert stopped["error_class"] == "InconsistentTrace"
    assert "8 tokens, decode returned 4" in str(stopped["error_message"])
    for row in (refused, stopped):
        assert [row[name] for name in TIMES] == [None] * 3
        assert (row["output_ids"], row["text"]) == ([], "")
    written = pd.read_parquet(path / "steps.parquet")
    assert list(written["prompt_id"].unique()) == ["gsm8k-0"]


def test_case_11_statistics_come_from_the_good_request_alone(
    failing: Bench, compared: Callable[[], dict[str, Any]]
) -> None:
    """Careless: the half request's 1 ms makes the method look fast."""
    failing.engine = ScriptedEngine(script=cut_off)
    failing.run("method=vanilla")
    row = compared()["vanilla"]
    assert (row["requests"], row["steps"], row["mat"]) == (1, 8, 1.0)
    assert row["decode_tokens_per_s"] == pytest.approx(100.0)


def test_case_11_counters_that_contradict_each_other_leave_no_statistics(
    failing: Bench, compared: Callable[[], dict[str, Any]]
) -> None:
    """Careless: an engine that miscounted once is believed the other times."""
    failing.run("method=vanilla")
    assert "counters_inconsistent" in collect(failing.results).runs["verdict_codes"][0]
    assert pd.isna(compared()["vanilla"]["mat"])


def test_case_11_the_same_command_measures_the_failed_ones_again(failing: Bench) -> None:
    """Careless: a directory that exists counts as done."""
    (path,) = failing.run("method=vanilla").runs
    before = _lines(path)
    failing.engine = ScriptedEngine(script=lambda request, method: trace(steps((0, 1, 0))))
    (result,) = failing.run("method=vanilla").results.values()
    assert (result.status, result.requests_ok, result.requests_error) == ("ok", 3, 0)
    assert [prompt for prompt, _ in failing.measured] == ["gsm8k-1", "gsm8k-2"]
    assert _lines(path)[0] == before[0]


def _lines(path: Path) -> list[str]:
    return (path / "requests.jsonl").read_text().splitlines()

"""A crash, an exhausted memory or a hang ends the cell that met it, and no other."""

from __future__ import annotations

import json
from pathlib import Path

from harness.engines.base import EngineLost, Method, Request
from tests.support.bench import Bench, rows
from tests.support.fake_engine import FakeEngine

ARMS = ("method=evict", "compare=[vanilla,eagle3]")


def lose(method: str, prompt: str) -> object:
    def fail(request: Request, running: Method) -> None:
        if running.name == method and request.prompt_id.startswith(prompt):
            raise EngineLost("signal 11 (SIGSEGV) after 0.3 s")

    return fail


def by_method(paths: list[Path]) -> dict[str, Path]:
    return {path.name.split("-")[1]: path for path in paths}


def result(path: Path) -> dict[str, object]:
    return json.loads((path / "result.json").read_text())


def test_the_cell_ends_and_the_others_go_on_after_a_new_warm_up(bench: Bench) -> None:
    bench.engine.fail = lose("eagle3", "gsm8k-1")
    outcome = bench.run(*ARMS)
    paths = by_method(outcome.runs)
    assert [len(rows(paths[name])) for name in ("evict", "vanilla", "eagle3")] == [4, 4, 2]
    ended = result(paths["eagle3"])
    assert (ended["status"], ended["requests_ok"], ended["requests_missing"]) == ("partial", 1, 2)
    assert "2 generations not made: EngineLost: signal 11" in str(ended["reasons"])
    assert [result(paths[name])["status"] for name in ("evict", "vanilla")] == ["ok", "ok"]
    calls = bench.engine.calls
    lost = calls.index(("gsm8k-1", "eagle3"))
    assert {call[1] for call in calls[lost + 1 : lost + 3]} == {"evict", "vanilla"}
    assert all(call[0].startswith("calibration") for call in calls[lost + 1 : lost + 3])
    assert outcome.exit_code(allow_partial=False) == 1
    assert list(outcome.unfinished()) == [paths["eagle3"].name]


def test_the_row_that_lost_the_engine_has_no_times(bench: Bench) -> None:
    bench.engine.fail = lose("eagle3", "gsm8k-1")
    row = rows(by_method(bench.run(*ARMS).runs)["eagle3"])[-1]
    assert row["error_class"] == "EngineLost"
    times = ("started_ms", "ended_ms", "engine_ms", "prefill_ms", "decode_ms")
    assert [row[name] for name in times] == [None] * 5


def test_the_same_command_runs_only_what_failed(bench: Bench) -> None:
    bench.engine.fail = lose("eagle3", "gsm8k-1")
    first = by_method(bench.run(*ARMS).runs)["eagle3"]
    kept = (first / "requests.jsonl").read_bytes().splitlines()[0]
    bench.engine.fail = None
    before = len(bench.measured)
    outcome = bench.run(*ARMS)
    assert bench.measured[before:] == [(f"gsm8k-{i}", "eagle3") for i in (1, 2, 3)]
    assert (first / "requests.jsonl").read_bytes().splitlines()[0] == kept
    assert result(first)["status"] == "ok"
    assert outcome.exit_code(allow_partial=False) == 0


def test_an_engine_lost_in_warm_up_ends_that_method_alone(bench: Bench) -> None:
    bench.engine.fail = lose("eagle3", "calibration")
    paths = by_method(bench.run(*ARMS).runs)
    ended = result(paths["eagle3"])
    assert (ended["status"], ended["requests_missing"]) == ("failed", 4)
    assert "in warm-up" in str(ended["reasons"])
    assert [result(paths[name])["status"] for name in ("evict", "vanilla")] == ["ok", "ok"]


def test_a_method_lost_on_one_benchmark_is_tried_on_the_next(bench: Bench) -> None:
    bench.engine.fail = lose("eagle3", "alpaca")
    outcome = bench.run(*ARMS, "benchmark=all", "benchmark.path=null", "limit=1")
    failed = [path.name for path in outcome.runs if result(path)["status"] != "ok"]
    assert len(outcome.runs) == 18
    assert [name.split("-T")[0] for name in failed] == ["lab-eagle3-alpaca"]


def test_an_engine_found_dead_between_repeats_ends_nothing(bench: Bench) -> None:
    class Dead(FakeEngine):
        def forget(self) -> None:
            super().forget()
            if self.forgotten == 2:
                raise EngineLost("ended with signal 9 (SIGKILL)")

    bench.engine = Dead()
    outcome = bench.run(*ARMS, "repeats=2")
    assert [result(path)["status"] for path in outcome.runs] == ["ok"] * 3
    assert sum(call[0].startswith("calibration") for call in bench.engine.calls) == 6

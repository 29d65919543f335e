from __future__ import annotations

import json

import pandas as pd
import pytest

from evict.errors import InputError
from harness.engines.base import Method
from tests.support.bench import Bench, only, rows
from tests.support.fake_engine import FakeEngine

VANILLA = "method=vanilla"


def test_a_run_directory_holds_what_the_design_says(bench: Bench) -> None:
    path = only(bench, "method=evict")
    assert path.parent == bench.results / "adhoc"
    assert path.name.startswith("lab-evict-gsm8k-T0-torch-")
    assert {file.name for file in path.iterdir()} == {
        "config.yaml",
        "provenance.json",
        "requests.jsonl",
        "steps.parquet",
        "telemetry.parquet",
        "warmup.jsonl",
        "cost_table.json",
        "result.json",
    }
    result = json.loads((path / "result.json").read_text())
    assert (result["status"], result["schema_version"], result["requests_ok"]) == ("ok", 2, 4)
    assert 0 < result["engine_ms"] <= result["wall_ms"]
    steps = pd.read_parquet(path / "steps.parquet")
    assert len(steps) == 16
    assert bench.engine.closed


def test_methods_are_interleaved_and_the_order_alternates(bench: Bench) -> None:
    outcome = bench.run("method=evict", "compare=[vanilla,eagle3]")
    forward = ["evict", "vanilla", "eagle3"]
    seen = [method for _, method in bench.measured]
    assert seen == forward + forward[::-1] + forward + forward[::-1]
    assert [row["order"] for row in rows(outcome.runs[0])] == [0, 2, 0, 2]
    assert [row["order"] for row in rows(outcome.runs[1])] == [1, 1, 1, 1]


def test_the_seed_depends_on_prompt_and_repeat_but_not_on_the_method(bench: Bench) -> None:
    outcome = bench.run("method=evict", "compare=[vanilla]", "repeats=2")
    seeds = [[row["seed"] for row in rows(path)] for path in outcome.runs]
    assert seeds[0] == seeds[1]
    assert len(set(seeds[0])) == 8


def test_case_24_the_second_turn_holds_the_first_answer(bench: Bench) -> None:
    bench.questions = [["first?", "second?"], ["third?", "fourth?"]]
    path = only(bench, VANILLA)
    written = rows(path)
    assert [(row["prompt_id"], row["turn"]) for row in written] == [
        ("gsm8k-0", 0),
        ("gsm8k-0", 1),
        ("gsm8k-1", 0),
        ("gsm8k-1", 1),
    ]
    second = [prompt for prompt in bench.engine.prompts if "second?" in prompt]
    assert second == [f"<user>first?<assistant>{written[0]['text']}<user>second?"]


def test_case_22_warm_up_prompts_are_never_measured(bench: Bench) -> None:
    bench.questions = [["warm up"]]
    with pytest.raises(InputError, match="also measured"):
        bench.run(VANILLA)
    assert not bench.results.exists()


def test_a_prompt_that_is_too_long_stops_the_run_before_it_starts(bench: Bench) -> None:
    bench.engine = FakeEngine(context_length=140)
    bench.questions = [["short"], ["x" * 40]]
    with pytest.raises(InputError, match=r"gsm8k-1 is too long.*46 tokens.*<= 12"):
        bench.run(VANILLA)
    assert not bench.results.exists()


@pytest.mark.parametrize(("rule", "kept"), [("tail", "abcdef"), ("middle", "abcxyz")])
def test_truncation_follows_the_rule_and_is_recorded(bench: Bench, rule: str, kept: str) -> None:
    bench.engine = FakeEngine(context_length=140)
    bench.questions = [["abcdefghijklmnopqrstuvwxyz"]]
    outcome = bench.run(VANILLA, f"truncate={rule}", "warmup_prompts=0")
    (path,) = outcome.runs
    assert bench.engine.prompts == [f"<user>{kept}"]
    assert rows(path)[0]["truncated_tokens"] == 20
    assert outcome.results[path].truncated_requests == 1


def test_a_cost_table_is_measured_once_and_used_again(bench: Bench) -> None:
    bench.run("method=evict")
    bench.run("method=evict", "seed=1")
    bench.run("method=evict", "method.scores=beta")
    assert bench.profiler.calls == 1
    bench.engine.device = "another processor"
    bench.run("method=evict", "seed=2")
    assert bench.profiler.calls == 2


def test_profile_never_refuses_to_measure_and_profile_only_measures_nothing_else(
    bench: Bench,
) -> None:
    with pytest.raises(InputError, match="no cost table fits"):
        bench.run("method=evict", "profile=never")
    outcome = bench.run("method=evict", "profile=only")
    assert bench.measured == []
    (folder,) = outcome.cost_folders
    assert (folder / "cost_table.json").is_file()
    assert bench.run("method=evict", "profile=never").exit_code(False) == 0


def test_vanilla_needs_no_cost_table(bench: Bench) -> None:
    only(bench, VANILLA)
    assert bench.profiler.calls == 0


def test_counters_that_contradict_each_other_make_no_number(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = FakeEngine._step

    def lying(self: FakeEngine, index: int, method: Method) -> object:
        step = honest(self, index, method)
        step.accepted = 7
        return step

    monkeypatch.setattr(FakeEngine, "_step", lying)
    outcome = bench.run(VANILLA)
    assert outcome.results[outcome.runs[0]].status == "failed"
    assert rows(outcome.runs[0])[0]["error_class"] == "InconsistentTrace"


def test_nothing_is_written_outside_the_results_folder(bench: Bench) -> None:
    bench.overrides()
    before = set(bench.folder.iterdir())
    only(bench, "method=evict")
    assert set(bench.folder.iterdir()) - before == {bench.results}


def test_every_repeat_starts_from_an_engine_that_remembers_nothing(bench: Bench) -> None:
    bench.run(VANILLA, "repeats=3")
    assert bench.engine.forgotten == 3


def test_methods_that_cannot_share_an_engine_run_in_parts_and_repeats_visit_them_in_turn(
    bench: Bench,
) -> None:
    bench.engine.live = 2
    outcome = bench.run("method=evict", "compare=[vanilla,eagle3]", "repeats=2", "profile=auto")
    seen = [method for _, method in bench.measured]
    pair, alone = ["evict", "vanilla"], ["eagle3"] * 4
    assert seen[:12] == pair + pair[::-1] + pair + pair[::-1] + alone
    assert seen[12:] == alone + pair[::-1] + pair + pair[::-1] + pair
    assert [len(rows(path)) for path in outcome.runs] == [8, 8, 8]
    assert outcome.exit_code(False) == 0


def test_every_part_is_warmed_up_before_it_is_measured(bench: Bench) -> None:
    bench.engine.live = 1
    bench.run("method=evict", "compare=[vanilla]")
    kinds = [(name, prompt.startswith("calibration")) for prompt, name in bench.engine.calls]
    assert (
        kinds
        == [("evict", True)]
        + [("evict", False)] * 4
        + [("vanilla", True)]
        + [("vanilla", False)] * 4
    )


def test_parts_that_were_cut_are_taken_up_where_they_stood(bench: Bench) -> None:
    bench.engine.live = 1

    def cut(request: object, method: Method) -> None:
        if method.name == "vanilla" and len(bench.measured) > 6:
            raise KeyboardInterrupt

    bench.engine.fail = cut
    with pytest.raises(KeyboardInterrupt):
        bench.run("method=evict", "compare=[vanilla]")
    bench.engine.fail = None
    before = len(bench.measured)
    outcome = bench.run("method=evict", "compare=[vanilla]")
    assert len(bench.measured) - before == 2
    assert [len(rows(path)) for path in outcome.runs] == [4, 4]

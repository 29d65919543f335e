from __future__ import annotations

import json
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness import compare
from harness.collect import collect
from harness.collection import Collection
from harness.engines.base import Method, Request
from harness.equality import NextTokens
from harness.report.render import NO_DIFFERENCE, notes, print_summary, speedup_text
from harness.report.tables import TABLES, summary
from tests.support.bench import Bench
from tests.support.fake_engine import FakeEngine


def table_of(bench: Bench) -> dict[str, dict[str, object]]:
    frame = summary(collect(bench.results))
    return {str(row["method"]): row for row in frame.to_dict("records")}  # type: ignore[misc]


def test_every_number_follows_from_the_records(bench: Bench) -> None:
    bench.run("method=evict", "compare=[vanilla,eagle3]")
    rows = table_of(bench)
    evict, vanilla = rows["evict"], rows["vanilla"]
    assert vanilla["decode_tokens_per_s"] == pytest.approx(100.0)
    assert vanilla["e2e_tokens_per_s"] == pytest.approx(9 / 0.083)
    assert (vanilla["mat"], vanilla["mean_k"], vanilla["experts_per_layer"]) == (1.0, 1.0, 2.0)
    assert evict["decode_tokens_per_s"] == pytest.approx(8 / 0.048)
    assert (evict["mat"], evict["mean_k"], evict["experts_per_layer"]) == (2.0, 4.0, 5.0)
    shares = [evict[f"{stage}_share"] for stage in ("draft", "verify", "extend", "other")]
    assert shares == pytest.approx([3 / 12, 8 / 12, 1 / 12, 0.0])
    assert evict["vs_plain"] == pytest.approx(10 / 6)
    assert evict["vs_plain_time_ratio"] == pytest.approx(10 / 6)
    assert (evict["vs_plain_prompts"], evict["vs_plain_interleaved"]) == (4, 1.0)


def test_case_10_identical_arms_differ_by_exactly_nothing(bench: Bench) -> None:
    bench.run("method=evict", "compare=[eagle3]")
    evict = table_of(bench)["evict"]
    assert evict["vs_full"] == 1.0
    assert evict["vs_full_time_ratio"] == 1.0
    assert NO_DIFFERENCE in speedup_text(evict, "full")  # type: ignore[arg-type]


def test_baselines_from_another_process_count_and_are_marked(bench: Bench) -> None:
    bench.run("method=vanilla")
    outcome = bench.run("method=evict")
    data = outcome.collect(bench.results)
    table = summary(data)
    assert len(table) == 2
    evict = table_of(bench)["evict"]
    assert evict["vs_plain"] == pytest.approx(10 / 6)
    assert evict["vs_plain_interleaved"] == 0.0
    assert any("interleaved" in line for line in notes(table, data))


def test_runs_of_other_settings_or_machines_are_never_paired(bench: Bench) -> None:
    bench.run("method=vanilla", "max_new_tokens=64")
    bench.run("method=vanilla")
    bench.engine = FakeEngine(device="elsewhere")
    bench.run("method=evict")
    frame = summary(collect(bench.results))
    assert frame.loc[frame["method"] == "evict", "vs_plain"].isna().all()


def test_case_24_turns_that_saw_different_histories_are_left_out(bench: Bench) -> None:
    bench.questions = [["first?", "second?"], ["third?", "fourth?"]]

    class Wandering(FakeEngine):
        def generate(self, request, method, seed, observer=None):  # type: ignore[no-untyped-def]
            trace = super().generate(request, method, seed, observer)
            trace.text += method.name
            return trace

    bench.engine = Wandering()
    bench.run("method=evict", "compare=[vanilla]")
    evict = table_of(bench)["evict"]
    assert (evict["vs_plain_prompts"], evict["vs_plain_excluded"]) == (2, 4)


class Lossy(FakeEngine):
    """Plain decoding ends one answer with another token than drafted decoding does."""

    parted: tuple[int, int] = (0, 0)

    def generate(self, request, method, seed, observer=None):  # type: ignore[no-untyped-def]
        trace = super().generate(request, method, seed, observer)
        if not method.speculative and request.prompt_id == "gsm8k-2":
            self.parted = (trace.output_ids[-1], trace.output_ids[-1] + 1)
            trace.output_ids[-1] += 1
        return trace


class NearTie(Lossy):
    """The same, where the two tokens are all but equally likely."""

    def top_gap(self, ids):  # type: ignore[no-untyped-def]
        return NextTokens(self.parted, (0.0, 0.0005))


def test_case_29_a_greedy_output_that_differs_without_excuse_fails_its_run(bench: Bench) -> None:
    bench.engine = Lossy()
    outcome = bench.run("method=vanilla", "compare=[fixed_k]")
    assert outcome.exit_code(allow_partial=True) == 1
    data = collect(bench.results)
    row = table_of(bench)["fixed_k"]
    assert row["time_doubt"] == row["counts_doubt"] == "invalid: outputs_differ"
    assert pd.isna(row["decode_tokens_per_s"])
    assert pd.isna(row["mat"])
    (fault,) = TABLES["outputs"].build(data).to_dict("records")
    assert (fault["pairs"], fault["equal"], fault["fault"]) == (4, 3, 1)
    assert any("outputs_differ" in line for line in notes(summary(data), data))


def test_case_29_a_near_tie_is_counted_and_excused(bench: Bench) -> None:
    bench.engine = NearTie()
    bench.run("method=vanilla", "compare=[fixed_k]")
    (row,) = TABLES["outputs"].build(collect(bench.results)).to_dict("records")
    assert (row["pairs"], row["equal"], row["near_tie"], row["fault"]) == (4, 3, 1, 0)
    assert row["first_divergence"] == 8


def test_a_block_without_a_baseline_says_what_to_run(bench: Bench) -> None:
    bench.run("method=evict", "compare=[eagle3]")
    data = collect(bench.results)
    (line,) = [line for line in notes(summary(data), data) if "no run of" in line]
    assert "no run of plain decoding with the same settings" in line
    assert "compare=[vanilla]" in line
    assert "engine torch, T=0" in line


def test_a_run_without_a_partner_is_named(bench: Bench) -> None:
    bench.run("method=evict", "compare=[vanilla,eagle3]")
    bench.run("method=evict", "benchmark.name=qa")
    data = collect(bench.results)
    lines = [line for line in notes(summary(data), data) if "to pair with" in line]
    assert len(lines) == 2
    assert all(line.endswith("to pair with: EVICT on qa.") for line in lines)


def test_rows_of_two_machines_are_said_to_be_so(bench: Bench) -> None:
    bench.run("method=vanilla")
    bench.engine = FakeEngine(device="elsewhere")
    bench.run("method=evict")
    data = collect(bench.results)
    assert any("2 machines" in line for line in notes(summary(data), data))


def test_a_methods_remark_stands_under_the_table(bench: Bench) -> None:
    bench.run("method=evict", "method.remark='kept for one request'")
    data = collect(bench.results)
    assert "EVICT: kept for one request." in notes(summary(data), data)


def test_failed_requests_stay_out_and_are_named(bench: Bench) -> None:
    def fail(request: Request, method: Method) -> None:
        if request.prompt_id == "gsm8k-1" and method.name == "evict":
            raise RuntimeError("boom")

    bench.engine = FakeEngine(fail=fail)
    bench.run("method=evict", "compare=[vanilla]")
    data = collect(bench.results)
    evict = table_of(bench)["evict"]
    assert (evict["requests"], evict["vs_plain_prompts"], evict["vs_plain_excluded"]) == (3, 3, 1)
    assert any("1 of 4 requests: RuntimeError" in line for line in notes(summary(data), data))


def test_unfinished_runs_are_counted_and_named(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    (path,) = bench.run("method=vanilla").runs
    (path / "result.json").unlink()
    assert compare.main([str(bench.results)]) == 0
    printed = capsys.readouterr().out
    assert "no finished runs" in printed
    assert f"{path.name}: cut" in printed


def test_the_printed_table_says_lab_model_and_scores(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("method=evict", "compare=[vanilla]", "method.scores=beta")
    data = collect(bench.results)
    print_summary(summary(data), data)
    printed = capsys.readouterr().out
    assert "lab model" in printed
    assert "*: draft scores corrected" in printed
    assert "EVICT *" in printed
    assert "vs vanilla" in printed
    assert "time outside the engine" in printed


def test_the_printed_table_says_once_that_nothing_shows_its_times_to_be_right(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("method=evict", "compare=[vanilla]")
    data = collect(bench.results)
    print_summary(summary(data), data)
    printed = capsys.readouterr().out
    assert printed.count("All speeds and times are unknown: ") == 1
    assert "prefix_cache_unknown (" in printed
    assert " ?" not in printed
    assert "invalid" not in printed


def test_a_lossy_method_is_marked(bench: Bench, capsys: pytest.CaptureFixture[str]) -> None:
    bench.run("method=eagle3", "method.lossless=false")
    data = collect(bench.results)
    print_summary(summary(data), data)
    printed = capsys.readouterr().out
    assert "EAGLE-3 !" in printed
    assert "not lossless" in printed


def test_overall_pools_the_benchmarks(bench: Bench) -> None:
    bench.run("method=evict", "compare=[vanilla]")
    bench.run("method=evict", "compare=[vanilla]", "benchmark.name=qa")
    frame = summary(collect(bench.results))
    overall = frame[(frame["benchmark"] == "all") & (frame["method"] == "evict")].iloc[0]
    assert (overall["requests"], overall["vs_plain_prompts"]) == (8, 8)


def test_compare_prints_the_same_numbers_from_files_alone(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.run("method=evict", "compare=[vanilla]")
    assert compare.main([str(bench.results), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    found = {row["method"]: row["vs_plain"] for row in document["rows"]}
    assert found["evict"] == pytest.approx(10 / 6)
    assert found["vanilla"] is None


def test_compare_needs_no_engine() -> None:
    import subprocess

    code = (
        "import sys, harness.compare; "
        "sys.exit(any(n.startswith(('harness.engines', 'torch', 'hydra')) for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_compare_without_results_says_what_to_type(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert compare.main([str(tmp_path / "none")]) == 2
    assert "python run.py" in capsys.readouterr().err
    empty: Collection = collect(tmp_path)
    assert summary(empty).empty

"""What is said of doubt beside the numbers: sentences, notes, provenance, pages, small print."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness import compare
from harness.collection import Collection
from harness.facts import Facts
from harness.provenance import collect_provenance
from harness.report.__main__ import main
from harness.report.figures import FIGURES
from harness.report.figures.doubts import doubt_lines
from harness.report.headline import headline
from harness.report.how import how_measured
from harness.report.notes import notes
from harness.report.page.utility import step_groups
from harness.report.page.view import table_view
from harness.report.spec import Missing
from harness.report.tables import TABLES
from harness.report.verdict_notes import reasons_by_code
from harness.validity.verdict import Reason, Verdict
from tests.support.collection import sample_collection
from tests.support.fake_nvml import FakeGpu, FakeNvml
from tests.support.run_folder import write_runs
from tests.support.sample_evidence import (
    edited,
    names,
    of_an_older_version,
    silent_cache,
    under_load,
    warm_prompts,
)
from tests.support.sample_methods import BEST_FIXED, EAGLE3, EVICT, VANILLA, coverage

METHODS = (VANILLA, EAGLE3, coverage(0.7), BEST_FIXED, EVICT)


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection((0.0,), ("gsm8k", "qa"), METHODS, 3, 2)


def sentences(data: Collection) -> list[str]:
    built = ("table1", "table1_speedup", "regret", "replay_check")
    return headline(data, {name: TABLES[name].build(data) for name in built})


def paper(data: Collection, method: str, **wanted: object) -> list[str]:
    return names(data, experiment="paper", method=method, **wanted)


def test_a_headline_without_doubt_speaks_of_none(data: Collection) -> None:
    said = " ".join(sentences(data))
    assert "95 % interval" in said
    assert not any(word in said for word in ("invalid", "unknown", "Nothing shows"))


def test_the_headline_says_that_a_comparison_is_invalid_and_why(data: Collection) -> None:
    speedups, highest, blind = sentences(under_load(data, paper(data, "evict", benchmark="qa")))[:3]
    for who in ("EAGLE-3", "vanilla", "best fixed k"):
        assert f"{who}: no speedup, invalid: cpu_load" in speedups
    assert "x, faster" not in speedups
    assert "of 1 benchmarks" in highest
    assert "cannot be told of QA (EVICT is invalid: cpu_load)" in highest
    assert blind.endswith("is compared with nothing: the average of EVICT is invalid: cpu_load.")


def test_no_first_place_is_told_where_a_rival_is_invalid(data: Collection) -> None:
    loaded = under_load(data, paper(data, "coverage_0.7", benchmark="qa"))
    _, highest, blind = sentences(loaded)[:3]
    assert "cannot be told of QA (coverage rho=0.7 is invalid: cpu_load)" in highest
    assert "left out: coverage rho=0.7 (invalid: cpu_load)" in blind


def test_regret_and_replay_of_an_invalid_recording_are_not_told(data: Collection) -> None:
    spoiled = warm_prompts(data, names(data, experiment="trees", benchmark="qa"))
    *_, regret, replay = sentences(spoiled)
    assert regret.endswith("the regret of EVICT is invalid: warmup_prompt_measured.")
    assert replay.endswith("; 1 of 2 runs invalid: warmup_prompt_measured.")
    nothing = warm_prompts(data, names(data, experiment="trees"))
    assert "differences" not in sentences(nothing)[-1]


def test_an_unknown_number_of_a_sentence_is_called_so(data: Collection) -> None:
    doubtful = silent_cache(data, paper(data, "eagle3", benchmark="qa"))
    speedups, highest, *_ = sentences(doubtful)
    against = dict(part.split(": ", 1) for part in speedups.split(" against ")[1].split("); "))
    assert against["EAGLE-3"].endswith("unknown: prefix_cache_unknown")
    assert "unknown" not in against["vanilla"]
    assert highest.endswith("(unknown: prefix_cache_unknown).")


def test_old_results_are_doubted_once_and_stay_readable(data: Collection) -> None:
    first, *rest = sentences(of_an_older_version(data))
    assert first.startswith("Nothing shows that these are right: speeds and times, speedups.")
    assert "not_recorded (an older version" in first
    assert rest == sentences(data)


def test_notes_group_runs_by_code_with_counts(data: Collection) -> None:
    runs = paper(data, "evict") + paper(data, "eagle3", benchmark="qa")
    loaded = under_load(data, runs)
    lines = notes(TABLES["summary"].build(loaded), loaded)
    (line,) = [line for line in lines if line.startswith("invalid: cpu_load")]
    assert f"3 of {len(data.runs)} runs, the first {sorted(runs)[0]}: others used 1.0" in line
    assert line.endswith("stop them and measure again")
    assert sum("cpu_load" in line for line in lines) == 1


def test_old_runs_take_one_line_however_many_they_are(data: Collection) -> None:
    old = of_an_older_version(data)
    lines = [line for line in notes(TABLES["summary"].build(old), old) if "not_recorded" in line]
    assert len(lines) == 3
    assert "All speeds and times are unknown: not_recorded." in lines
    timed = int((old.runs["verdict"] == "unknown").sum())
    assert f"{timed} of {len(old.runs)} runs" in lines[-1]


def test_a_refused_comparison_names_keys_and_both_values(data: Collection) -> None:
    other = edited(
        data,
        paper(data, "evict", benchmark="qa"),
        "fingerprint",
        lambda row: {**row["fingerprint"], "engine.threads": "8"},
    )
    frame = TABLES["summary"].build(other)
    row = frame[(frame["method"] == "evict") & (frame["benchmark"] == "qa")].iloc[0]
    assert pd.isna(row["vs_plain"])
    assert row["vs_plain_doubt"] == "invalid: not_comparable"
    assert row["decode_tokens_per_s"] > 0
    line = next(line for line in notes(frame, other) if "not_comparable" in line)
    assert line.startswith("vs vanilla: invalid: not_comparable")
    assert "EVICT on QA" in line
    assert "engine.threads: 8 and 1" in line


def test_every_reason_of_a_verdict_is_found_in_its_text() -> None:
    reasons = (
        Reason("cpu_load", "others used 1.0 (of 2) cores; stop them", "invalid", "time"),
        Reason("partial", "1 of 4 requests: Boom", "unknown"),
    )
    found = reasons_by_code(Verdict(reasons).text())
    assert found == {reason.code: reason.text for reason in reasons}
    assert reasons_by_code("valid") == {}


def how(data: Collection, **changed: Any) -> dict[str, str]:
    part = {**collect_provenance(FakeNvml([FakeGpu(power_limit_w=600.0)])), **changed}
    run = str(data.runs["run"].iloc[0])
    return dict(how_measured(data, {run: Facts({}, [part])}))


def test_how_it_was_measured_names_governor_load_and_gpus(data: Collection) -> None:
    found = how(data, governor="powersave", load_average=[1.5, 0.2, 0.1], usable_cores=2)
    assert found["frequency governor"] == "powersave"
    assert found["load before measuring"] == "1.50 (average of a minute)"
    assert found["GPUs"] == "1, NVIDIA H100 80GB HBM3, 80 GiB"
    assert found["GPU driver"] == "570.86.15"
    assert found["GPU power limit"] == "600 W (default 700 W)"
    assert found["not read while measuring"] == "gpu: no GPU on this machine"


def test_what_could_not_be_read_says_why(data: Collection) -> None:
    without = {"governor": None, "absent": {"governor": "no cpufreq"}, "gpus": []}
    found = how(data, **without, gpus_reason="no NVIDIA driver", gpu_state=[])
    assert found["frequency governor"] == "not read: no cpufreq"
    assert found["GPUs"] == "none: no NVIDIA driver"
    assert "GPU driver" not in found
    old = how_measured(of_an_older_version(data), {})
    assert all(value for _, value in old)


def test_captions_of_written_tables_explain_their_marks(data: Collection, tmp_path: Path) -> None:
    doubtful = silent_cache(data, paper(data, "eagle3"))
    loaded = under_load(doubtful, paper(data, "evict", benchmark="qa"))
    results = write_runs(loaded, tmp_path / "runs")
    assert main([str(results)]) == 0
    tables = results / "report" / "tables"
    for end, code in (("md", r"invalid: cpu\_load"), ("tex", r"invalid: cpu\_load")):
        text = (tables / f"table1.{end}").read_text()
        assert code in text
        assert "?: unknown; nothing shows" in text
    numbers = pd.read_csv(tables / "table1.csv").set_index(["method", "benchmark"])
    assert pd.isna(numbers.loc[("evict", "qa"), "tokens_per_s"])
    assert numbers.loc[("evict", "qa"), "time_doubt"] == "invalid: cpu_load"
    page = (results / "report" / "report.html").read_text()
    assert '<td class="doubt">invalid: cpu_load</td>' in page
    assert (tables / "table1.csv").read_bytes().count(b"unknown: prefix_cache_unknown") >= 3


def test_an_invalid_cell_is_no_number_of_its_column() -> None:
    view = table_view("t", "t", "", ["m", "x"], [["a", "1.0"], ["b", "invalid: cpu_load"]])
    assert [row.cells[1].kind for row in view.rows] == ["number", "doubt"]
    assert view.heads[1].kind == "number"


def test_the_page_walks_through_no_step_of_an_invalid_recording(data: Collection) -> None:
    spoiled = warm_prompts(data, names(data, experiment="trees", benchmark="qa"))
    assert {group["benchmark"] for group in step_groups("m", spoiled)} == {"GSM8K"}
    nothing = warm_prompts(data, names(data, experiment="trees"))
    with pytest.raises(Missing, match=r"invalid: warmup_prompt_measured.*run: |again: python run"):
        step_groups("m", nothing)


def test_figures_say_what_they_leave_out_and_refuse_to_be_empty(data: Collection) -> None:
    loaded = under_load(data, paper(data, "evict", benchmark="qa"))
    lines = doubt_lines(FIGURES["fig6"].frame(loaded))
    assert lines == ["not drawn, invalid: cpu_load: speeds and times of EVICT on QA"]
    assert doubt_lines(FIGURES["fig6"].frame(data)) == []
    old = FIGURES["fig1"].frame(of_an_older_version(data))
    assert doubt_lines(old) == ["unknown: not_recorded: all speeds and times"]
    with pytest.raises(
        Missing, match="every number is invalid: cpu_load; measure again: python run"
    ):
        FIGURES["fig6"].frame(under_load(data, names(data, engine="torch", recorded=False)))


def test_compare_shows_the_same_marks_and_keeps_numbers_out_of_its_json(
    data: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    doubtful = silent_cache(data, paper(data, "eagle3", benchmark="gsm8k"))
    loaded = under_load(doubtful, paper(data, "evict", benchmark="qa"))
    results = write_runs(loaded, tmp_path / "runs")
    assert compare.main([str(results)]) == 0
    printed = capsys.readouterr().out
    assert printed.count("invalid: cpu_load") >= 4
    assert " ?" in printed
    assert "?: unknown; nothing shows" in printed
    assert compare.main([str(results), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    (row,) = [
        row
        for row in rows
        if (row["experiment"], row["method"], row["benchmark"]) == ("paper", "evict", "qa")
    ]
    assert row["decode_tokens_per_s"] is row["vs_plain"] is row["verify_share"] is None
    assert row["time_doubt"] == "invalid: cpu_load"
    assert row["mat"] > 1

from __future__ import annotations

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.collection import Collection
from harness.report.__main__ import main
from tests.support.collection import sample_collection
from tests.support.run_folder import write_runs
from tests.support.sample_methods import BEST_FIXED, EAGLE3, EVICT, VANILLA, coverage

HOSTILE = "</script><script>alert(1)</script> & <img src=x onerror=alert(2)> 50%_|"


@pytest.fixture(scope="module")
def data() -> Collection:
    methods = (VANILLA, EAGLE3, coverage(0.7), BEST_FIXED, EVICT)
    return sample_collection((0.0,), ("gsm8k", "qa"), methods, 3, 2)


@pytest.fixture(scope="module")
def results(data: Collection, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_runs(data, tmp_path_factory.mktemp("results") / "runs")


@pytest.fixture(scope="module")
def printed(results: Path) -> str:
    """What the command printed while it wrote the report."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([str(results)]) == 0
    return out.getvalue()


@pytest.fixture(scope="module")
def report(results: Path, printed: str) -> Path:
    assert printed.rstrip().endswith("report.html")
    return results / "report"


@pytest.fixture(scope="module")
def small() -> Collection:
    """Two timed methods on one benchmark: no sweep, no trees, no replay."""
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    return data.select(set(data.runs.loc[data.runs["experiment"] == "paper", "run"]))


def files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_one_command_writes_tables_figures_and_the_page(report: Path) -> None:
    names = set(files(report))
    for stem in ("table1", "table1_speedup", "mat", "regret", "calibration", "summary", "runs"):
        assert {f"tables/{stem}.{end}" for end in ("csv", "md", "tex")} <= names
    drawn = {name for name in names if name.startswith("figures/")}
    assert len(drawn) >= 3 * 5
    stems = {name.rsplit(".", 1)[0] for name in drawn}
    assert drawn == {f"{stem}.{end}" for stem in stems for end in ("csv", "pdf", "png")}
    assert (report / "files.txt").read_text().split() == sorted(names - {"files.txt"})


def test_the_same_input_gives_the_same_bytes(results: Path, report: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(
        results, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("report")
    )
    assert main([str(moved), "--out", str(tmp_path / "out")]) == 0
    first, second = files(report), files(tmp_path / "out")
    assert first.keys() == second.keys()
    assert [name for name in first if first[name] != second[name]] == []
    for name, content in first.items():
        assert str(results).encode() not in content, name


def test_numbers_in_the_files_are_those_of_the_records(data: Collection, report: Path) -> None:
    table = pd.read_csv(report / "tables" / "table1.csv")
    row = table[(table["method"] == "evict") & (table["benchmark"] == "gsm8k")].iloc[0]
    runs = data.runs[(data.runs["method"] == "evict") & (data.runs["experiment"] == "paper")]
    run = runs.loc[runs["benchmark"] == "gsm8k", "run"].iloc[0]
    own = data.requests[data.requests["run"] == run]
    speed = 1e3 * own["decode_tokens"].sum() / own["decode_ms"].sum()
    assert row["tokens_per_s"] == pytest.approx(speed, rel=1e-5)
    assert f"{speed:.1f}" in (report / "tables" / "table1.md").read_text()
    assert f"{speed:.1f}" in (report / "report.html").read_text()


def test_captions_say_model_lab_engine_and_n(report: Path) -> None:
    text = (report / "tables" / "table1_speedup.tex").read_text()
    for words in (
        "Sample MoE (lab model)",
        "engine torch",
        "1 thread",
        "float32",
        "6 prompts",
        "BCa",
    ):
        assert words in text
    assert "Qwen3-30B-A3B" in (report / "tables" / "table1_paper.md").read_text()


def test_the_headline_gives_speedups_with_intervals_and_the_shape(printed: str) -> None:
    assert "At T=0, engine torch, EVICT against EAGLE-3: " in printed
    assert "95 % interval" in printed
    assert "; best fixed k: " in printed
    assert "highest pooled speed on" in printed
    assert "of the best rate" in printed
    assert "0 differences in" in printed


def test_a_second_report_removes_what_the_first_listed_and_nothing_else(
    small: Collection, tmp_path: Path
) -> None:
    results, out = write_runs(small, tmp_path / "runs"), tmp_path / "out"
    (out / "figures").mkdir(parents=True)
    (out / "figures" / "mine.png").write_bytes(b"mine")
    (tmp_path / "outside.txt").write_text("mine")
    main([str(results), "--out", str(out)])
    with (out / "files.txt").open("a") as file:
        file.write("../outside.txt\n")
    empty = tmp_path / "empty"
    empty.mkdir()
    assert main([str(empty), "--out", str(out)]) == 0
    assert set(files(out)) == {"figures/mine.png", "files.txt", "report.html"}
    assert (tmp_path / "outside.txt").read_text() == "mine"
    assert "python run.py" in (out / "report.html").read_text()


def test_bad_runs_are_named_and_never_averaged(data: Collection, tmp_path: Path) -> None:
    results = write_runs(data, tmp_path / "runs")
    paper = sorted(path.name for path in (results / "paper").iterdir())
    by = {
        name: next(run for run in paper if f"-{name}-gsm8k" in run) for name in ("evict", "eagle3")
    }
    edit(
        results / "paper" / by["eagle3"],
        status="failed",
        requests_ok=0,
        reasons=["12 of 12 requests: Boom"],
    )
    edit(results / "paper" / by["evict"], status="partial", reasons=["1 of 6 requests: Crash"])
    old = results / "paper" / next(run for run in paper if "-best_fixed-qa" in run)
    edit(old, schema_version=1)
    cut = results / "paper" / next(run for run in paper if "-coverage_0.7-qa" in run)
    (cut / "result.json").unlink()
    shutil.copytree(results / "trees", results / "zcopy")
    main([str(results)])
    page = (results / "report" / "report.html").read_text()
    for words in ("12 of 12 requests: Boom", "schema version 1", "cut:", "copy of trees/"):
        assert words in page
    assert "1 of 6 requests: Crash" in page
    assert "no run of EAGLE-3 (the full tree) to pair with" in page
    table = pd.read_csv(results / "report" / "tables" / "table1.csv").set_index(
        ["method", "benchmark"]
    )
    assert ("eagle3", "gsm8k") not in table.index
    assert pd.isna(table.loc[("eagle3", "average"), "tokens_per_s"])
    assert ("evict", "gsm8k") in table.index


def edit(run: Path, **values: object) -> None:
    result = json.loads((run / "result.json").read_text())
    (run / "result.json").write_text(json.dumps(result | values))


def test_hostile_labels_stay_text(tmp_path: Path) -> None:
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1, HOSTILE)
    results = write_runs(data, tmp_path / "runs")
    assert main([str(results)]) == 0
    page = (results / "report" / "report.html").read_text()
    assert "<img src=x" not in page
    assert "<script>alert" not in page
    assert "&lt;img src=x" in page
    assert r"50\%\_\textbar{}" in (results / "report" / "tables" / "table1.tex").read_text()


def test_two_models_do_not_share_file_names(small: Collection, tmp_path: Path) -> None:
    results = write_runs(small, tmp_path / "runs")
    shutil.copytree(results, tmp_path / "both" / "a")
    shutil.copytree(results, tmp_path / "both" / "b")
    for file in (tmp_path / "both" / "b").rglob("result.json"):
        values = json.loads(file.read_text())
        edit(file.parent, model="other", model_label="Other MoE", run_hash=values["run_hash"] + "b")
    main([str(tmp_path / "both"), "--out", str(tmp_path / "out")])
    names = {path.name for path in (tmp_path / "out" / "tables").iterdir()}
    assert {"sample-table1.csv", "other-table1.csv"} <= names
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("Other MoE: At T=0, engine torch") >= 1


def test_the_command_says_what_is_missing(
    small: Collection, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(tmp_path / "none")]) == 2
    assert "no such folder" in capsys.readouterr().err
    main([str(write_runs(small, tmp_path / "runs"))])
    printed = capsys.readouterr().out
    assert "no Regret on recorded trees: " in printed
    assert "python run.py +experiment=replay" in printed
    assert "python run.py +experiment=fig1" in printed


def test_the_report_imports_no_engine() -> None:
    code = (
        "import sys, harness.report.__main__; "
        "sys.exit(any(n.startswith(('harness.engines', 'harness.profiling', 'harness.lab', "
        "'sglang', 'transformers')) for n in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0

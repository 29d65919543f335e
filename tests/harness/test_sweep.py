"""A sweep in which an engine is lost: the others run, the list names it, a retry runs it alone."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests.support.command import run_py

ENGINE = ("engine=torch", "engine._target_=tests.support.breaking_engine.BreakingEngine")


def sweep(results: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """`run.py -m` on an engine that breaks as told, three prompts a job."""
    words = ("-m", *ENGINE, "method=vanilla", "benchmark=qa", "limit=3", "machine=shared")
    return run_py(*words, *arguments, f"results_dir={results}")


def rows(results: Path) -> dict[str, list[str | None]]:
    """Error classes of the rows of each run, by what its engine was told to do."""
    found = {}
    for path in sorted(results.glob("adhoc/*")):
        breaks = next(
            line for line in (path / "config.yaml").read_text().splitlines() if "qa-" in line
        )
        lines = (path / "requests.jsonl").read_text().splitlines()
        found[breaks.strip()] = [json.loads(line)["error_class"] for line in lines]
    return found


def test_case_42_a_lost_engine_ends_its_job_and_no_other(tmp_path: Path) -> None:
    """Careless: the crash takes the harness along, and with it the jobs that were to come."""
    jobs = "+engine.breaks={load: segfault},{qa-1: segfault},{qa-9: exit}"
    done = sweep(tmp_path, jobs)
    assert done.returncode == 1, done.stderr
    assert rows(tmp_path) == {
        "qa-1: segfault": [None, "EngineLost"],
        "qa-9: exit": [None] * 3,
    }
    assert "error: the engine's process ended with signal 11 (SIGSEGV)" in done.stderr
    summary = done.stderr.partition("2 of 3 jobs failed:")[2]
    unloaded, crashed = summary.strip().splitlines()
    assert "load:segfault" in unloaded
    assert unloaded.endswith("EngineLost")
    assert "qa-1:segfault" in crashed
    assert "EngineLost: the engine's process ended with signal 11 (SIGSEGV)" in crashed
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*/result.json")}
    again = sweep(tmp_path, jobs)
    assert again.returncode == 1
    changed = [path for path, time in kept.items() if path.stat().st_mtime_ns != time]
    assert [json.loads(path.read_text())["status"] for path in changed] == ["partial"]

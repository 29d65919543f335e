"""The GPU check, rehearsed on a CPU: every point has a value, or the reason why it has none."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.sglang.process import ROOT, environment

BUDGET_S = 1500


@pytest.fixture(scope="module")
def rehearsal(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """The JSON of one dry run, with its exit status and what it left running."""
    folder = tmp_path_factory.mktemp("gpu-check")
    out, logs = folder / "check.json", folder / "logs"
    script = [ROOT / "scripts/gpu_check.sh", "--dry-run", "--budget", str(BUDGET_S)]
    done = subprocess.run(
        [*script, "--out", out, "--logs", logs],
        env=environment({"PYTHON": sys.executable}),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=BUDGET_S + 60,
        check=False,
    )
    assert out.exists(), done.stdout.decode()
    document: dict[str, Any] = json.loads(out.read_text())
    return {**document, "status": done.returncode, "left": _running(str(logs))}


@pytest.fixture(scope="module")
def points(rehearsal: dict[str, Any]) -> dict[str, Any]:
    return dict(rehearsal["points"])


def test_every_point_is_settled_and_says_whose_weights(rehearsal: dict[str, Any]) -> None:
    assert rehearsal["dry_run"] is True
    assert rehearsal["complete"] is True
    for name, point in rehearsal["points"].items():
        assert point["value"] is not None or point["reason"], name
        assert point["reason"] != "not reached", name
        assert point["weights"] in rehearsal["weights"], name


def test_only_captures_and_flashinfer_have_no_answer(rehearsal: dict[str, Any]) -> None:
    points = rehearsal["points"]
    without = {name: point["reason"] for name, point in points.items() if point["value"] is None}
    assert set(without) == {"captures"}, without
    assert "no width was captured" in without["captures"]
    assert "flashinfer" in points["exposed_gap"]["reason"]
    assert rehearsal["status"] == 1


def test_outputs_are_equal(points: dict[str, Any]) -> None:
    full = points["full_equals_stock"]["value"]
    assert full["outputs"] == full["equal"] == 2
    rows = points["match_by_width"]["value"]["by_width"]
    assert [(row["k"], row["token_rate"]) for row in rows] == [(1, 1.0), (6, 1.0), (32, 1.0)]


def test_trees_were_recorded(points: dict[str, Any]) -> None:
    found = points["score_ties"]["value"]
    assert found["trees"] > 2
    assert found["nodes"] == 31 * found["trees"]


def test_times_are_positive_and_every_width_was_run(points: dict[str, Any]) -> None:
    cost = points["step_cost"]["value"]
    assert [row["k"] for row in cost["by_width"]] == [1, 8, 32]
    assert all(row["steps"] == 0 or row["median_ms"] > 0 for row in cost["by_width"])
    measured, missing = points["exposed_gap"]["value"]["regimes"]
    assert measured["plugin_over_stock"] > 0
    assert measured["eager_steps"] > 0
    assert (missing["plugin_over_stock"], missing["reason"]) != (None, None)


def test_no_server_is_left(rehearsal: dict[str, Any]) -> None:
    assert rehearsal["left"] == []


def _running(mark: str) -> list[str]:
    """Command lines of processes that mention `mark`."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if mark in line:
            found.append(line)
    return found

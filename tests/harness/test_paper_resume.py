"""The whole paper experiment on the lab model, small: killed again and again, it ends the same."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from harness.collect import collect
from harness.collection import Collection
from harness.config import ROOT
from harness.report.tables import TABLES

SMALL = ("limit=1", "repeats=1", "max_new_tokens=24", "tune_prompts=1", "machine=shared")
BETWEEN_KILLS_S = (5.0, 20.0)
# Tables without a measured time; the step times of `regret` come from the shared cost table.
TIMELESS = ("mat", "acceptance", "calibration", "regret", "replay_check", "union", "tuning")


def paper(results: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "run.py", "+experiment=paper", f"results_dir={results}", *SMALL],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.DEVNULL,
        start_new_session=True,
    )


def finished(results: Path) -> dict[str, tuple[int, bytes]]:
    """Every run that has ended: when its rows were last written, and the rows."""
    ended = [file.parent for file in results.glob("*/*/result.json")]
    return {
        str(path.relative_to(results)): (
            (path / "requests.jsonl").stat().st_mtime_ns,
            (path / "requests.jsonl").read_bytes(),
        )
        for path in ended
    }


def frames(data: Collection) -> dict[str, pd.DataFrame]:
    return {name: TABLES[name].build(data) for name in TIMELESS}


@pytest.mark.slow
def test_killed_at_random_points_it_completes_and_repeats_nothing(tmp_path: Path) -> None:
    """About five minutes on one core."""
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert paper(whole).wait() == 0
    for kind in ("cost", "tuning"):
        shutil.copytree(whole / kind, cut / kind)
    rng, kills = random.Random(0), 0
    while True:
        before = finished(cut)
        process = paper(cut)
        try:
            code = process.wait(rng.uniform(*BETWEEN_KILLS_S))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            kills, code = kills + 1, None
        after = finished(cut)
        assert {name: after[name] for name in before} == before, "a finished run was touched"
        if code is not None:
            break
    assert (code, kills > 1) == (0, True)
    resumed, straight = collect(cut), collect(whole)
    assert resumed.left_out == straight.left_out == {}
    assert len(resumed.runs) == len(straight.runs) > 100
    expected = frames(straight)
    for name, frame in frames(resumed).items():
        pd.testing.assert_frame_equal(frame, expected[name])
    print(json.dumps({"kills": kills, "runs": len(resumed.runs), "rows": len(resumed.requests)}))

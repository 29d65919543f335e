"""A scenario's process: what it gets, what comes back, and that nothing outlives a failure."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from tests.sglang.process import STANDINS, ScenarioFailed, run_scenario
from tests.sglang.scenarios import failing


def test_arguments_stand_ins_and_environment_arrive(tmp_path: Path) -> None:
    result = run_scenario(
        failing.answers, {"number": 3, "folder": tmp_path}, env={"OMP_NUM_THREADS": "2"}
    )
    assert result["arguments"] == {"number": 3, "folder": str(tmp_path)}
    assert result["standins"] == [str(STANDINS / "sgl_kernel"), str(STANDINS / "torchvision")]
    assert result["threads"] == "2"


def test_stand_ins_stay_off_the_tests_own_path() -> None:
    assert str(STANDINS) not in sys.path


def test_error_shows_its_last_lines() -> None:
    with pytest.raises(ScenarioFailed, match=r"(?s)failing:raises ended with 1.*ValueError: wheel"):
        run_scenario(failing.raises, {"reason": "wheel"})


def test_killed_scenario_shows_signal_and_last_lines() -> None:
    with pytest.raises(ScenarioFailed, match=r"(?s)ended with -9.*about to die"):
        run_scenario(failing.dies, {})


def test_time_out_kills_the_whole_group(tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    with pytest.raises(ScenarioFailed, match=r"(?s)not done after 5 s.*child started"):
        run_scenario(failing.hangs, {"pid_file": pid_file}, timeout=5)
    assert _gone(int(pid_file.read_text()))


def _gone(pid: int) -> bool:
    """No such process, or a zombie nobody has collected yet; waits up to 5 s."""
    for _ in range(50):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.1)
    return False

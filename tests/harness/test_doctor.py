from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from rich.console import Console

from evict.sglang.version import SUPPORTED
from harness.config import ROOT, known
from harness.doctor.cells import Cell, cells
from harness.doctor.check import BAD, OK, WARN, Check, fit
from harness.doctor.lock import lock_line
from harness.doctor.processor import clock_line, load_line, threads_lines
from harness.doctor.resources import disk_line, energy_line, memory_line
from harness.doctor.screen import show
from harness.doctor.software import package_lines, source_line
from harness.exclusive import LOCK
from harness.hardware.gpu import Gpus
from harness.hardware.processes import Busy, Load
from harness.hardware.software import package_version

GIB = 2**30
HOLD = """
import sys
from pathlib import Path
from harness.exclusive import machine_lock
with machine_lock("exclusive", Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""
WITHOUT_TORCH = """
import sys
from harness.doctor.__main__ import main
main(sys.argv[1:])
assert not {"torch", "transformers", "sglang"} & set(sys.modules)
"""


def doctor(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "harness.doctor", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True)


def test_the_command_says_as_data_what_its_exit_code_says(tmp_path: Path) -> None:
    done = doctor("--json", "--results", str(tmp_path / "runs"))
    told = json.loads(done.stdout)
    assert done.stderr == ""
    assert done.returncode == (0 if told["fit"] else 1)
    assert told["fit"] == all(check["level"] != "bad" for check in told["checks"])
    names = {check["name"] for check in told["checks"]}
    assert names >= {"processor", "clock", "load", "memory", "results", "energy", "source"}
    pairs = {(cell["model"], cell["engine"]) for cell in told["models"]}
    engines = set(known("engine")) - {"auto"}
    assert pairs == {(model, engine) for model in known("model") for engine in engines}
    assert not (tmp_path / "runs").exists()


def test_a_folder_that_cannot_be_written_makes_the_machine_unfit() -> None:
    if not Path("/proc/self").exists():
        pytest.skip("no folder that even root cannot write to")
    done = doctor("--json", "--results", "/proc/self/runs")
    assert done.returncode == 1
    bad = [check for check in json.loads(done.stdout)["checks"] if check["name"] == "results"]
    assert [check["level"] for check in bad] == ["bad"]


def test_nothing_heavy_is_imported(tmp_path: Path) -> None:
    command = [sys.executable, "-c", WITHOUT_TORCH, "--results", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "fit to measure" in done.stdout


def test_the_screen_names_the_verdict_every_hint_and_every_model() -> None:
    checks = [Check("one", OK, "fine"), Check("two", BAD, "broken", "mend it")]
    table = [Cell("lab", "torch", True), Cell("big", "sglang", False, "needs GPUs", "buy some")]
    said = io.StringIO()
    show(Console(file=said, width=100), checks, table)
    for words in (
        "not fit to measure",
        "1 bad",
        "mend it",
        "lab",
        "runs",
        "needs GPUs",
        "buy some",
    ):
        assert words in said.getvalue()
    said = io.StringIO()
    show(Console(file=said, width=100), checks[:1], table)
    assert "is fit to measure" in said.getvalue()


def test_one_bad_line_is_enough_and_a_warning_is_not() -> None:
    lines = [Check("one", OK, ""), Check("two", WARN, "")]
    assert fit(lines)
    assert not fit([*lines, Check("three", BAD, "")])


@pytest.mark.parametrize(("cores", "level"), [(0.1, OK), (0.3, WARN), (0.41, BAD), (None, WARN)])
def test_load_of_others_spoils_above_a_tenth_of_the_cores(cores: float | None, level: str) -> None:
    line = load_line(Load(cores, [Busy(7, "hungry", 0.3)]), 4, [9.0, 9.0, 9.0])
    assert line.level == level
    assert ("hungry (pid 7" in line.hint) == (cores is not None and level != OK)


@pytest.mark.parametrize(("threads", "level"), [(1, OK), (3, OK), (4, WARN), (5, BAD)])
def test_an_engine_with_more_threads_than_cores_is_refused(threads: int, level: str) -> None:
    (line,) = threads_lines({"torch": threads}, 4)
    assert line.level == level
    assert "engine=torch" in line.text
    assert bool(line.hint) == (level != OK)


@pytest.mark.parametrize(
    ("governor", "level"), [("performance", OK), ("performance, powersave", WARN), (None, WARN)]
)
def test_only_a_fixed_governor_is_trusted(governor: str | None, level: str) -> None:
    assert clock_line(governor, 2400.0, 3400.0).level == level
    assert clock_line(governor, None, None).level == level


@pytest.mark.parametrize(("free", "level"), [(8.0, OK), (3.0, WARN), (1.0, BAD)])
def test_memory(free: float, level: str) -> None:
    facts = {"available_gib": free, "usable_gib": 16.0, "swap_used_gib": 0.0}
    assert memory_line(facts).level == level


@pytest.mark.parametrize(
    ("refusal", "free", "level"),
    [(None, 50 * GIB, OK), (None, 5 * GIB, WARN), (None, GIB // 2, BAD), ("full", 50 * GIB, BAD)],
)
def test_room_for_results(tmp_path: Path, refusal: str | None, free: int, level: str) -> None:
    assert disk_line(tmp_path, refusal, free).level == level


def test_energy_without_counters_says_why_and_what_would_help() -> None:
    line = energy_line("RAPL may not be read; try: sudo chmod")
    assert (line.level, line.hint) == (WARN, "sudo chmod")
    assert line.text.endswith("RAPL may not be read")


def test_another_timing_run_is_seen_while_it_lasts(tmp_path: Path) -> None:
    file = tmp_path / LOCK
    assert lock_line(file).level == OK
    assert not file.exists()
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        line = lock_line(file)
        assert line.level == BAD
        assert str(holder.pid) in line.text
        assert psutil.pid_exists(holder.pid)
        holder.kill()
        holder.wait(10)
    assert lock_line(file).level == OK


def test_packages_missing_or_outside_their_range(tmp_path: Path) -> None:
    file = tmp_path / "pyproject.toml"
    head = '[project]\nname = "mine"\ndependencies = '
    file.write_text(head + '["numpy>=1"]')
    assert [line.level for line in package_lines(file)] == [OK]
    file.write_text(head + '["numpy>=999", "no-such-package-at-all"]')
    wrong, missing = package_lines(file)
    assert (wrong.level, wrong.hint) == (WARN, "pip install 'numpy>=999'")
    assert (missing.level, missing.hint) == (BAD, "pip install 'no-such-package-at-all'")


def test_source_that_nobody_else_has_is_a_warning() -> None:
    clean: dict[str, Any] = {"commit": "c" * 40, "dirty": False, "diff_hash": None, "reason": None}
    assert source_line(clean).level == OK
    changed = source_line({**clean, "dirty": True, "diff_hash": "d"})
    assert (changed.level, "to the program" in changed.text) == (WARN, True)
    beside = source_line({**clean, "dirty": True})
    assert "outside the program" in beside.text
    unknown = source_line({**clean, "commit": None, "reason": "git is not installed"})
    assert "git is not installed" in unknown.text


def table(*memory_gib: float) -> dict[tuple[str, str], Cell]:
    gpus = Gpus(memory_gib, None if memory_gib else "no NVIDIA driver")
    return {(cell.model, cell.engine): cell for cell in cells(gpus)}


def test_without_gpus_the_lab_model_runs_and_others_say_what_they_need() -> None:
    found = table()
    assert found["lab", "torch"].runs
    big = found["qwen3_235b", "sglang"]
    assert not big.runs
    assert "8 GPU(s) with 80 GiB" in big.note
    assert "model=lab" in big.hint
    assert "engine=torch" in found["lab", "sglang"].hint
    assert found["qwen3_235b", "replay"].runs
    assert "does not run on this engine" in found["ling_flash", "torch"].note


def test_with_gpus_only_the_package_decides_about_sglang() -> None:
    found = table(*[80.0] * 8)
    assert found["qwen3_30b", "torch"].runs
    assert "Qwen/Qwen3-30B" in found["qwen3_30b", "torch"].note or "cache" in (
        found["qwen3_30b", "torch"].note
    )
    cell = found["qwen3_235b", "sglang_eager"]
    assert cell.runs == (package_version("sglang") == SUPPORTED)
    assert cell.runs or cell.hint == f"pip install sglang=={SUPPORTED}"
    assert not table(80.0)["qwen3_235b", "sglang"].runs

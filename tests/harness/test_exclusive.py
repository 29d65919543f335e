from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from evict.errors import InputError
from harness.config import ROOT
from harness.exclusive import check_gpus, machine_lock

HOLD = """
import sys
from pathlib import Path
from harness.exclusive import check_gpus, machine_lock
with machine_lock("exclusive", Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process that holds the machine until its standard input is closed."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


def test_a_second_timing_run_is_refused_naming_the_first(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    refused = pytest.raises(InputError, match=rf"{holder.pid}.*machine=wait")
    with refused, machine_lock("exclusive", tmp_path):
        pass


@pytest.mark.usefixtures("holder")
def test_shared_does_not_ask(tmp_path: Path) -> None:
    with machine_lock("shared", tmp_path):
        pass


def test_wait_begins_when_the_first_has_ended(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    assert holder.stdin is not None
    holder.stdin.close()
    with machine_lock("wait", tmp_path):
        holder.wait(10)
        assert holder.returncode == 0


def test_a_killed_run_leaves_the_machine_free(
    holder: subprocess.Popen[str], tmp_path: Path
) -> None:
    holder.kill()
    holder.wait(10)
    deadline = time.monotonic() + 10
    while True:
        try:
            with machine_lock("exclusive", tmp_path):
                return
        except InputError:
            assert time.monotonic() < deadline
            time.sleep(0.05)


STATES = [{"index": 0, "foreign_processes": ["4321 (python)"]}]


def test_other_processes_on_the_gpu_are_refused_or_left_to_the_verdict() -> None:
    with pytest.raises(InputError, match=r"GPU 0: 4321 \(python\).*foreign_gpu=warn"):
        check_gpus("refuse", "NVIDIA H100", STATES)
    check_gpus("warn", "NVIDIA H100", STATES)
    check_gpus("refuse", "NVIDIA H100", [{"index": 0, "foreign_processes": []}])


def test_an_engine_on_the_processor_does_not_mind_them() -> None:
    check_gpus("refuse", "cpu (some processor)", STATES)

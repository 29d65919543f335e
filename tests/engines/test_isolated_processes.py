"""Nothing of an engine outlives the harness, in whatever way and moment that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harness.config import ROOT
from tests.support.servers import gone, linux, noted

HARNESS = """
import os, sys, time
from functools import partial
from harness.engines.base import Method, Request
from harness.engines.isolated.engine import IsolatedEngine
from tests.support.breaking_engine import BreakingEngine
breakage, prompt, pids = sys.argv[1:]
engine = IsolatedEngine(partial(BreakingEngine, {prompt: breakage}, pids))
if breakage == "prints" and os.fork() == 0:
    time.sleep(60)
print("loaded", flush=True)
engine.generate(Request("p", (1, 2), 4), Method("vanilla"), 0)
time.sleep(60)
"""


def harness(breakage: str, prompt: str, pids: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", HARNESS, breakage, prompt, str(pids)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )


@linux
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_harness_that_ends_in_the_middle_of_a_generation_leaves_nothing(
    tmp_path: Path, number: signal.Signals
) -> None:
    pids = tmp_path / "pids"
    with harness("family", "p", pids) as process:
        family = noted(pids, 3, limit_s=60.0)
        process.send_signal(number)
        assert process.wait(10) == -number
        assert gone(family)


@linux
def test_a_harness_that_is_killed_while_the_engine_loads_leaves_nothing(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with harness("family", "load", pids) as process:
        family = noted(pids, 3, limit_s=60.0)
        process.kill()
        assert gone(family)


@linux
def test_a_fork_of_the_harness_does_not_keep_an_idle_engine_alive(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with harness("prints", "p", pids) as process:
        family = noted(pids, 1, limit_s=60.0)
        assert process.stdout is not None
        assert process.stdout.readline() == "loaded\n"
        process.kill()
        assert gone(family)
        os.killpg(process.pid, signal.SIGKILL)

"""Sweeps that are killed at random moments lose nothing, repeat nothing and never look finished."""

from __future__ import annotations

import os
import random
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import psutil
import pytest

from tests.faults.campaign import Campaign
from tests.faults.injections import NAMES
from tests.faults.rounds import LIMIT
from tests.faults.sweep import Process, Started, Sweep
from tests.faults.tally import Tally
from tests.faults.warm import start_warm

SMALL = (
    "method=eagle3",
    "compare=[vanilla]",
    "benchmark=mt_bench",
    "limit=2",
    "max_new_tokens=4",
    "warmup_prompts=1",
    "warmup_tokens=2",
    "machine=shared",
    "engine=torch",
    "engine.process.isolated=false",
)


def test_six_kills_and_every_fault_once(tmp_path: Path) -> None:
    campaign = Campaign(tmp_path, 6, random.Random(0), start_warm, SMALL, costly=False, once=True)
    tally = campaign.run()
    _held(tally)
    assert tally.kills.total() >= 6
    assert {*NAMES, LIMIT} <= set(tally.faults)
    assert tally.again > 0


def test_a_process_that_survives_the_kill_is_counted_and_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An engine in a process group of its own that does not notice the end of the harness."""

    def start(overrides: Sequence[str], marks: Mapping[str, str], pipe: Path) -> Process:
        script = f"setsid sleep 600 & echo $! > {tmp_path / 'pid'}; wait"
        environment = {**os.environ, **marks}
        with pipe.open("wb") as output:
            return Started(
                subprocess.Popen(
                    ["sh", "-c", script], env=environment, stdout=output, start_new_session=True
                )
            )

    monkeypatch.setattr("tests.faults.sweep.GRACE_S", 0.3)
    sweep = Sweep(tmp_path, tmp_path / "log", start)
    process = sweep.begin()
    while not (tmp_path / "pid").is_file() or not (tmp_path / "pid").read_text().strip():
        time.sleep(0.01)
    survivor = psutil.Process(int((tmp_path / "pid").read_text()))
    while os.getsid(survivor.pid) == process.pid:
        time.sleep(0.01)
    assert sweep.kill(process) == 1
    psutil.wait_procs([survivor], timeout=10)
    assert not survivor.is_running() or survivor.status() == psutil.STATUS_ZOMBIE
    assert sweep.end_survivors(process) == 0
    sweep.end()


@pytest.mark.slow
def test_forty_kills_of_the_command_itself(tmp_path: Path) -> None:
    """About six minutes on two cores."""
    tally = Campaign(tmp_path, 40, random.Random(1)).run()
    _held(tally)
    assert tally.kills.total() == 40
    assert min(tally.kills["measuring"], tally.kills["folding"], tally.kills["start-up"]) > 0


def _held(tally: Tally) -> None:
    print(tally.line())
    assert tally.wrong == {kind: [] for kind in tally.wrong}

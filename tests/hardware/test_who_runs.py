from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator

import psutil
import pytest

from harness.hardware.cpu import busy_seconds
from harness.hardware.processes import Watch, own_pids

BURN = "import time; end = time.monotonic() + 20\nwhile time.monotonic() < end: pass"
ORPHAN = f"""
import subprocess, sys
quiet = {{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
burning = subprocess.Popen([sys.executable, "-c", {BURN!r}], **quiet)
print(burning.pid, flush=True)
"""


@pytest.fixture
def orphan() -> Iterator[int]:
    """A busy process whose parent has ended, so that it is not ours."""
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=True
    )
    process = psutil.Process(int(done.stdout))
    yield process.pid
    process.kill()


@pytest.fixture
def child() -> Iterator[int]:
    """A busy process of ours."""
    with subprocess.Popen([sys.executable, "-c", BURN]) as process:
        yield process.pid
        process.kill()


def test_a_busy_process_of_others_is_named_and_one_of_ours_is_not(orphan: int, child: int) -> None:
    assert child in own_pids()
    assert orphan not in own_pids()
    seen = Watch().stop(0.5)
    assert seen.cores is not None
    assert seen.cores > 0.05
    named = {busy.pid: busy.cores for busy in seen.busiest}
    assert named[orphan] > 0.05
    assert child not in named


def test_our_own_work_is_not_load() -> None:
    begin, watch = busy_seconds(), Watch()
    start, mine = time.monotonic(), time.process_time()
    while time.process_time() - mine < 0.4:
        pass
    seen = watch.stop(0.0)
    duration, end = time.monotonic() - start, busy_seconds()
    assert seen.cores is not None
    assert begin is not None
    assert end is not None
    assert seen.cores * duration <= end - begin - 0.3


def test_a_process_that_began_in_between_counts(orphan: int) -> None:
    watch = Watch()
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN], capture_output=True, text=True, check=True
    )
    late = psutil.Process(int(done.stdout))
    try:
        assert {late.pid, orphan} <= {busy.pid for busy in watch.stop(0.5).busiest}
    finally:
        late.kill()

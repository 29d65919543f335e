"""Ctrl-C ends a command within seconds, in whatever phase; rows stay and no process does."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.config import ROOT
from tests.support.servers import gone, linux, noted, stub
from tests.support.terminal import Terminal, whole_rows

pytestmark = linux
STOP_S = 5.0
LAB = ("model=lab", "benchmark=qa", "machine=shared")
Start = Callable[..., Terminal]


@pytest.fixture
def start() -> Iterator[Start]:
    terminals: list[Terminal] = []

    def begin(*arguments: str) -> Terminal:
        terminals.append(Terminal.run(*arguments))
        return terminals[-1]

    yield begin
    for terminal in terminals:
        terminal.close()


def interrupt(terminal: Terminal, times: int = 1) -> None:
    """Press Ctrl-C; the command says so, ends with 130 in time and leaves no process."""
    family = terminal.family()
    for _ in range(times):
        terminal.press()
        terminal.look(0.05)
    assert terminal.wait(STOP_S) == 130
    terminal.look(0.2)
    assert "Traceback" not in terminal.shown
    assert gone(family, 2.0)


def test_while_the_engine_loads(start: Start, tmp_path: Path) -> None:
    terminal = start(*LAB, "method=vanilla", f"results_dir={tmp_path}")
    terminal.until(lambda seen: len(seen.family()) >= 2)
    interrupt(terminal)
    assert "interrupted" in terminal.shown
    assert not whole_rows(tmp_path)


def test_while_step_costs_are_measured(start: Start, tmp_path: Path) -> None:
    terminal = start(*LAB, "method=evict", "profile=only", f"results_dir={tmp_path}")
    terminal.until(lambda seen: "profiling C(k)" in seen.shown)
    interrupt(terminal)
    assert not list(tmp_path.glob("**/cost_table.json"))


@pytest.mark.parametrize("times", [1, 2])
def test_while_a_generation_runs(start: Start, tmp_path: Path, times: int) -> None:
    arguments = (*LAB, "method=vanilla", "limit=8", "repeats=50", f"results_dir={tmp_path}")
    terminal = start(*arguments)
    terminal.until(lambda seen: len(whole_rows(tmp_path)) >= 3)
    before = whole_rows(tmp_path)
    interrupt(terminal, times)
    after = whole_rows(tmp_path)
    assert after[: len(before)] == before
    assert all(json.loads(line)["error_class"] is None for line in after)
    assert not list(tmp_path.glob("*/*/result.json"))


def test_while_an_engine_hangs(start: Start, tmp_path: Path) -> None:
    """Its processes do not listen to SIGTERM, and one has left the group."""
    pids = tmp_path / "pids"
    terminal = start(
        *LAB,
        "method=vanilla",
        "limit=2",
        "warmup_prompts=0",
        "engine=torch",
        "engine._target_=tests.support.breaking_engine.BreakingEngine",
        "+engine.breaks={qa-1: family}",
        f"+engine.pids={pids}",
        f"results_dir={tmp_path}/results",
    )
    terminal.until(lambda seen: len(noted(pids, 0)) >= 3)
    interrupt(terminal)
    assert gone(noted(pids, 3), 2.0)
    assert len(whole_rows(tmp_path / "results")) == 1


SERVERS = """
import json, sys
from pathlib import Path
from harness.command import guarded
from harness.engines.sglang.arguments import Kind
from harness.engines.sglang.batch import together
from harness.engines.sglang.client import Client
from harness.engines.sglang.fleet import Fleet
from harness.engines.sglang.running import Running
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.server import Server, ServerSpec
options = json.loads(sys.argv[1])
log = Path(options.pop("log"))
def start(kind, growth):
    server = Server.start(ServerSpec(log=log / str(kind.steps), stop_timeout_s=60, **options))
    return Running(server, Client(server.url, server.api_key), {"attention_backend": "x"})
def command():
    fleet = Fleet(start, 2)
    try:
        for steps in (1, 2):
            fleet.get(Kind("A", steps), None)
        print("up", flush=True)
        if "batch" in sys.argv:
            together(fleet.all()[0], [[1], [2]], Sampling(4))
        if "closes" not in sys.argv:
            sys.stdin.read()
    finally:
        fleet.close()
sys.exit(guarded(command))
"""


def servers(folder: Path, *words: str, **arguments: Any) -> subprocess.Popen[str]:
    """A harness with two servers that take a minute to stop, for they ignore SIGTERM."""
    spec = stub(folder, pids=str(folder / "pids"), spawns=["stubborn"], **arguments)
    options = {
        "command": spec.command,
        "arguments": {**spec.arguments, "ignores_sigterm": True},
        "log": str(folder),
    }
    return subprocess.Popen(
        [sys.executable, "-c", SERVERS, json.dumps(options), *words],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("phase", ["starting", "serving", "batch", "closes"])
def test_case_40_servers_that_ignore_sigterm(tmp_path: Path, phase: str, times: int) -> None:
    starting = {"never_ready": True} if phase == "starting" else {}
    with servers(tmp_path, phase, **starting) as process:
        family = noted(tmp_path / "pids", 3 if starting else 6, limit_s=60.0)
        if not starting:
            assert process.stdout is not None
            assert process.stdout.readline() == "up\n"
        for _ in range(times):
            process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) == 130
        assert process.stderr is not None
        assert "interrupted" in process.stderr.read()
    assert gone(family, 2.0)


def test_servers_of_a_killed_harness_do_not_take_their_minute(tmp_path: Path) -> None:
    with servers(tmp_path, "serving") as process:
        family = noted(tmp_path / "pids", 6, limit_s=60.0)
        process.kill()
        assert gone(family, STOP_S)


DROPPED = """
import sys, time
from harness.command import guarded
class Slow:
    def __del__(self):
        print("destroyed", flush=True)
        time.sleep(5)
def command():
    Slow()
    time.sleep(60)
sys.exit(guarded(command))
"""


def test_an_interrupt_that_python_drops_comes_again() -> None:
    """An exception in a destructor is only printed: the command would run on."""
    with subprocess.Popen(
        [sys.executable, "-c", DROPPED], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "destroyed\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(STOP_S) == 130

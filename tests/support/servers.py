"""Starting the stub server, and looking after the processes it leaves or does not leave."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harness.config import ROOT
from harness.engines.sglang.server import ServerSpec

STUB = (sys.executable, "-S", str(ROOT / "tests/support/stub_server.py"))
linux = pytest.mark.skipif(sys.platform != "linux", reason="follows processes through /proc")

HARNESS = """
import json, os, sys, time
from pathlib import Path
from harness.engines.sglang.failures import ServerFailed
from harness.engines.sglang.server import Server, ServerSpec
options = json.loads(sys.argv[1])
forks = options.pop("forks", False)
log = Path(options.pop("log"))
try:
    server = Server.start(ServerSpec(log=log, stop_timeout_s=0.3, **options))
except ServerFailed as error:
    print("survived", error.kind, flush=True)
    sys.exit(3)
if forks and os.fork() == 0:
    time.sleep(20)
print("ready", flush=True)
time.sleep(60)
"""


def running(pid: int) -> bool:
    """Whether the process has a thread that is no zombie; its first one may have ended."""
    try:
        states = [file.read_text() for file in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:
        return False
    return any(state.rpartition(")")[2].split()[0] not in "ZX" for state in states)


def reaped(pids: list[int]) -> bool:
    """Whether not even a zombie is left of them: memory, sockets and devices are free."""
    return not any(Path(f"/proc/{pid}").exists() for pid in pids)


def gone(pids: list[int], limit_s: float = 5.0) -> bool:
    deadline = time.monotonic() + limit_s
    while any(map(running, pids)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not any(map(running, pids))


def noted(file: Path, count: int, limit_s: float = 5.0) -> list[int]:
    """The process ids the stub wrote, guard first, once `count` are there."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        lines = file.read_text().splitlines() if file.exists() else []
        if len(lines) >= count:
            return [int(line) for line in lines]
        time.sleep(0.02)
    raise AssertionError(f"{count} processes never showed up in {file}")


def stub(
    folder: Path, *, port: int | None = None, ready_s: float = 20.0, **arguments: Any
) -> ServerSpec:
    """What starts the stub with these flags; its log lies in `folder`/run."""
    return ServerSpec(
        command=STUB,
        arguments={"model_path": "tiny", **arguments},
        log=folder / "run" / "server.log",
        environment={"EVICT_CONFIG": "here.json"},
        port=port,
        ready_timeout_s=ready_s,
        stop_timeout_s=0.3,
    )


@dataclass(frozen=True)
class Foreign:
    """Somebody else's server on a port; `heard` exists once anybody has spoken to it."""

    pid: int
    port: int
    heard: Path


@contextmanager
def foreign_server(folder: Path) -> Iterator[Foreign]:
    """Yesterday's server: it answers health without a key, and writes down what it hears."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    heard = folder / "heard"
    flags = ("--host", "127.0.0.1", "--port", str(port), "--hears", str(heard))
    process = subprocess.Popen([*STUB, *flags], stdout=subprocess.DEVNULL)
    while not listening(port):
        time.sleep(0.02)
    try:
        yield Foreign(process.pid, port, heard)
    finally:
        process.kill()
        process.wait()


def listening(port: int) -> bool:
    """Whether anybody accepts connections on the loopback port."""
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def harness(tmp_path: Path, **options: Any) -> subprocess.Popen[str]:
    """A harness of its own that starts the stub and then waits for a minute."""
    options = {"command": STUB, "log": str(tmp_path / "server.log"), **options}
    return subprocess.Popen(
        [sys.executable, "-c", HARNESS, json.dumps(options)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

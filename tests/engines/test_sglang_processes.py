"""Nothing of a server outlives it, its guard or its harness, and it cannot harm the harness."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from harness.engines.sglang.failures import ServerFailed
from harness.engines.sglang.server import Server
from tests.support.servers import gone, harness, linux, noted, reaped, running, stub


@linux
@pytest.mark.parametrize("kind", ["plain", "stubborn", "setsid", "orphan", "headless"])
def test_case_40_the_whole_family_is_gone(tmp_path: Path, kind: str) -> None:
    pids = tmp_path / "pids"
    arguments = {"pids": str(pids), "spawns": [kind], "ignores_sigterm": kind != "plain"}
    with Server.start(stub(tmp_path, **arguments)):
        family = noted(pids, 3)
        assert all(map(running, family))
    assert reaped(family)


@linux
def test_case_40_a_server_that_ends_takes_its_family_along(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with pytest.raises(ServerFailed):
        Server.start(stub(tmp_path, pids=str(pids), spawns=["stubborn", "orphan"], dies_after=0.2))
    assert reaped(noted(pids, 4))


@linux
def test_case_40_without_its_guard_the_server_ends(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    with Server.start(stub(tmp_path, pids=str(pids))) as server:
        family = noted(pids, 2)
        os.kill(family[0], signal.SIGKILL)
        assert gone(family)
        assert not server.alive()


@linux
@pytest.mark.parametrize("arguments", [{}, {"never_ready": True}])
def test_case_40_an_interrupted_harness_leaves_nothing(
    tmp_path: Path, arguments: dict[str, Any]
) -> None:
    pids = tmp_path / "pids"
    arguments = {"pids": str(pids), "spawns": ["stubborn"], **arguments}
    with harness(tmp_path, arguments=arguments) as process:
        family = noted(pids, 3)
        if not arguments.get("never_ready"):
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == -signal.SIGINT
    assert reaped(family)


@linux
@pytest.mark.parametrize("killed", ["process", "group", "process with a fork"])
def test_case_40_a_killed_harness_leaves_nothing(tmp_path: Path, killed: str) -> None:
    forks = killed == "process with a fork"
    pids = tmp_path / "pids"
    arguments = {"pids": str(pids), "spawns": ["stubborn", "setsid"]}
    with harness(tmp_path, arguments=arguments, forks=forks) as process:
        family = noted(pids, 4)
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        if killed == "group":
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        assert gone(family)
        if forks:
            os.killpg(process.pid, signal.SIGKILL)


@linux
def test_the_harness_survives_what_sglang_does_to_its_group(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    arguments = {"quits": ["group"], "spawns": ["setsid"], "pids": str(pids)}
    with harness(tmp_path, arguments=arguments) as process:
        assert process.wait(10) == 3
        assert process.stdout is not None
        assert process.stdout.read().startswith("survived")
    assert reaped(noted(pids, 3))


@linux
def test_a_signal_to_its_parent_does_not_end_a_server_that_serves_on(tmp_path: Path) -> None:
    with Server.start(stub(tmp_path, quits=["parent"])) as server:
        assert server.alive()

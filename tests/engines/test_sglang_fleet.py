"""A server that cannot start, ends or does not answer is lost, whole; the next has another."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import EngineLost
from harness.engines.sglang.arguments import Kind
from harness.engines.sglang.client import Client
from harness.engines.sglang.fleet import Fleet
from harness.engines.sglang.ports import free_port
from harness.engines.sglang.reply import RequestRefused
from harness.engines.sglang.running import Running
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.server import Server
from tests.support.fake_replies import plain
from tests.support.fake_server import FakeServer
from tests.support.servers import gone, linux, noted, reaped, running, stub

OOM = """Traceback (most recent call last):
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
Exception: Capture cuda graph failed: CUDA out of memory."""
KIND = Kind()
LIMIT_S = 0.3
Make = Callable[..., Fleet]


@pytest.fixture
def answers() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


@pytest.fixture
def make(tmp_path: Path, answers: FakeServer) -> Iterator[Make]:
    """Fleets of real processes whose requests the fake answers; `first` is for the first start."""
    fleets: list[Fleet] = []

    def begin(**first: Any) -> Fleet:
        starts = [first]

        def start(kind: Kind, growth: Mapping[str, Any] | None) -> Running:
            arguments = starts.pop() if starts else {}
            server = Server.start(stub(tmp_path, pids=str(tmp_path / "pids"), **arguments))
            client = Client(answers.url, answers.api_key, LIMIT_S)
            return Running(server, client, {"attention_backend": "x"})

        fleets.append(Fleet(start, 1))
        return fleets[-1]

    yield begin
    for fleet in fleets:
        fleet.close()


def generate(fleet: Fleet) -> int:
    """Tokens of one answer."""
    with fleet.serving(KIND, None) as one:
        return len(one.client.generate([1, 2], Sampling(4), "r").ids)


def test_case_39_a_server_out_of_memory_is_a_lost_engine(make: Make) -> None:
    """Careless: the sweep ends with it, or every prompt of the cell waits for another start."""
    fleet = make(prints=OOM, dies_after=0.0)
    with pytest.raises(EngineLost, match=r"(?s)^oom_graph_capture: .*mem_fraction_static"):
        generate(fleet)
    assert generate(fleet) == 4


@linux
def test_a_server_that_does_not_answer_in_time_is_stopped_whole(
    make: Make, answers: FakeServer, tmp_path: Path
) -> None:
    fleet = make(spawns=["stubborn"], ignores_sigterm=True)
    answers.play([1, 2], plain(4).but(delays_s=(0.0, 3.0)), plain(4))
    with pytest.raises(EngineLost) as lost:
        generate(fleet)
    assert "no answer from the server: no answer within 0.3 s" in str(lost.value)
    assert "engine.process.request_timeout_s" in str(lost.value)
    assert "EVICT_CONFIG=here.json" in str(lost.value)
    assert reaped(noted(tmp_path / "pids", 3))
    assert generate(fleet) == 4


def test_a_slow_server_that_keeps_answering_is_not_lost(make: Make, answers: FakeServer) -> None:
    answers.play([1, 2], plain(6).but(delays_s=(0.1,) * 6))
    assert generate(make()) == 6


@linux
def test_a_server_that_ends_under_a_request_is_explained_by_its_end(
    make: Make, answers: FakeServer, tmp_path: Path
) -> None:
    fleet = make()
    assert generate(fleet) == 4
    answers.play([1, 2], plain(4).but(delays_s=(0.0, 0.2), lost_after=2), plain(4))
    server = noted(tmp_path / "pids", 2)[1]
    killer = threading.Timer(0.1, os.kill, (server, signal.SIGKILL))
    killer.start()
    with pytest.raises(EngineLost, match=r"signal 9 \(SIGKILL\)"):
        generate(fleet)
    killer.join()
    assert generate(fleet) == 4


@linux
def test_a_server_that_ended_between_requests_is_told_once(make: Make, tmp_path: Path) -> None:
    fleet = make()
    generate(fleet)
    family = noted(tmp_path / "pids", 2)
    os.kill(family[1], signal.SIGKILL)
    assert gone(family)
    with pytest.raises(EngineLost, match="SIGKILL"):
        generate(fleet)
    assert generate(fleet) == 4


@linux
def test_a_flush_that_is_not_answered_loses_the_server(make: Make, tmp_path: Path) -> None:
    fleet = make()
    generate(fleet)
    fleet.flush()
    (one,) = fleet.all()
    one.client = Client(f"http://127.0.0.1:{free_port()}", "key", LIMIT_S)
    os.kill(noted(tmp_path / "pids", 2)[1], signal.SIGKILL)
    with pytest.raises(EngineLost, match="SIGKILL"):
        fleet.flush()
    assert fleet.all() == []


def test_a_refused_request_is_no_lost_engine(make: Make, answers: FakeServer) -> None:
    fleet = make()
    answers.play([1, 2], plain(4).but(status=400, error="no"), plain(4))
    with pytest.raises(RequestRefused, match="no"):
        generate(fleet)
    (one,) = fleet.all()
    assert running(one.server._process.pid)
    assert generate(fleet) == 4

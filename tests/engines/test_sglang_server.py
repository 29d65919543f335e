"""One server process: started, recognised, its flags, its port and its errors."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evict.errors import InputError
from harness.engines.sglang.failures import ServerFailed
from harness.engines.sglang.server import Server, ServerSpec, flags
from tests.support.servers import Foreign, foreign_server, linux, listening, noted, reaped, stub

GRAPH_OOM = """Traceback (most recent call last):
  File "decode_cuda_graph_runner.py", line 601, in __init__
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
Exception: Capture cuda graph failed: CUDA out of memory. Tried to allocate 2.00 GiB."""


def get(server: Server, path: str, key: str = "") -> tuple[int, dict[str, Any]]:
    link = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
    link.request("GET", path, headers={"Authorization": f"Bearer {key}"})
    answer = link.getresponse()
    body = answer.read()
    link.close()
    return answer.status, json.loads(body or "{}")


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[Foreign]:
    with foreign_server(tmp_path) as server:
        yield server


def test_flags_are_formatted_for_argparse() -> None:
    given = {
        "model_path": Path("a/b"),
        "tp_size": 2,
        "trust_remote_code": True,
        "enable_metrics": False,
        "chat_template": None,
        "cuda_graph_bs": [1, 2, 4],
        "lora_paths": [],
        "override_args": {"rope": {"factor": 2.0}},
    }
    assert flags(given) == [
        *("--model-path", "a/b", "--tp-size", "2", "--trust-remote-code"),
        *("--cuda-graph-bs", "1", "2", "4", "--override-args", '{"rope": {"factor": 2.0}}'),
    ]


def test_arguments_that_the_harness_sets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"api_key, port.*ServerSpec\.port"):
        ServerSpec(arguments={"port": 1, "api_key": "x"}, log=Path("x"))


def test_a_server_starts_answers_and_stops(tmp_path: Path) -> None:
    with Server.start(stub(tmp_path)) as server:
        assert server.alive()
        assert server.url == f"http://127.0.0.1:{server.port}"
        assert get(server, "/model_info", "wrong")[0] == 401
        status, document = get(server, "/model_info", server.api_key)
        assert (status, document["weight_version"]) == (200, server.token)
    assert not server.alive()
    assert not listening(server.port)
    server.stop()


def test_two_servers_have_their_own_ports_keys_and_tokens(tmp_path: Path) -> None:
    with Server.start(stub(tmp_path)) as one, Server.start(stub(tmp_path)) as two:
        assert one.port != two.port
        assert one.api_key != two.api_key
        assert one.token != two.token


def test_a_free_port_asked_for_is_used(tmp_path: Path) -> None:
    with Server.start(stub(tmp_path)) as first:
        port = first.port
    with Server.start(stub(tmp_path, port=port)) as second:
        assert second.port == port


def test_the_server_outlives_the_thread_that_started_it(tmp_path: Path) -> None:
    started: list[Server] = []
    thread = threading.Thread(target=lambda: started.append(Server.start(stub(tmp_path))))
    thread.start()
    thread.join()
    time.sleep(0.2)
    with started[0] as server:
        assert get(server, "/health")[0] == 200


def test_the_environment_and_the_log_reach_the_server(tmp_path: Path) -> None:
    spec = stub(tmp_path, prints="hello from below")
    with Server.start(spec):
        pass
    written = spec.log.read_text()
    assert written.startswith("$ ")
    assert "hello from below" in written
    assert "EVICT_CONFIG=here.json" in written
    with Server.start(stub(tmp_path)):
        pass
    assert spec.log.read_text().startswith(written)


def test_case_39_out_of_memory_in_graph_capture_is_told_at_once(tmp_path: Path) -> None:
    chatter = "\n".join(f"loading shard {i}" for i in range(50))
    spec = stub(tmp_path, prints=f"{chatter}\n{GRAPH_OOM}", dies_after=0.2, ready_s=1200.0)
    began = time.monotonic()
    with pytest.raises(ServerFailed) as caught:
        Server.start(spec)
    assert time.monotonic() - began < 60.0
    error = caught.value
    assert error.kind == "oom_graph_capture"
    assert len(error.log_lines) == 30
    assert error.log_lines[-1].startswith("Exception: Capture cuda graph failed")
    assert "mem_fraction_static" in error.hint
    assert "cuda_graph_max_bs" in error.hint
    for part in ("oom_graph_capture", "exit status 1", "loading shard 49", error.hint):
        assert part in str(error)


def test_case_39_the_next_server_of_a_sweep_starts(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed):
        Server.start(stub(tmp_path, prints=GRAPH_OOM, dies_after=0.0))
    with Server.start(stub(tmp_path)) as server:
        assert server.alive()


def test_a_later_failure_is_not_explained_by_an_earlier_log(tmp_path: Path) -> None:
    with pytest.raises(ServerFailed):
        Server.start(stub(tmp_path, prints=GRAPH_OOM, dies_after=0.0))
    with pytest.raises(ServerFailed) as caught:
        Server.start(stub(tmp_path, prints="nothing special", dies_after=0.0))
    assert caught.value.kind == "other"


def test_a_server_that_dies_while_serving_is_explained(tmp_path: Path) -> None:
    with Server.start(stub(tmp_path, pids=str(tmp_path / "pids"))) as server:
        os.kill(noted(tmp_path / "pids", 2)[1], signal.SIGKILL)
        while server.alive():
            time.sleep(0.02)
        assert "signal 9" in server.failure().what


def test_a_command_that_does_not_exist_is_named(tmp_path: Path) -> None:
    spec = ServerSpec(command=("no-such-sglang",), arguments={}, log=stub(tmp_path).log)
    with pytest.raises(ServerFailed, match="no-such-sglang"):
        Server.start(spec)


def test_a_server_that_is_never_ready_is_stopped(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    family = {"pids": str(pids), "spawns": ["plain"]}
    with pytest.raises(ServerFailed, match="not ready in time"):
        Server.start(stub(tmp_path, ready_s=0.6, never_ready=True, **family))
    assert reaped(noted(pids, 3))


def test_the_key_stays_out_of_errors_and_of_the_finished_log(tmp_path: Path) -> None:
    spec = stub(tmp_path, prints="one line", never_ready=True, ready_s=0.5)
    server = Server(spec)
    while "api_key=" not in spec.log.read_text():
        time.sleep(0.02)
    assert server.api_key in spec.log.read_text()
    assert server.api_key not in str(server.failure("died"))
    assert "api_key='****" in str(server.failure("died"))
    assert server.redact(f"a {server.api_key} b").strip("*ab ") == ""
    server.stop()
    assert server.api_key not in spec.log.read_text()
    assert "one line" in spec.log.read_text()
    assert server.api_key not in str(spec.log)


@linux
def test_case_40_a_taken_port_is_refused_with_its_owner(tmp_path: Path, foreign: Foreign) -> None:
    with pytest.raises(InputError, match=rf"process {foreign.pid} .*free one"):
        Server.start(stub(tmp_path, port=foreign.port))
    assert not foreign.heard.exists()
    assert not stub(tmp_path).log.exists()


@linux
def test_case_40_a_server_that_slipped_onto_the_port_is_never_spoken_to(
    tmp_path: Path,
    foreign: Foreign,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("harness.engines.sglang.ports.free_port", lambda: foreign.port)
    with pytest.raises(ServerFailed, match=rf"not ours: process {foreign.pid}") as caught:
        Server.start(stub(tmp_path, dies_after=30.0))
    assert caught.value.kind == "port_in_use"
    assert not foreign.heard.exists()


@pytest.mark.parametrize("other", [{"other_token": "start-1"}, {"other_model": "yesterdays"}])
def test_case_40_token_and_model_path_are_checked(tmp_path: Path, other: dict[str, str]) -> None:
    with pytest.raises(ServerFailed, match="not ours") as caught:
        Server.start(stub(tmp_path, **other))
    assert caught.value.kind == "port_in_use"

"""Requests over HTTP: what is sent, what fails, and the prefix cache."""

from __future__ import annotations

import math
import socket
import threading
from collections.abc import Iterator

import pytest

from evict.errors import InputError
from harness.consistency import InconsistentTrace
from harness.engines.sglang.client import CacheNotFlushed, Client
from harness.engines.sglang.metadata import UnreadableReply
from harness.engines.sglang.reply import (
    AnswerFailed,
    ConnectionLost,
    GenerationAborted,
    NoAnswer,
    RequestRefused,
)
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.trace import Arm, WarmPrefixCache, stock_trace
from harness.validity.sampling import looks_greedy
from tests.support.asking import PLAIN, PROMPT, ask, request, traced, words
from tests.support.fake_replies import Script, plain
from tests.support.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


def test_case_25_sampling_is_sent_in_full_with_nothing_left_to_defaults(server: FakeServer) -> None:
    with server.client() as client:
        client.generate(PROMPT, Sampling(9, 1.0, stop=("\n\n",), seed=7), "rid-1")
        client.generate(PROMPT, Sampling(9), "rid-2")
    sampled, greedy = server.bodies("/generate")
    assert sampled == {
        "rid": "rid-1",
        "input_ids": [5, 6, 7],
        "stream": True,
        "sampling_params": {
            "max_new_tokens": 9,
            "temperature": 1.0,
            "ignore_eos": False,
            "top_p": 1.0,
            "top_k": -1,
            "min_p": 0.0,
            "frequency_penalty": 0.0,
            "presence_penalty": 0.0,
            "repetition_penalty": 1.0,
            "stream_interval": 1,
            "stop": ["\n\n"],
            "sampling_seed": 7,
        },
    }
    assert greedy["sampling_params"]["temperature"] == 0.0
    assert not {"stop", "sampling_seed"} & set(greedy["sampling_params"])


def test_case_25_five_seeds_with_one_output_look_greedy(server: FakeServer) -> None:
    server.play(PROMPT, plain(64))
    with server.client() as client:
        same = [client.generate(PROMPT, Sampling(64, 1.0, seed=s), f"r{s}").ids for s in range(5)]
    assert looks_greedy(same, 1.0) == "sampling looks greedy: 5 seeds, one output of 64 tokens"
    assert looks_greedy(same, 0.0) is None
    assert looks_greedy(same[:4], 1.0) is None
    assert looks_greedy([ids[:63] for ids in same], 1.0) is None
    assert looks_greedy([*same[:4], (*same[4][:-1], 1)], 1.0) is None


def test_a_request_is_cut_to_the_room_that_the_context_leaves() -> None:
    asked = request(100, stop=("x",), ignore_eos=True, temperature=0.5)
    assert Sampling.of(asked, 3, 40) == Sampling(40, 0.5, True, ("x",), 3)
    assert Sampling.of(asked, None, 400).max_new_tokens == 100
    with pytest.raises(InputError, match=r"no room for a new token; seen: 0"):
        Sampling.of(asked, 3, 0)


@pytest.mark.parametrize("temperature", [-1.0, math.nan, math.inf])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(InputError, match="temperature; seen"):
        Sampling(4, temperature)


@pytest.mark.parametrize("ids", [[], [-1], [1, 300], [299, 300]])
def test_ids_outside_the_vocabulary_never_reach_the_server(
    server: FakeServer, ids: list[int]
) -> None:
    """One such id ends the real scheduler, and with it every later request."""
    with server.client(vocab=300) as client:
        with pytest.raises(InputError, match="prompt ids"):
            client.generate(ids, Sampling(4), "r")
        client.generate([299], Sampling(4), "r")
    assert len(server.bodies("/generate")) == 1


def test_a_key_is_required_except_for_health(server: FakeServer) -> None:
    with Client(server.url, "wrong") as client:
        assert client.health()
        for call in (client.server_info, client.flush_cache):
            with pytest.raises(RequestRefused, match="HTTP 401: Unauthorized"):
                call()
    with server.client() as client:
        assert client.server_info() == {"version": "0.5.23"}
        assert client.model_info() == {"model_path": "fake"}
        server.healthy = False
        assert not client.health()


@pytest.mark.parametrize("url", ["127.0.0.1:80", "https://host:1", "http://host", "http://:1"])
def test_an_address_must_be_complete(url: str) -> None:
    with pytest.raises(InputError, match="server address"):
        Client(url, "key")


def test_one_connection_serves_all_requests_and_a_closed_one_is_replaced(
    server: FakeServer,
) -> None:
    with server.client() as client:
        for _ in range(3):
            client.generate(PROMPT, Sampling(4), "r")
            client.flush_cache()
        assert server.connections == 1
        server.play(PROMPT, plain(4).but(close=True), plain(4))
        client.generate(PROMPT, Sampling(4), "r")
        assert client.generate(PROMPT, Sampling(4), "r").ids
    assert server.connections == 2


def test_a_connection_that_is_closed_while_a_request_is_sent_is_replaced() -> None:
    """A server closes idle connections: none of its answers is lost by that."""
    answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
    asked: list[bytes] = []

    def serve(listener: socket.socket) -> None:
        for answered in (1, 1, 0, 0):
            link, _ = listener.accept()
            with link:
                for _ in range(answered):
                    asked.append(link.recv(4096))
                    link.sendall(answer)
                link.recv(4096)  # the next request arrives, and the connection is closed

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve, args=(listener,))
        thread.start()
        with Client(f"http://127.0.0.1:{listener.getsockname()[1]}", "key", 5.0) as client:
            assert client.server_info() == {}
            assert client.model_info() == {}
            for _ in range(2):  # over a kept connection and again, then over a new one only
                with pytest.raises(ConnectionLost, match="without response"):
                    client.server_info()
        thread.join()
    assert [line.split()[1] for line in asked] == [b"/server_info", b"/model_info"]


@pytest.mark.parametrize(
    ("script", "error", "message"),
    [
        (Script(status=400, error="bad body"), RequestRefused, "HTTP 400: bad body"),
        (Script(status=500, error="it broke"), AnswerFailed, "HTTP 500: it broke"),
        (plain(4).but(failed_after=0, error="too long"), RequestRefused, "HTTP 400: too long"),
        (plain(4).but(failed_after=2, error="gone wrong"), RequestRefused, "HTTP 400: gone wrong"),
        (plain(4).but(lost_after=2), ConnectionLost, "IncompleteRead|ended early, after 2"),
        (plain(4).but(quiet_end=True), ConnectionLost, "ended early, after 4 events"),
        (
            plain(2).but(finish={"type": "abort", "message": "shut down", "status_code": 503}),
            GenerationAborted,
            "HTTP 503: shut down",
        ),
    ],
)
def test_case_11_every_failure_has_its_class_and_the_servers_words(
    server: FakeServer, script: Script, error: type[Exception], message: str
) -> None:
    """Careless: half an answer, or the one before, booked as a success."""
    server.play(PROMPT, script, plain(3))
    with server.client() as client:
        with pytest.raises(error, match=message):
            client.generate(PROMPT, Sampling(4), "r")
        assert len(client.generate(PROMPT, Sampling(4), "r2").ids) == 3


def test_no_server_and_a_silent_one_differ(server: FakeServer) -> None:
    server.play(PROMPT, plain(3).but(delays_s=(0.0, 0.6)))
    with server.client(timeout_s=0.1) as client, pytest.raises(NoAnswer, match=r"within 0\.1 s"):
        client.generate(PROMPT, Sampling(4), "r")
    with Client("http://127.0.0.1:9", "k") as client:
        with pytest.raises(ConnectionLost, match="refused"):
            client.generate(PROMPT, Sampling(4), "r")
        assert not client.health()


def test_an_answer_to_another_request_is_refused(server: FakeServer) -> None:
    with pytest.raises(UnreadableReply, match="asked for request 'r', answered 'q'"):
        ask(server, plain(2).counted(id="q"))


def test_ids_that_were_lost_are_noticed(server: FakeServer) -> None:
    with pytest.raises(UnreadableReply, match="4 ids after 3, and a count of 5"):
        ask(server, plain(4).counted(completion_tokens=5))


def test_case_21_a_warm_prompt_is_no_measurement(server: FakeServer) -> None:
    """Careless: arm B meets the prompts of arm A, is faster, and wins."""
    with server.client() as client:
        for rid in ("a", "b"):
            reply = client.generate(PROMPT, Sampling(4), rid)
        with pytest.raises(WarmPrefixCache, match="warm prefix cache: 2 of 3 prompt tokens"):
            stock_trace(reply, request(4), PLAIN, words)
        trace = stock_trace(reply, request(4), Arm(shared_prefix=2), words).trace
        assert (len(trace.steps), trace.cached_tokens) == (3, 2)
        client.flush_cache()
        cold = client.generate(PROMPT, Sampling(4), "c")
    assert stock_trace(cold, request(4), PLAIN, words).trace.output_ids == [100, 101, 102, 103]


def test_case_21_a_refused_flush_is_asked_again_and_then_an_error(server: FakeServer) -> None:
    """Careless: the refusal is printed, and the arm runs on a warm cache."""
    naps: list[float] = []
    with server.client(sleep=naps.append) as client:
        client.generate(PROMPT, Sampling(4), "a")
        server.busy_flushes = 3
        client.flush_cache()
        assert (server.cached, len(naps)) == (set(), 3)
        server.busy_flushes = 10**6
        with pytest.raises(CacheNotFlushed, match=r"HTTP 400: Flush cache failed\. \(20 times\)"):
            client.flush_cache(patience_s=2.0)
    assert sum(naps) == pytest.approx(0.3 + 1.9)


def test_case_21_a_reply_that_hides_its_cache_is_refused(server: FakeServer) -> None:
    with pytest.raises(InconsistentTrace, match="no cached_tokens"):
        traced(server, plain(4).counted(cached_tokens=None), PLAIN)

"""Real servers whose scheduler dies or hangs: the request is lost, the next has a new server."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.engines.base import EngineLost, Method, Request
from harness.engines.guard import descendants
from tests.sglang.engines import lab_engine
from tests.support.servers import gone

PLAIN = Method("vanilla")
LIMIT_S = 20.0


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    found = lab_engine(tmp_path_factory.mktemp("servers"), {"request_timeout_s": LIMIT_S})
    yield found
    found.close()


def generate(engine: Any, tokens: int) -> Any:
    ids = engine.encode_chat([{"role": "user", "content": "What is 12 plus 7?"}])
    return engine.generate(Request("q", tuple(ids), tokens, ignore_eos=True), PLAIN, seed=0)


def family(engine: Any) -> list[int]:
    """The server's guard and all processes below it."""
    (one,) = engine.fleet.all()
    guard = one.server._process.pid
    return [guard, *descendants(guard)]


def scheduler(engine: Any) -> int:
    """The process that runs the model; SGLang names it so."""
    named = {pid: Path(f"/proc/{pid}/cmdline").read_text() for pid in family(engine)}
    (found,) = [pid for pid, name in named.items() if name.startswith("sglang::scheduler")]
    return found


def later(action: int, pid: int) -> threading.Timer:
    timer = threading.Timer(1.0, os.kill, (pid, action))
    timer.start()
    return timer


def test_a_scheduler_that_dies_or_hangs_costs_one_request(engine: Any) -> None:
    before = generate(engine, 8)
    assert before.cached_tokens == 0
    assert engine.read_back(PLAIN)["attention_backend"] == "torch_native"
    first = family(engine)
    killer = later(signal.SIGKILL, scheduler(engine))
    with pytest.raises(EngineLost, match=r"log lines"):
        generate(engine, 800)
    killer.join()
    assert gone(first)
    assert engine.read_back(PLAIN) == {}
    assert generate(engine, 8).output_ids == before.output_ids
    second = family(engine)
    stopper = later(signal.SIGSTOP, scheduler(engine))
    with pytest.raises(EngineLost, match=rf"no answer within {LIMIT_S} s"):
        generate(engine, 800)
    stopper.join()
    assert gone(second)

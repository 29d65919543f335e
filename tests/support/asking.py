"""One question to a fake server, and the trace of its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.engines.base import Request
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.trace import Arm, Traced, stock_trace
from tests.support.fake_replies import Script
from tests.support.fake_server import FakeServer

PROMPT = (5, 6, 7)
TREE = Arm(draft_tokens=32, depth=4)
PLAIN = Arm()


def ticks(*seconds: float) -> Callable[[], float]:
    """A clock that reads these values in turn, then the last one again."""
    left = list(seconds)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


def words(ids: Sequence[int]) -> str:
    return " ".join(map(str, ids))


def request(tokens: int = 64, **parts: Any) -> Request:
    return Request("p", PROMPT, tokens, **parts)


def ask(server: FakeServer, script: Script, *seconds: float, rid: str = "r") -> Reply:
    server.play(PROMPT, script)
    server.cached.clear()
    with server.client(clock=ticks(*(seconds or (0.0,)))) as client:
        return client.generate(PROMPT, Sampling(64), rid)


def traced(server: FakeServer, script: Script, arm: Arm, *seconds: float, **parts: Any) -> Traced:
    """A stock server's trace; the request asks for as many tokens as the script has."""
    parts = {"tokens": len(script.ids)} | parts
    return stock_trace(ask(server, script, *seconds), request(**parts), arm, words)


def step_lines(script: Script, widths: Sequence[int], rid: str = "r") -> list[dict[str, Any]]:
    """What the worker would have recorded for this script; step i verifies widths[i] nodes."""
    steps = script.fields["spec_verify_ct"]
    accepted = [n - 1 for n in script.chunks[1:]]
    accepted[-1] = script.fields["spec_num_correct_drafts"] - sum(accepted[:-1])
    return [
        {
            "epoch": 1, "step": 10 + i, "rids": ["other", rid], "batch": 2, "k": widths[i],
            "drafted": 31, "depth": 4, "expected": 2.5, "full": 3.0, "accepted": [9, accepted[i]],
            "context": [99, 3 + sum(n for n in script.chunks[1 : i + 1])],
            "draft_ms": 1.0, "verify_ms": 2.0, "extend_ms": 0.5, "gap_ms": None,
            "step_ms": 4.0 if i + 1 < steps else None, "graph": True,
            "union": [8, 10 + i], "tree": None,
        }
        for i in range(steps)
    ]  # fmt: skip

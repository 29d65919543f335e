"""The likeliest tokens as the real server tells them, against the embedded engine's."""

from __future__ import annotations

from typing import Any

import pytest

from harness.engines.base import Method, Request
from tests.sglang.checkpoints import LAB

PLAIN = Method("vanilla")


@pytest.fixture(scope="module")
def embedded() -> Any:
    from harness.engines.torch.engine import TorchEngine

    return TorchEngine({"name": "lab", "target": str(LAB.target), "draft": None}, device="cpu")


def test_both_engines_list_the_same_tokens(engine: Any, embedded: Any) -> None:
    prompt = engine.encode_chat([{"role": "user", "content": "What is 12 plus 7?"}])
    output = engine.generate(Request("q", tuple(prompt), 8), PLAIN, 0).output_ids
    for at, token in enumerate(output):
        context = [*prompt, *output[:at]]
        found, expected = engine.top_gap(context), embedded.top_gap(context)
        assert found.ids[0] == token
        assert found.ids[:3] == expected.ids[:3]
        assert found.behind[:3] == pytest.approx(expected.behind[:3], abs=1e-3)


def test_a_question_leaves_nothing_for_the_next_request(engine: Any) -> None:
    prompt = tuple(engine.encode_chat([{"role": "user", "content": "Write a short plan."}]))
    engine.top_gap(prompt)
    trace = engine.generate(Request("q", prompt, 4), PLAIN, 0)
    assert trace.cached_tokens == 0

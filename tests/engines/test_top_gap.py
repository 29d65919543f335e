"""What an engine says of the target's likeliest tokens, with which a difference is judged."""

from __future__ import annotations

import pytest
import torch
from transformers import Qwen3MoeForCausalLM

from evict.errors import InputError
from harness.engines.base import Method, Request
from harness.engines.sglang.gap import top_gap
from harness.engines.sglang.metadata import UnreadableReply
from harness.engines.sglang.reply import RequestRefused
from harness.engines.torch.engine import TorchEngine
from harness.equality import LISTED, NextTokens
from tests.engines.conftest import LAB
from tests.support.fake_replies import Script, plain
from tests.support.fake_server import FakeServer

PLAIN = Method("vanilla")
CONTEXT = [5, 6, 7]


@pytest.fixture
def prompt(lab: TorchEngine) -> list[int]:
    return lab.encode_chat([{"role": "user", "content": "Who founded Morstad, and when?"}])


def test_torch_lists_what_transformers_finds_likeliest(lab: TorchEngine, prompt: list[int]) -> None:
    reference = Qwen3MoeForCausalLM.from_pretrained(LAB["target"], dtype=torch.float32).eval()
    with torch.inference_mode():
        logits = reference(torch.tensor([prompt])).logits[0, -1].double()
    best = logits.log_softmax(-1).topk(LISTED)
    found = lab.top_gap(prompt)
    assert found.ids == tuple(best.indices.tolist())
    behind = best.values[0] - best.values
    assert found.behind == pytest.approx(behind.tolist(), abs=1e-4)
    assert found.gap(found.ids[0], found.ids[1]) == pytest.approx(float(behind[1]), abs=1e-4)


def test_the_first_is_what_greedy_decoding_takes_at_every_place(
    lab: TorchEngine, prompt: list[int]
) -> None:
    output = lab.generate(Request("p", tuple(prompt), 12), PLAIN, 0).output_ids
    assert len(set(output)) > 4
    for at, token in enumerate(output):
        found = lab.top_gap([*prompt, *output[:at]])
        assert found.ids[0] == token
        assert found.gap(token) == 0.0
        assert list(found.behind) == sorted(found.behind)


def test_asking_changes_no_later_output(lab: TorchEngine, prompt: list[int]) -> None:
    request = Request("p", tuple(prompt), 12)
    before = lab.generate(request, PLAIN, 0).output_ids
    lab.top_gap([*prompt, *before[:5]])
    assert lab.generate(request, PLAIN, 0).output_ids == before


@pytest.mark.parametrize("size", [0, 100_000])
def test_a_context_that_no_request_could_have_is_refused(lab: TorchEngine, size: int) -> None:
    with pytest.raises(InputError, match="prompt gap"):
        lab.top_gap([5] * size)


def answer(*best: tuple[float, int]) -> Script:
    """A reply of one token with SGLang's (log-probability, id, text) per listed token."""
    return plain(1).counted(output_top_logprobs=[[[*one, None] for one in best]])


def test_sglang_is_asked_for_one_token_and_left_with_an_empty_cache() -> None:
    with FakeServer() as server, server.client() as client:
        server.play(CONTEXT, answer((-0.5, 9), (-0.75, 4), (-2.5, 8)))
        assert top_gap(client, CONTEXT) == NextTokens((9, 4, 8), (0.0, 0.25, 2.0))
        assert not server.cached
    (body,) = server.bodies("/generate")
    assert body["input_ids"] == CONTEXT
    assert (body["return_logprob"], body["top_logprobs_num"]) == (True, LISTED)
    assert body["sampling_params"]["max_new_tokens"] == 1
    assert body["sampling_params"]["temperature"] == 0.0
    assert not body["stream"]


@pytest.mark.parametrize("field", [None, [], [[]], [[[-0.5]]], [[["x", 3, None]]], 7])
def test_an_sglang_answer_without_log_probabilities_is_no_evidence(field: object) -> None:
    with FakeServer() as server, server.client() as client:
        server.play(CONTEXT, plain(1).counted(output_top_logprobs=field))
        with pytest.raises(UnreadableReply, match="output_top_logprobs"):
            top_gap(client, CONTEXT)


def test_an_sglang_refusal_is_passed_on() -> None:
    with FakeServer() as server, server.client() as client:
        server.play(CONTEXT, Script(status=400, error="too long"))
        with pytest.raises(RequestRefused, match="too long"):
            top_gap(client, CONTEXT)


def test_how_far_tokens_lie_behind_the_best() -> None:
    found = NextTokens((9, 4, 8), (0.0, 0.25, 2.0))
    assert (found.gap(9, 4), found.gap(4, 9), found.gap(9, 8), found.gap(4, 8)) == (
        0.25,
        0.25,
        2.0,
        2.0,
    )
    assert found.gap(9) == 0.0
    assert found.gap(9, 5) is None

"""The decode loop through the engine: lossless, counted right, stopped where it should stop."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import FixedDepth
from evict.selection import CostAware, FixedPrefix, Full
from harness.engines.base import Method, Request, StepView
from harness.engines.torch.engine import TorchEngine
from harness.engines.torch.layers import causal
from harness.engines.torch.proposer import Eagle3Proposer
from harness.lab.check import conversations
from harness.lab.corpus import FAMILIES
from harness.lab.prompts import FOLDER
from harness.profiling.cost import fingerprint
from tests.support.checkpoints import TinyPair

PLAIN = Method("plain")
GROWTH = FixedDepth(steps=4, topk=8)
FULL = Method("full", "eagle3", GROWTH, Full(), draft_tokens=32)
EVICT = replace(FULL, name="evict", selection=CostAware())


def fixed(k: int) -> Method:
    return replace(FULL, name=f"fixed-{k}", selection=FixedPrefix(k))


def table(engine: TorchEngine, beta: float = 1.0) -> CostTable:
    """A plausible cost curve that makes the cut move from step to step."""
    steps = tuple(5.0 + 0.9 * k**0.8 for k in range(1, 33))
    return CostTable(steps, 4.0, (0.1,) * 32, beta, fingerprint(engine, FULL))


def ask(ids: list[int], tokens: int = 48, **more: object) -> Request:
    return Request("r", tuple(ids), tokens, **more)  # type: ignore[arg-type]


def lab_prompts(engine: TorchEngine, per_family: int) -> list[list[int]]:
    return [
        engine.encode_chat([{"role": "user", "content": turns[0]}])
        for family in FAMILIES
        for turns in conversations(FOLDER, family, per_family)
    ]


@pytest.mark.parametrize("k", range(1, 33))
def test_every_fixed_k_equals_plain_decoding(lab: TorchEngine, k: int) -> None:
    prompt = lab_prompts(lab, 1)[k % 6]
    plain, drafted = (lab.generate(ask(prompt), m, 0) for m in (PLAIN, fixed(k)))
    assert drafted.output_ids == plain.output_ids
    assert all(step.verified == k for step in drafted.steps)
    assert k == 1 or len(drafted.steps) < len(plain.steps), "nothing was ever accepted"


@pytest.mark.parametrize("beta", [1.0, 1.6])
def test_evict_equals_plain_decoding_on_lab_prompts(lab: TorchEngine, beta: float) -> None:
    lab.set_cost(table(lab, beta))
    cuts = set()
    for prompt in lab_prompts(lab, 2):
        request = ask(prompt, 96)
        trace = lab.generate(request, replace(EVICT, scores="beta"), 0)
        assert trace.output_ids == lab.generate(request, PLAIN, 0).output_ids
        cuts |= {step.verified for step in trace.steps}
    assert len(cuts) >= 5


@pytest.mark.slow
def test_every_policy_is_lossless_on_sixty_lab_prompts(lab: TorchEngine) -> None:
    lab.set_cost(table(lab))
    prompts = lab_prompts(lab, 10)
    assert len(prompts) >= 60
    for prompt in prompts:
        request = ask(prompt, 128)
        plain = lab.generate(request, PLAIN, 0).output_ids
        for method in (EVICT, *(fixed(k) for k in range(1, 33))):
            assert lab.generate(request, method, 0).output_ids == plain, method.name


def test_drafting_pays_on_the_lab_model(lab: TorchEngine) -> None:
    """A head whose tree, order or features were off would fall to about one token a step."""
    trace = lab.generate(ask(lab_prompts(lab, 1)[2], 96), FULL, 0)
    assert sum(step.committed for step in trace.steps) / len(trace.steps) > 2.0


def test_counts_of_every_step(lab: TorchEngine) -> None:
    lab.set_cost(table(lab))
    for prompt in lab_prompts(lab, 1):
        trace = lab.generate(ask(prompt, 64), EVICT, 0)
        assert sum(step.committed for step in trace.steps) == len(trace.output_ids) - 1
        for step in trace.steps[:-1]:
            assert step.committed == step.accepted + 1
        for step, unions in zip(trace.steps, trace.expert_union_layers, strict=True):
            assert step.accepted < step.verified <= step.drafted + 1 == 32
            assert all(4 <= union <= min(48, 4 * step.verified) for union in unions)
            parts = step.draft_ms + step.verify_ms + step.extend_ms + step.other_ms
            assert parts == pytest.approx(step.total_ms, rel=0.02, abs=0.05)


def test_case_01_end_token_inside_the_accepted_prefix(lab: TorchEngine) -> None:
    """A cut step counts what was committed, whatever was accepted: EOS and max tokens alike."""
    prompt = lab_prompts(lab, 1)[0]
    whole = lab.generate(ask(prompt, 128), FULL, 0)
    assert whole.finish_reason == "eos"
    assert whole.output_ids[-1] in lab.tokenizer.eos_ids
    cut = 0
    for length in range(2, 14):
        trace = lab.generate(ask(prompt, length), FULL, 0)
        assert trace.output_ids == whole.output_ids[:length]
        assert trace.finish_reason == "length"
        assert sum(step.committed for step in trace.steps) == length - 1
        cut += trace.steps[-1].committed < trace.steps[-1].accepted + 1
    assert cut > 0


def test_stop_string_ends_at_its_first_token(lab: TorchEngine) -> None:
    prompt = lab_prompts(lab, 1)[0]
    whole = lab.generate(ask(prompt, 96), PLAIN, 0)
    stop = lab.decode(whole.output_ids[20:23])
    for method in (PLAIN, FULL):
        trace = lab.generate(ask(prompt, 96, stop=(stop,)), method, 0)
        assert trace.finish_reason == "stop"
        assert stop in trace.text
        assert stop not in lab.decode(trace.output_ids[:-1])


@pytest.mark.parametrize("length", [200, 220, 240, 255])
def test_full_context_ends_every_method_at_the_same_token(tiny: TorchEngine, length: int) -> None:
    """A wide tree near the end of the context must not end a request earlier than plain steps."""
    request = ask([5 + i % 200 for i in range(length)], 500, ignore_eos=True)
    plain, wide = tiny.generate(request, PLAIN, 0), tiny.generate(request, FULL, 0)
    assert wide.output_ids == plain.output_ids
    assert wide.finish_reason == plain.finish_reason == "context"
    assert length + len(plain.output_ids) == tiny.context_length


def test_sampling_repeats_with_its_seed_only(tiny: TorchEngine, ids: list[int]) -> None:
    request = ask(ids, 24, temperature=1.0, ignore_eos=True)
    first = tiny.generate(request, fixed(8), 7).output_ids
    assert tiny.generate(request, fixed(8), 7).output_ids == first
    assert any(tiny.generate(request, fixed(8), seed).output_ids != first for seed in range(8, 12))


def test_cold_sampling_is_greedy_and_warm_sampling_is_not(lab: TorchEngine) -> None:
    """The temperature reaches the target's distribution; its exact law is in tests/evict."""
    prompt = lab_prompts(lab, 1)[0]
    greedy = lab.generate(ask(prompt), FULL, 0).output_ids
    assert lab.generate(ask(prompt, temperature=1e-4), FULL, 3).output_ids == greedy
    warm = {tuple(lab.generate(ask(prompt, temperature=2.0), FULL, s).output_ids) for s in range(3)}
    assert len(warm) == 3


def test_drafting_starts_from_the_true_states_at_every_step(
    tiny_pair: TinyPair, tiny: TorchEngine, ids: list[int]
) -> None:
    """First-level draft logits equal a pass of the training module over the whole text so far."""
    seen: list[StepView] = []
    request = ask(ids, 24, ignore_eos=True)
    trace = tiny.generate(request, FULL, 0, observer=seen.append)
    text, checked = [*ids, trace.output_ids[0]], 0
    for view in seen:
        if view.draft_rows:
            tokens = torch.tensor([text])
            with torch.inference_mode():
                states = tiny_pair.target_module(tokens).states_BTF
                expected = tiny_pair.head_module.unroll(tokens, states, 1)[0][0, -2]
            assert (view.draft_rows[0][0] - expected).abs().max() < 1e-4
            checked += 1
        text += [*view.tree.tokens_N[view.path].tolist()[1:], view.next_token]
    assert checked >= 5


def test_accepted_paths_feed_the_drafter_their_own_states(lab: TorchEngine) -> None:
    """As above where drafts are accepted: a fresh drafter over the whole text agrees."""
    seen: list[StepView] = []
    prompt = lab_prompts(lab, 1)[2]
    trace = lab.generate(ask(prompt, 32), FULL, 0, observer=seen.append)
    assert lab.head is not None
    text, long_paths = [*prompt, trace.output_ids[0]], 0
    for view in seen:
        fresh = Eagle3Proposer(lab.head, slots=512, beta=1.0)
        tokens, size = torch.tensor(text[:-1]), len(text) - 1
        with torch.inference_mode():
            out = lab.target.forward(
                tokens,
                torch.arange(size),
                lab.target.new_cache(size),
                causal(size, 0, torch.float32, "cpu"),
                lab.head.config.aux_layers,
            )
            fresh.extend(out.states_TF, text[1:])
            fresh.first(topk=8)
        assert (view.draft_rows[0][0] - fresh._logits[0][0]).abs().max() < 1e-3
        long_paths += len(view.path) > 2
        text += [*view.tree.tokens_N[view.path].tolist()[1:], view.next_token]
    assert long_paths >= 3


def test_observer_sees_the_tree_and_the_drafters_rows(lab: TorchEngine) -> None:
    seen: list[StepView] = []
    trace = lab.generate(ask(lab_prompts(lab, 1)[0], 48), FULL, 0, observer=seen.append)
    assert len(seen) == len(trace.steps)
    for view, step in zip(seen, trace.steps, strict=True):
        assert view.tree.size == 32
        assert view.path[0] == 0
        assert len(view.path) == step.accepted + 1
        assert 1 <= len(view.draft_rows) <= 4 or step.accepted == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"engine": "sglang"}, "engine"),
        ({"model": "other"}, "model"),
        ({"dtype": "bfloat16"}, "dtype"),
        ({"device": "cpu (other)"}, "device"),
        ({"threads": "7"}, "threads"),
        ({"weights": "0" * 16}, "weights"),
    ],
)
def test_foreign_cost_table_is_refused(
    tiny: TorchEngine, change: dict[str, str], field: str
) -> None:
    good = table(tiny)
    foreign = replace(good, fingerprint={**good.fingerprint, **change})
    with pytest.raises(InputError, match=field):
        tiny.set_cost(foreign)


def test_table_of_another_growth_is_refused(tiny: TorchEngine, ids: list[int]) -> None:
    tiny.set_cost(table(tiny))
    other = replace(EVICT, growth=FixedDepth(steps=3, topk=8))
    with pytest.raises(InputError, match="growth"):
        tiny.generate(ask(ids), other, 0)


def test_evict_without_a_table_says_what_to_do(tiny: TorchEngine, ids: list[int]) -> None:
    tiny.set_cost(None)
    with pytest.raises(InputError, match="cost table"):
        tiny.generate(ask(ids), EVICT, 0)


@pytest.mark.parametrize(
    ("request_", "match"),
    [
        (Request("empty", (), 8), "empty"),
        (Request("long", tuple(range(3, 259)), 8), "longer than the context"),
        (Request("zero", (5,), 0), "max_new_tokens"),
        (Request("cold", (5,), 4, temperature=-1.0), "temperature"),
    ],
    ids=lambda value: value.prompt_id if isinstance(value, Request) else "",
)
def test_bad_requests(tiny: TorchEngine, request_: Request, match: str) -> None:
    with pytest.raises(InputError, match=match):
        tiny.generate(request_, FULL, 0)


@pytest.mark.gpu
def test_cuda_equals_cpu(tiny: TorchEngine, tiny_pair: object, ids: list[int]) -> None:
    model = {"name": "tiny", "target": str(tiny_pair.target), "draft": str(tiny_pair.draft)}  # type: ignore[attr-defined]
    cuda = TorchEngine(model, device="cuda")
    request = ask(ids, ignore_eos=True)
    assert torch.cuda.is_available()
    assert cuda.generate(request, FULL, 0).output_ids == tiny.generate(request, PLAIN, 0).output_ids

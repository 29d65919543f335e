"""Speed as ratios measured interleaved on this machine; run alone: pytest -m slow -s -k speed."""

from __future__ import annotations

import statistics
import time
from dataclasses import replace

import pytest
import torch

from evict.tree import DraftTree
from harness.engines.torch.engine import TorchEngine
from harness.engines.torch.proposer import Eagle3Proposer
from harness.stats import Pair, speedup
from tests.engines.conftest import LAB
from tests.engines.test_decode import EVICT, PLAIN, ask, lab_prompts, table

pytestmark = pytest.mark.slow


def test_speed_of_plain_decoding_against_transformers(lab: TorchEngine) -> None:
    """Same checkpoint, prompts, threads and token count; decode and prefill together on both."""
    from transformers import Qwen3MoeForCausalLM

    reference = Qwen3MoeForCausalLM.from_pretrained(LAB["target"], dtype=torch.float32).eval()
    pairs = []
    for number, prompt in enumerate(lab_prompts(lab, 2)):
        tokens = 48
        seconds = {}
        for arm in ("own", "transformers") if number % 2 else ("transformers", "own"):
            begin = time.perf_counter()
            if arm == "own":
                mine = lab.generate(ask(prompt, tokens, ignore_eos=True), PLAIN, 0).output_ids
            else:
                theirs = reference.generate(
                    torch.tensor([prompt]),
                    attention_mask=torch.ones(1, len(prompt)),
                    max_new_tokens=tokens,
                    min_new_tokens=tokens,
                    do_sample=False,
                    eos_token_id=None,
                )[0, len(prompt) :].tolist()
            seconds[arm] = time.perf_counter() - begin
        assert mine == theirs
        own, other = seconds["own"] * 1e3, seconds["transformers"] * 1e3
        pairs.append(Pair(str(number), own, tokens, other, tokens))
    found = speedup(pairs)
    print(
        f"\nplain decoding / transformers generate(): {found.ratio:.2f}x "
        f"[{found.low:.2f}, {found.high:.2f}], {found.clusters} prompts, "
        f"{torch.get_num_threads()} thread(s)"
    )
    assert found.low is not None
    assert found.low >= 2.0


def test_speed_of_ordering_and_selecting(lab: TorchEngine) -> None:
    """Order, S_k and argmax as a share of a whole EVICT step."""
    lab.set_cost(table(lab))
    prompt = lab_prompts(lab, 1)[0]
    assert lab.head is not None
    selector = EVICT.selection.bind(lab.cost, 32)
    proposer = Eagle3Proposer(lab.head, slots=1024, beta=1.0)
    with torch.inference_mode():
        states = torch.randn(len(prompt), 3 * lab.target.config.hidden_size)
        proposer.extend(states, [*prompt[1:], 5])
        candidates = EVICT.growth.grow(proposer)
        own, steps = [], []
        for _ in range(60):
            begin = time.perf_counter()
            for _ in range(10):
                tree = DraftTree.build(5, candidates, 32)
                int(selector(tree.expected()))
            own.append((time.perf_counter() - begin) * 100)
        for seed in range(6):
            trace = lab.generate(ask(prompt, 64), replace(EVICT, name=str(seed)), 0)
            steps += [step.total_ms for step in trace.steps]
    share = statistics.median(own) / statistics.median(steps)
    print(f"\nordering + selection: {statistics.median(own) * 1e3:.0f} us, {share:.2%} of a step")
    assert share <= 0.02

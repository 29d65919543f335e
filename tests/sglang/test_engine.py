"""`engine=sglang` on the real servers: the harness's own protocol, end to end, on a CPU."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth
from evict.recency import Recency
from evict.selection import CostAware, Coverage, FixedPrefix, Full
from harness.consistency import check_trace
from harness.engines.base import Method, Request, RequestTrace

TREE = FixedDepth(steps=4, topk=8)
PLAIN = Method("vanilla")
EAGLE3 = Method("eagle3", "eagle3", TREE, Full(), 32)
EVICT = Method("evict", "eagle3", TREE, CostAware(), 32)
COVERAGE = Method("coverage", "eagle3", TREE, Coverage(0.7), 32)
DDD = Method("ddd", "eagle3", DynamicDepth(4, 8, -0.7, [2, 3]), Full(), 32)
NGRAM = Method("lookahead_ngram", "trie", Recency(18, 1, 17, 1, 10, 12), Full(), 12)
QUESTIONS = ("What is 12 plus 7?", "Write a function that adds two numbers.")


@pytest.fixture(scope="module")
def prompts(engine: Any) -> list[tuple[int, ...]]:
    return [tuple(engine.encode_chat([{"role": "user", "content": q}])) for q in QUESTIONS]


@pytest.fixture(scope="module")
def priced(engine: Any) -> CostTable:
    """C(k) that doubles from k = 1 to 32, measured here by its fingerprint."""
    facts = {**engine.describe().fingerprint(), "growth": repr(TREE)}
    step_ms = tuple(1 + k / 32 for k in range(1, 33))
    return CostTable(step_ms, 0.9, (0.0,) * 32, fingerprint=facts)


def generate(engine: Any, method: Method, prompt: tuple[int, ...], tokens: int) -> RequestTrace:
    return engine.generate(Request("q", prompt, tokens), method, seed=0)


def test_every_method_gives_the_same_greedy_tokens_and_a_consistent_trace(
    engine: Any, prompts: list[tuple[int, ...]], priced: CostTable
) -> None:
    engine.set_cost(priced)
    for prompt in prompts:
        plain = generate(engine, PLAIN, prompt, 48)
        for method in (EAGLE3, NGRAM, EVICT, COVERAGE, DDD):
            trace = generate(engine, method, prompt, 48)
            assert trace.output_ids == plain.output_ids, method.name
            assert trace.text == plain.text
            check_trace(trace, engine.describe())
            assert len(trace.steps) <= len(plain.steps)
            assert trace.decode_ms > 0 < trace.prefill_ms


def test_one_server_follows_every_policy_without_a_restart(
    engine: Any, prompts: list[tuple[int, ...]], priced: CostTable
) -> None:
    engine.set_cost(priced)
    generate(engine, EVICT, prompts[0], 16)
    before = {id(one) for one in engine.fleet.all()}
    for k in (1, 6, 32):
        trace = generate(engine, replace(EVICT, selection=FixedPrefix(k)), prompts[0], 16)
        assert {step.verified for step in trace.steps} == {k}
    looser = replace(DDD, growth=replace(DDD.growth, threshold=-5.0))
    depths = {
        method.growth.threshold: sum(
            step.depth_drawn for step in generate(engine, method, prompts[0], 32).steps
        )
        for method in (DDD, looser)
    }
    assert depths[-5.0] > depths[-0.7]
    assert before <= {id(one) for one in engine.fleet.all()}


def test_evict_varies_k_and_reports_what_it_expected(
    engine: Any, prompts: list[tuple[int, ...]], priced: CostTable
) -> None:
    engine.set_cost(priced)
    steps = generate(engine, EVICT, prompts[0], 64).steps
    assert len({step.verified for step in steps}) >= 2
    for step in steps:
        assert step.expected is not None
        assert 1 <= step.expected <= step.verified
    for step in steps[:-1]:
        assert step.total_ms >= step.draft_ms + step.verify_ms > 0
    assert math.isnan(steps[-1].total_ms)


def test_forced_steps_have_times_at_every_width(
    engine: Any, prompts: list[tuple[int, ...]]
) -> None:
    for method in (PLAIN, replace(EVICT, selection=FixedPrefix(4))):
        records = engine.forced_step_times(method, prompts[:1], 4)
        assert len(records) >= 4
        assert all(record.total_ms > 0 for record in records)


def test_a_table_of_another_engine_is_refused(engine: Any, priced: CostTable) -> None:
    foreign = replace(priced, fingerprint={**priced.fingerprint, "setting.regime": "graphs"})
    with pytest.raises(InputError, match=r"setting\.regime"):
        engine.set_cost(foreign)


def test_evict_without_a_table_says_what_it_needs(
    engine: Any, prompts: list[tuple[int, ...]]
) -> None:
    engine.set_cost(None)
    with pytest.raises(InputError, match="without a cost table"):
        generate(engine, EVICT, prompts[0], 8)


def test_what_each_server_runs_with_is_kept_beside_its_log(engine: Any) -> None:
    folders = sorted(Path(engine.process["log_dir"]).glob("*/*"))
    assert folders
    for folder in folders:
        text = (folder / "effective.json").read_text()
        assert '"attention_backend"' in text
        assert "api_key" not in text
        assert "key-" not in text

"""All methods on the lab model: the same tokens as plain decoding, the same distribution."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from scipy.stats import chi2_contingency

from evict import acceptance
from evict.cost import CostTable
from evict.errors import InputError
from harness.benchmarks import read_jsonl
from harness.engines.base import Method, Request, RequestTrace
from harness.engines.torch.engine import TorchEngine
from harness.profiling.cost import fingerprint
from tests.engines.methods import method, names, priced

ROOT = Path(__file__).resolve().parents[2]
SETS = ("alpaca", "gsm8k", "humaneval", "qa", "mt_bench", "cnn_dm")
SAMPLES, POSITIONS, LEVEL = 4000, 4, 0.01
DRAFTING = [name for name in names() if method(name).speculative]


@pytest.fixture(scope="module")
def prompts(lab: TorchEngine) -> list[list[int]]:
    rows = [read_jsonl(ROOT / f"datasets/lab/{name}.jsonl")[40][1] for name in SETS]
    return [lab.encode_chat([{"role": "user", "content": row["turns"][0]}]) for row in rows]


@pytest.fixture(scope="module")
def table(lab: TorchEngine) -> TorchEngine:
    """The engine with a cost table for the common growth, score maps included."""
    lab.set_cost(priced(lab))
    return lab


def run(engine: TorchEngine, one: Method, ids: list[int], **settings: float) -> RequestTrace:
    values = {"max_new_tokens": 48, "temperature": 0.0, "seed": 0} | settings
    seed = int(values.pop("seed"))
    request = Request("p", tuple(ids), int(values.pop("max_new_tokens")), **values)
    return engine.generate(request, one, seed)


@pytest.mark.parametrize("name", names())
def test_greedy_output_is_plain_decoding(
    table: TorchEngine, prompts: list[list[int]], name: str
) -> None:
    for ids in prompts:
        plain = run(table, method("vanilla"), ids)
        assert run(table, method(name), ids).output_ids == plain.output_ids


def test_a_trie_that_outlives_requests_drafts_better_and_stays_lossless(
    lab: TorchEngine, prompts: list[list[int]]
) -> None:
    session = method("lookahead:growth.lifetime=session")
    lab.forget()
    first = run(lab, session, prompts[0])
    again = run(lab, session, prompts[0])
    plain = run(lab, method("vanilla"), prompts[0])
    assert again.output_ids == first.output_ids == plain.output_ids
    assert len(again.steps) < len(first.steps) / 2
    lab.forget()
    assert len(run(lab, session, prompts[0]).steps) == len(first.steps)
    one_request = [len(run(lab, method("lookahead"), prompts[0]).steps) for _ in range(2)]
    assert one_request == [len(first.steps)] * 2


def test_lookahead_accepts_something_and_its_trees_are_bounded(
    lab: TorchEngine, prompts: list[list[int]]
) -> None:
    for name, largest in (("lookahead", 65), ("lookahead_ngram", 12)):
        steps = [step for ids in prompts for step in run(lab, method(name), ids).steps]
        assert sum(step.accepted for step in steps) > 0
        assert max(step.verified for step in steps) <= largest
        assert all(step.verified == step.drafted + 1 for step in steps)


def test_eagle3_is_coverage_of_one_is_fixed_k_32(
    lab: TorchEngine, prompts: list[list[int]]
) -> None:
    for temperature in (0.0, 1.0):
        for ids in prompts[:3]:
            found = [
                run(lab, method(name), ids, temperature=temperature, seed=3)
                for name in ("eagle3", "coverage:selection.rho=1.0", "fixed_k:selection.k=32")
            ]
            shapes = [
                [(s.drafted, s.verified, s.accepted, s.committed) for s in trace.steps]
                for trace in found
            ]
            assert shapes[0] == shapes[1] == shapes[2]
            assert found[0].output_ids == found[1].output_ids == found[2].output_ids


def test_dynamic_depth_drafts_less_where_the_beam_is_unsure(
    lab: TorchEngine, prompts: list[list[int]]
) -> None:
    never = method("ddd:growth.threshold=-100.0")
    always = method("ddd:growth.threshold=0.0")
    full = run(lab, method("eagle3"), prompts[0]).steps
    assert [s.depth_drawn for s in run(lab, never, prompts[0]).steps] == [
        s.depth_drawn for s in full
    ]
    assert max(s.depth_drawn for s in run(lab, always, prompts[0]).steps) <= 2
    depths = {s.depth_drawn for ids in prompts for s in run(lab, method("ddd"), ids).steps}
    assert len(depths) > 1


def test_more_coverage_verifies_more(lab: TorchEngine, prompts: list[list[int]]) -> None:
    means = []
    for rho in (0.4, 0.7, 0.9, 1.0):
        one = method(f"coverage:selection.rho={rho}")
        steps = [step for ids in prompts for step in run(lab, one, ids).steps]
        means.append(sum(step.verified for step in steps) / len(steps))
    assert means == sorted(means)
    assert means[0] < means[-1] == 32


def test_scores_that_need_a_map_or_the_verdict_say_so(
    lab: TorchEngine, prompts: list[list[int]]
) -> None:
    with pytest.raises(InputError, match="hindsight"):
        run(lab, replace(method("evict"), scores="verdict"), prompts[0])
    bare = CostTable((5.0,) * 32, 4.0, (0.1,) * 32, 1.0, fingerprint(lab, method("evict")))
    before = lab.cost
    lab.set_cost(bare)
    try:
        with pytest.raises(InputError, match="no score map"):
            run(lab, method("evict_calibrated"), prompts[0])
    finally:
        lab.set_cost(before)


def samples(
    engine: TorchEngine, one: Method, ids: list[int], count: int, first_seed: int
) -> list[Counter[int]]:
    """Token counts at the first decode positions, one seed per sample."""
    found: list[Counter[int]] = [Counter() for _ in range(POSITIONS)]
    for seed in range(first_seed, first_seed + count):
        trace = run(engine, one, ids, max_new_tokens=POSITIONS + 1, temperature=1.0, seed=seed)
        for place, token in enumerate(trace.output_ids[1:]):
            found[place][token] += 1
    return found


def p_value(one: Counter[int], other: Counter[int]) -> float:
    """Chi-square test of homogeneity; tokens seen fewer than ten times are one class."""
    total = one + other
    common = [token for token, seen in total.items() if seen >= 10]
    rest = [sum(n for token, n in c.items() if token not in common) for c in (one, other)]
    rows = [[c[token] for token in common] for c in (one, other)]
    if sum(rest) > 0:
        rows = [[*row, left] for row, left in zip(rows, rest, strict=True)]
    if len(rows[0]) < 2:
        return 1.0
    return float(chi2_contingency(rows).pvalue)


def holm(p_values: dict[str, float], level: float) -> list[str]:
    """The comparisons that Holm's procedure rejects at this level."""
    rejected = []
    for rank, (name, p) in enumerate(sorted(p_values.items(), key=lambda item: item[1])):
        if p > level / (len(p_values) - rank):
            break
        rejected.append(name)
    return rejected


def compared(plain: list[Counter[int]], found: list[Counter[int]]) -> dict[str, float]:
    """p-value by position."""
    pairs = zip(plain, found, strict=True)
    return {f"position {place + 1}": p_value(*pair) for place, pair in enumerate(pairs)}


@pytest.fixture(scope="module")
def shortest(prompts: list[list[int]]) -> list[int]:
    return min(prompts, key=len)


@pytest.fixture(scope="module")
def plain(table: TorchEngine, shortest: list[int]) -> list[Counter[int]]:
    return samples(table, method("vanilla"), shortest, SAMPLES, 0)


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAFTING)
def test_sampled_tokens_have_the_distribution_of_plain_decoding(
    table: TorchEngine, plain: list[Counter[int]], shortest: list[int], name: str
) -> None:
    """About three minutes each. Holm over positions, the level shared by the methods."""
    first_seed = (1 + DRAFTING.index(name)) * SAMPLES
    found = compared(plain, samples(table, method(name), shortest, SAMPLES, first_seed))
    print(f"{name}: " + ", ".join(f"p={p:.3f}" for p in found.values()), flush=True)
    assert holm(found, LEVEL / len(DRAFTING)) == []


@pytest.mark.slow
def test_a_rule_that_does_not_renormalise_is_found_out(
    table: TorchEngine,
    plain: list[Counter[int]],
    shortest: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(acceptance, "_normalised", lambda p_V: p_V)
    found = compared(plain, samples(table, method("eagle3"), shortest, SAMPLES, 10**6))
    print("not renormalised: " + ", ".join(f"p={p:.1e}" for p in found.values()), flush=True)
    assert holm(found, LEVEL / len(DRAFTING))

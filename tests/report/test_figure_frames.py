"""The numbers behind the figures, worked out by hand on collections of a few steps."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from evict.cost import CostTable
from harness.collection import Collection
from harness.report.figures import FIGURES
from harness.report.figures.verification import drafting, frame
from harness.report.spec import Missing
from harness.report.tables.replay import regret
from harness.trees import TreeRecord
from tests.support.collection import sample_collection
from tests.support.tiny import EVICT, FULL, PLAIN, Tiny, coverage, fixed, step

DDD = {"method": "ddd", "rank": 30, "parameters": {"growth.threshold": -1.0}}
TUNED = fixed(4, tuned=["selection.k"])


def sweep() -> Tiny:
    """Plain decoding, and the best 1, 2 and 4 nodes; three steps each, in ms."""
    data = Tiny().add(PLAIN, [[step(1, 1, 3.0, 2.0), step(1, 1, 5.0, 2.0)]])
    for k, ms in ((1, 6.0), (2, 8.0), (4, 10.0)):
        steps = [step(k, 1, ms, 2.0 + k, verify_ms=ms / 2, draft_ms=ms / 4, other_ms=ms / 4)]
        data.add(fixed(k), [[*steps, step(k, 1, ms + 1.0, 3.0 + k), step(k, 1, ms + 5.0, 4.0 + k)]])
    return data


def test_fig1_means_of_the_sweep_beside_plain_decoding_and_uniform_routing() -> None:
    found = FIGURES["fig1"].frame(sweep().collection())
    assert list(found["k"]) == [1, 2, 4]
    assert list(found["step_ms"]) == [8.0, 10.0, 12.0]
    assert list(found["experts_per_layer"]) == [4.0, 5.0, 7.0]
    assert set(found["plain_ms"]) == {4.0}
    assert set(found["plain_experts"]) == {2.0}
    assert list(found["uniform_experts"]) == pytest.approx([8 * (1 - 0.75**k) for k in (1, 2, 4)])


def test_fig2_shares_are_of_summed_time_and_fill_the_step() -> None:
    found = FIGURES["fig2"].frame(sweep().collection()).set_index("width")
    assert list(found.index) == ["plain", "1", "2", "4"]
    assert found.at["plain", "verify_share"] == 1.0
    assert found.at["1", "verify_share"] == pytest.approx((3.0 + 7.0 + 11.0) / 24.0)
    assert found.at["1", "draft_share"] == pytest.approx(1.5 / 24.0)
    shares = found[[name for name in found if str(name).endswith("_share")]]
    assert np.allclose(shares.sum(axis=1), 1.0)


def test_runs_of_another_experiment_or_temperature_stay_out_of_the_sweep() -> None:
    data = sweep().add(fixed(2), [[step(2, 1, 500.0)]], experiment="adhoc")
    data.add(fixed(2), [[step(2, 1, 700.0)]], temperature=1.0)
    found = FIGURES["fig1"].frame(data.collection())
    assert list(found["step_ms"]) == [8.0, 10.0, 12.0]
    assert set(found["temperature"]) == {0.0}


def test_fig5_bins_requests_by_their_own_mat_and_marks_thin_bins() -> None:
    low, high = [step(5, 2, 6.0, 3.0), step(3, 2, 4.0, 2.0)], [step(2, 4, 2.0, 9.0)]
    data = Tiny().add(PLAIN, [[step(1, 1, 4.0)]]).add(FULL, [[step(8, 2, 9.0)]] * 3)
    data.add(EVICT, [low, low, low, high, [step(4, n, 8.0) for n in (3, 3, 3, 3, 2)]])
    data.add(DDD, [[step(6, 2, 7.0)]] * 3)
    found = FIGURES["fig5"].frame(data.collection())
    assert set(found["kind"]) == {"full", "cost"}
    evict = found[found["kind"] == "cost"].set_index("mat_low")
    assert list(evict.index) == [2.0, 2.5, 4.0]
    assert list(evict["requests"]) == [3, 1, 1]
    assert list(evict["drawn"]) == [True, False, False]
    columns = ["mat", "verified", "experts_per_layer", "verify_ms"]
    assert list(evict.loc[2.0, columns]) == [2.0, 4.0, 2.5, 5.0]
    everything = frame(data.collection(), drafting)
    assert set(everything["kind"]) == {"full", "cost", "depth"}


def test_evict_is_the_method_itself_and_not_its_variants() -> None:
    rootless = {**EVICT["parameters"], "selection.count_root": False}
    variants = ({"parameters": rootless}, {"scores": "isotonic"}, {"scores": "verdict"})
    data = Tiny().add(PLAIN, [[step(1, 1, 4.0)]]).add(FULL, [[step(8, 1, 3.0)]])
    for i, variant in enumerate(variants):
        data.add({**EVICT, "method": f"variant {i}", "rank": i, **variant}, [[step(2, 1, 1.0)]])
    with pytest.raises(Missing, match="no run of EVICT"):
        FIGURES["fig6"].frame(data.collection())
    data.add(EVICT, [[step(2, 1, 2.0)]])
    assert list(FIGURES["fig6"].frame(data.collection())["method_label"])[-1] == "evict"


def test_fig5_counts_a_prompt_once_however_often_it_is_repeated() -> None:
    data = Tiny().add(PLAIN, [[step(1, 1, 4.0)]]).add(EVICT, [[step(2, 2, 4.0)]])
    found = data.add(FULL, [[step(8, 2, 9.0)]] * 2).collection()
    again = found.steps.assign(repeat=1)
    twice = Collection(found.runs, found.requests, pd.concat([found.steps, again]))
    with pytest.raises(Missing, match="3 prompts"):
        FIGURES["fig5"].frame(twice)


def test_fig6_pools_tokens_over_seconds_and_names_the_regimes_not_measured() -> None:
    data = Tiny().add(FULL, [[step(8, 3, 10.0)]]).add(PLAIN, [[step(1, 1, 5.0)]])
    data.add(EVICT, [[step(4, 2, 4.0)], [step(4, 4, 16.0)]])
    found = FIGURES["fig6"].frame(data.collection())
    assert list(found["kind"]) == ["plain", "full", "cost"]
    assert list(found["decode_tokens_per_s"]) == pytest.approx([200.0, 300.0, 300.0])
    assert set(found["note"]) == {"not measured: SGLang eager, SGLang graphs"}
    assert (found["decode_tokens_per_s"] > 0).all()


def paired() -> Tiny:
    """Per prompt plain decoding takes 4 and 8 ms a token, the whole tree half, EVICT a quarter."""
    data = Tiny().add(PLAIN, [[step(1, 1, 4.0)], [step(1, 1, 8.0)]])
    for method, share in ((FULL, 2.0), (EVICT, 4.0), (DDD, 1.0), (coverage(0.4), 0.8)):
        data.add(method, [[step(2, 1, 4.0 / share)], [step(2, 1, 8.0 / share)]])
    return data.add(coverage(1.0), [[step(2, 1, 1.0)], [step(2, 1, 1.0)]])


def test_fig7_orders_the_sweep_and_ends_it_with_the_whole_tree() -> None:
    data = paired().add(coverage(0.25), [[step(2, 1, 4.0)], [step(2, 1, 8.0)]])
    found = FIGURES["fig7"].frame(data.collection())
    assert list(found["tick"]) == ["ρ=0.25", "ρ=0.4", "ρ=1, eagle3", "ddd", "evict"]
    assert list(found["ratio"]) == pytest.approx([1.0, 0.8, 2.0, 1.0, 4.0])
    assert list(found["prompts"]) == [2] * 5
    assert set(found["note"]) == {"not measured: best fixed k"}
    tuned = data.add(TUNED, [[step(4, 1, 1.0)], [step(4, 1, 2.0)]])
    assert list(FIGURES["fig7"].frame(tuned.collection())["note"]) == [""] * 6


def test_speedups_are_paired_and_pooled_over_benchmarks_last() -> None:
    data = paired()
    for method, ms in ((PLAIN, 9.0), (FULL, 3.0), (EVICT, 1.0)):
        data.add(method, [[step(1, 1, ms)]], benchmark="gsm8k")
    found = FIGURES["speedups"].frame(data.collection()).set_index(["baseline_label", "benchmark"])
    assert list(found.loc["eagle3"].index) == ["gsm8k", "qa", "all"]
    assert list(found.loc["eagle3", "ratio"]) == pytest.approx([3.0, 2.0, 12 ** (1 / 3)])
    assert list(found.loc["vanilla", "ratio"]) == pytest.approx([9.0, 4.0, 144 ** (1 / 3)])
    assert math.isnan(found.at[("eagle3", "gsm8k"), "low"]), "one prompt has no interval"
    assert found.at[("eagle3", "qa"), "low"] == pytest.approx(2.0)


def tree(scores: list[float], path: tuple[int, ...]) -> TreeRecord:
    size = len(scores)
    return TreeRecord(
        step=0,
        tokens=np.arange(size),
        parents=np.arange(size) - 1,
        depths=np.arange(size),
        scores=np.array(scores, dtype=np.float32),
        path=path,
        verified=size,
        committed=len(path),
        experts=np.zeros((size, 1, 1), dtype=np.int16),
    )


def test_reliability_counts_every_drafted_node_of_recorded_runs_and_no_root() -> None:
    trees = [tree([1.0, 0.75, 0.25], (0, 1))] * 8 + [tree([1.0, 0.75, 0.25], (0,))] * 2
    data = Tiny().add(FULL, [], trees, recorded=True, experiment="trees")
    found = FIGURES["reliability"].frame(data.collection()).set_index("low")
    assert list(found.index) == [0.2, 0.7]
    assert list(found["rate"]) == [0.0, 0.8]
    assert list(found["count"]) == [10, 10]
    assert found["drawn"].all()
    assert list(found["ece"]) == pytest.approx([(0.25 + 0.05) / 2] * 2)
    assert found.at[0.7, "rate_low"] < 0.8 < found.at[0.7, "rate_high"]
    thin = Tiny().add(FULL, [], trees[:9], recorded=True).collection()
    assert not FIGURES["reliability"].frame(thin)["drawn"].any()


def test_verify_lengths_come_from_the_replay_with_most_steps() -> None:
    hindsight = {**EVICT, "method": "oracle", "scores": "verdict"}
    data = Tiny()
    for experiment, ks in (("replay", (1, 1, 1, 3)), ("short", (2,))):
        for method in (EVICT, hindsight):
            steps = [step(k, 1, 1.0) for k in ks]
            data.add(method, [steps], experiment=experiment, engine="replay")
    found = FIGURES["k_histogram"].frame(data.collection())
    evict = found[found["kind"] == "cost"]
    assert list(evict["k"]) == [1, 2, 3]
    assert list(evict["steps"]) == [3, 0, 1]
    assert list(evict["share"]) == [0.75, 0.0, 0.25]


def test_regret_is_the_tables_over_all_benchmarks() -> None:
    data = sample_collection(benchmarks=("gsm8k", "qa"), prompts=2, repeats=1)
    table = regret(data)
    wanted = table[table["benchmark"] == "all"].set_index(["temperature", "method_label"])["regret"]
    found = FIGURES["regret"].frame(data).set_index(["temperature", "method_label"])["regret"]
    assert len(found) == 10
    assert found.sort_index().equals(wanted.sort_index())


def test_cost_comes_from_the_newest_timing_run_that_has_a_table() -> None:
    facts = {"engine": "torch", "model": "m", "device": "d", "dtype": "float32", "threads": "1"}
    facts |= {"experts": "8", "experts_per_token": "2"}
    costs = [CostTable((ms,), 1.0, (0.0,), fingerprint=facts) for ms in (3.0, 5.0, 7.0)]
    data = Tiny().add(EVICT, [[step(1, 1, 1.0)]], cost=costs[0], finished_at="2026-01-03")
    data.add(FULL, [[step(1, 1, 1.0)]], cost=costs[1], finished_at="2026-01-02")
    data.add(DDD, [], [], costs[2], finished_at="2026-01-04", recorded=True)
    found = FIGURES["cost"].frame(data.collection())
    assert list(found["step_ms"]) == [3.0]

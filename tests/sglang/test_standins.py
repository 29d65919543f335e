"""SGLang on the CPU stand-ins decodes correctly, and the comparison would notice if it did not."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sglang.checkpoints import Pair
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import baselines, engine
from tests.sglang.workload import stress


@pytest.fixture(scope="module")
def eagle3(tiny: Pair) -> dict[str, Any]:
    return run_scenario(baselines.eagle3, {"target": tiny.target, "draft": tiny.draft})


@pytest.fixture(scope="module")
def ngram(tiny: Pair) -> dict[str, Any]:
    return run_scenario(baselines.ngram, {"target": tiny.target})


def test_plain_decoding_equals_transformers(plain: dict[str, Any]) -> None:
    assert plain["outputs"] == plain["transformers"]


def test_plain_output_is_as_long_as_asked_and_not_trivial(plain: dict[str, Any]) -> None:
    assert [len(output) for output in plain["outputs"]] == stress().lengths
    assert len({token for output in plain["outputs"] for token in output}) > 50


def test_eagle3_equals_plain(eagle3: dict[str, Any], plain: dict[str, Any]) -> None:
    assert eagle3["outputs"] == plain["outputs"]


def test_ngram_equals_plain(ngram: dict[str, Any], plain: dict[str, Any]) -> None:
    assert ngram["first"] == plain["outputs"]
    assert ngram["outputs"] == plain["outputs"]


@pytest.mark.parametrize("method", ["plain", "eagle3", "ngram"])
def test_the_workload_batches_and_uses_the_radix_cache(
    method: str, request: pytest.FixtureRequest
) -> None:
    served = request.getfixturevalue(method)
    assert served["widest"] == 6
    assert served["cached"] > 100
    assert served["chunks"] > 10


@pytest.mark.parametrize("method", ["eagle3", "ngram"])
def test_drafts_of_several_depths_are_accepted(method: str, request: pytest.FixtureRequest) -> None:
    by_depth = request.getfixturevalue(method)["accepted"]
    assert all(count > 0 for count in by_depth[:4])
    kept = sum(depth * count for depth, count in enumerate(by_depth))
    assert 1.7 < 1 + kept / sum(by_depth) < 4.5


def test_sampling_branch_follows_the_targets_distribution(eagle3: dict[str, Any]) -> None:
    assert eagle3["sampled"] > 1e-3


def test_without_it_a_cpu_engine_is_greedy_at_any_temperature(eagle3: dict[str, Any]) -> None:
    assert eagle3["unsampled"] < 1e-9


def test_an_ignored_tree_mask_is_noticed(eagle3: dict[str, Any], plain: dict[str, Any]) -> None:
    differing = sum(a != b for a, b in zip(eagle3["faulty"], plain["outputs"], strict=True))
    assert differing >= 5


def test_spawned_engine_equals_the_scheduler_in_process(tiny: Pair, plain: dict[str, Any]) -> None:
    arguments = {"algorithm": "EAGLE3", "target": tiny.target, "draft": tiny.draft}
    served = run_scenario(engine.engine, arguments)
    assert served["outputs"] == plain["outputs"]
    words = [f"t{token}" for token in plain["outputs"][0]]
    assert served["texts"][0].split() == words

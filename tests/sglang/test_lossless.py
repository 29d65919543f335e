"""Greedy outputs of the plugin equal plain decoding token for token, whatever is verified."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sglang.checkpoints import Pair
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import evict


def _arguments(tiny: Pair, folder: Path) -> dict[str, Any]:
    return {"target": tiny.target, "draft": tiny.draft, "folder": folder}


@pytest.fixture(scope="module")
def policies(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("policies")
    return run_scenario(evict.every_policy, _arguments(tiny, folder), timeout=900)


def test_every_policy_and_every_fixed_k_gives_the_tokens_of_plain_decoding(
    policies: dict[str, Any], plain: dict[str, Any]
) -> None:
    differing = [name for name, run in policies.items() if run["outputs"] != plain["outputs"]]
    assert differing == []
    assert {f"k={k}" for k in range(1, 33)} <= policies.keys()


def test_the_workload_reaches_full_batches_and_cached_prefixes(policies: dict[str, Any]) -> None:
    for name, run in policies.items():
        assert run["widest"] == 6, name
        assert run["cached"] > 0, name


def test_a_fixed_policy_verifies_what_it_says(policies: dict[str, Any]) -> None:
    for k in range(1, 33):
        assert set(policies[f"k={k}"]["k"]) == {k}
    assert set(policies["full"]["k"]) == {32}
    assert set(policies["coverage 1.0"]["k"]) == {32}


def test_an_adaptive_policy_varies_its_verify_length(policies: dict[str, Any]) -> None:
    for name in ("evict", "coverage 0.7", "random k"):
        assert len(set(policies[name]["k"])) >= 3, name


def test_a_wider_prefix_accepts_no_fewer_drafts(policies: dict[str, Any]) -> None:
    def rate(run: dict[str, Any]) -> float:
        kept = sum(index * count for index, count in enumerate(run["accepted"]))
        return kept / sum(run["accepted"])

    assert rate(policies["k=1"]) == 0 < rate(policies["k=4"]) < rate(policies["k=32"])
    assert rate(policies["k=32"]) > 0.5


def test_dynamic_depth_gives_the_tokens_of_plain_decoding(
    tiny: Pair, plain: dict[str, Any], tmp_path: Path
) -> None:
    runs = run_scenario(evict.depth_gate, _arguments(tiny, tmp_path))
    for name, run in runs.items():
        assert run["outputs"] == plain["outputs"], name
    assert set(runs["full"]["k"]) == {9, 32}


def test_ignoring_the_tree_mask_changes_the_tokens(
    tiny: Pair, plain: dict[str, Any], tmp_path: Path
) -> None:
    run = run_scenario(evict.broken_mask, _arguments(tiny, tmp_path))
    pairs = zip(run["outputs"], plain["outputs"], strict=True)
    assert sum(ours != theirs for ours, theirs in pairs) >= 10


def test_the_target_stands_as_sglang_left_it_after_a_step_and_after_a_failure(
    tiny: Pair, tmp_path: Path
) -> None:
    found = run_scenario(evict.failing_step, _arguments(tiny, tmp_path))
    assert found == {"same": True, "same after failure": True, "width": 32}

"""What the worker records of its steps agrees with SGLang's own statistics."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.sglang.checkpoints import EXPERTS, EXPERTS_PER_TOKEN, LAYERS, Pair
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import evict


@pytest.fixture(scope="module")
def found(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("steps")
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": folder}
    return run_scenario(evict.metadata, arguments)


def test_records_and_sglangs_metadata_count_the_same(found: dict[str, Any]) -> None:
    last = found["last"]
    own = [record for record in found["records"] if record["rids"] == [last["rid"]]]
    lengths = [record["k"] for record in own]
    assert last["verify_ct"] == len(own)
    assert last["correct"] == sum(record["accepted"][0] for record in own)
    assert last["cap_tokens"] == sum(lengths)
    assert last["cap_histogram"] == [lengths.count(k) for k in range(max(lengths) + 1)]


def test_contexts_grow_by_what_was_committed(found: dict[str, Any]) -> None:
    for before, after in pairwise(found["records"]):
        if before["rids"] == after["rids"]:
            assert after["context"][0] == before["context"][0] + before["accepted"][0] + 1


def test_a_step_is_accepted_within_what_was_verified(found: dict[str, Any]) -> None:
    for record in found["records"]:
        assert 0 <= record["accepted"][0] < record["k"] <= record["drafted"] + 1
        assert 1 <= record["expected"] <= record["full"]


def test_times_of_a_step_add_up_and_end_with_the_request(found: dict[str, Any]) -> None:
    for record, after in pairwise(found["records"]):
        parts = [record[f"{stage}_ms"] for stage in ("draft", "verify", "extend")]
        if record["rids"] == after["rids"]:
            assert record["step_ms"] == pytest.approx(sum(parts) + record["gap_ms"])
        else:
            assert record["step_ms"] is None


def test_expert_unions_lie_between_top_k_and_what_k_nodes_reach(found: dict[str, Any]) -> None:
    for record in found["records"]:
        most = min(EXPERTS, EXPERTS_PER_TOKEN * record["k"])
        assert len(record["union"]) == LAYERS
        assert all(EXPERTS_PER_TOKEN <= used <= most for used in record["union"])
    assert any(max(record["union"]) > EXPERTS_PER_TOKEN for record in found["records"])


def test_the_eager_regime_is_counted_as_such(found: dict[str, Any]) -> None:
    assert found["state"]["graph_steps"] == 0
    assert found["state"]["eager_steps"] == len(found["records"])
    assert found["state"]["resolved"]["regime"] == "eager"


def test_orders_that_cannot_be_followed_are_refused_aloud(tiny: Pair, tmp_path: Path) -> None:
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": tmp_path}
    answers = run_scenario(evict.orders, arguments)
    for name, words in (
        ("unknown policy", "magic"),
        ("k too large", "33"),
        ("foreign table", "another device"),
    ):
        assert words in answers[name]["state"]["error"], name
        assert set(answers[name]["k"]) == {3}, name

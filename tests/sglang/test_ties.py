"""Where all scores tie, every prefix still is a tree, and the output still is plain decoding's."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sglang.checkpoints import Pair
from tests.sglang.process import run_scenario
from tests.sglang.scenarios.evict import DRAFT_TOKENS

LENGTHS = range(1, DRAFT_TOKENS + 1)
WIDTHS = {"equal": LENGTHS, "one_hot": (1, 2, 5, 6, 13, 20, 31, 32)}
SCORES = {"equal": [1.0], "one_hot": [0.0, 1.0]}
each_kind = pytest.mark.parametrize("kind", SCORES)


@pytest.fixture(scope="module")
def decoded(tiny: Pair, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("ties")
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": folder}
    return run_scenario("tests.sglang.scenarios.ties:engine", arguments)


@pytest.fixture(scope="module")
def built() -> dict[str, Any]:
    return run_scenario("tests.sglang.scenarios.ties:builder", {}, env={"TRITON_INTERPRET": "1"})


@each_kind
def test_output_equals_plain_at_every_k(
    kind: str, decoded: dict[str, Any], plain: dict[str, Any]
) -> None:
    expected = [plain["outputs"][at][:8] for at in decoded["prompts"]]
    assert [len(output) for output in expected] == [8, 8]
    differing = [k for k in WIDTHS[kind] if decoded[f"{kind}, k={k}"]["outputs"] != expected]
    assert differing == []


@each_kind
def test_every_node_of_every_verified_prefix_is_linked(kind: str, decoded: dict[str, Any]) -> None:
    linked = {k: decoded[f"{kind}, k={k}"]["linked"] for k in WIDTHS[kind]}
    assert linked == {k: [k - 1] for k in WIDTHS[kind]}


@each_kind
def test_recorded_trees_are_closed_and_tied(kind: str, decoded: dict[str, Any]) -> None:
    for k in WIDTHS[kind]:
        run = decoded[f"{kind}, k={k}"]
        assert run["closed"]
        assert run["scores"] == SCORES[kind]


def test_sglangs_builder_links_every_node_of_an_all_equal_prefix(built: dict[str, Any]) -> None:
    assert built["scores"] == [1.0]
    assert built["stable"] == [[k - 1] for k in LENGTHS]


def test_another_order_of_the_same_scores_loses_nodes(built: dict[str, Any]) -> None:
    lost = [k for k, counts in zip(LENGTHS, built["any"], strict=True) if min(counts) < k - 1]
    assert len(lost) > DRAFT_TOKENS // 2


def test_builders_agree_on_indices_in_score_order(built: dict[str, Any]) -> None:
    assert built["kernels differ"] == []

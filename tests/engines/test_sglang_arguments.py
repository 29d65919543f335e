"""Which server serves a method, what it is started with, and what is refused before it starts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from evict.errors import InputError
from evict.lookahead import Hierarchical, Recency
from evict.selection import CostAware, Coverage, Expected, FixedPrefix, Full
from harness.engines.base import Method
from harness.engines.sglang.arguments import (
    Kind,
    Weights,
    server_arguments,
    server_kind,
)
from harness.engines.sglang.effective import check_applied, effective
from tests.support.sglang_arms import (
    ARMS,
    CPU,
    DEPTH,
    GPU,
    NGRAM,
    PLAIN,
    POLICY,
    STOCK,
    WEIGHTS,
    arm_arguments,
    server_info,
    shaped,
)

SPECULATIVE = [NGRAM, STOCK, POLICY]


def test_each_method_gets_the_server_that_can_serve_it() -> None:
    served = {name: server_kind(method).algorithm for name, method in ARMS.items()}
    assert served == {"plain": None, "NGRAM": "NGRAM", "EAGLE3": "EAGLE3", "EVICT": "EVICT"}


@pytest.mark.parametrize(
    "selection", [CostAware(False), Coverage(0.7), FixedPrefix(8), Expected()], ids=repr
)
def test_policies_over_the_same_trees_share_one_server(selection: Any) -> None:
    assert server_kind(replace(POLICY, selection=selection, name="x")) == server_kind(POLICY)
    assert len({server_kind(replace(POLICY, selection=selection)), server_kind(POLICY)}) == 1


def test_untouched_trees_only_go_to_the_untouched_server() -> None:
    assert server_kind(STOCK).algorithm == "EAGLE3"
    assert server_kind(POLICY).algorithm == "EVICT"


def test_a_depth_rule_is_served_apart_with_its_numbers() -> None:
    kind = server_kind(DEPTH)
    assert kind == Kind("EVICT", 4, 8, 32, (("check_depths", (2, 3)),))
    assert kind != server_kind(POLICY)
    assert arm_arguments(DEPTH) == arm_arguments(POLICY)


def test_other_trees_are_other_servers() -> None:
    assert server_kind(shaped(POLICY, 16)) != server_kind(POLICY)
    assert server_kind(shaped(POLICY, 32, steps=5)) != server_kind(POLICY)


def test_a_hierarchical_trie_is_refused_with_what_sglang_has() -> None:
    method = Method("lookahead", "trie", Hierarchical(), Full(), 65)
    with pytest.raises(InputError, match=r"no such trie drafter.*method=lookahead_ngram"):
        server_kind(method)


def test_suffix_lengths_that_sglang_would_not_keep_are_refused() -> None:
    rule = Recency(max_trie_depth=18, max_match=12)
    with pytest.raises(InputError, match=r"max_match 12.*method\.growth\.max_match=17"):
        server_kind(replace(NGRAM, growth=rule))


@pytest.mark.parametrize("scores", ["verdict", "isotonic", "beta"])
def test_scores_that_no_worker_sums_have_no_server(scores: str) -> None:
    with pytest.raises(InputError, match=rf"scores={scores}; allowed: scores=draft"):
        server_kind(replace(POLICY, scores=scores))


def test_arguments_of_every_arm_differ_in_speculation_alone() -> None:
    plain = arm_arguments(PLAIN)
    for method in SPECULATIVE:
        other = arm_arguments(method)
        assert {name for name in other if other[name] != plain.get(name)} == {
            name for name in other if name.startswith("speculative_")
        }


def test_tree_arguments() -> None:
    arguments = arm_arguments(shaped(POLICY, 20, steps=5, topk=4))
    assert {k: v for k, v in arguments.items() if k.startswith("speculative_")} == {
        "speculative_algorithm": "EVICT",
        "speculative_num_steps": 5,
        "speculative_eagle_topk": 4,
        "speculative_num_draft_tokens": 20,
        "speculative_draft_model_path": WEIGHTS.draft,
    }


def test_ngram_arguments_need_no_drafter() -> None:
    rule = Recency(9, 1, 8, min_breadth=2, max_breadth=5, draft_tokens=7, capacity_nodes=1000)
    method = Method("n", "trie", rule, Full(), 7)
    arguments = server_arguments(server_kind(method), GPU, replace(WEIGHTS, draft=None))
    assert {k: v for k, v in arguments.items() if k.startswith("speculative_")} == {
        "speculative_algorithm": "NGRAM",
        "speculative_num_draft_tokens": 7,
        "speculative_ngram_max_trie_depth": 9,
        "speculative_ngram_min_bfs_breadth": 2,
        "speculative_ngram_max_bfs_breadth": 5,
        "speculative_ngram_capacity": 1000,
    }


def test_a_model_decides_weights_context_and_gpus() -> None:
    weights = Weights("T", "D", "r1", "r2", True, context_length=4096, tensor_parallel=4)
    arguments = server_arguments(server_kind(STOCK), GPU, weights)
    expected = {"model_path": "T", "revision": "r1", "context_length": 4096, "tp_size": 4}
    expected |= {"speculative_draft_model_path": "D", "speculative_draft_model_revision": "r2"}
    assert expected.items() <= arguments.items()
    assert arguments["trust_remote_code"] is True
    with pytest.raises(InputError, match="no draft checkpoint"):
        server_arguments(server_kind(STOCK), GPU, replace(weights, draft=None))


def test_the_eager_regime_captures_nothing() -> None:
    graphs, eager = arm_arguments(STOCK), arm_arguments(STOCK, disable_cuda_graph=True)
    assert (graphs["cuda_graph_bs_decode"], graphs["disable_cuda_graph"]) == ([1], False)
    assert "cuda_graph_bs_decode" not in eager
    assert eager["disable_cuda_graph"] is True


def test_further_arguments_reach_every_server_and_speculative_ones_only_those() -> None:
    extra = {"schedule_policy": "fcfs", "speculative_attention_mode": "decode"}
    assert extra.items() <= arm_arguments(STOCK, server_args=extra).items()
    plain = arm_arguments(PLAIN, server_args=extra)
    assert plain["schedule_policy"] == "fcfs"
    assert "speculative_attention_mode" not in plain


@pytest.mark.parametrize(
    "name",
    ["page_size", "speculative_num_steps", "port", "api_key", "tp_size", "cuda_graph_config"],
)
@pytest.mark.parametrize("method", [PLAIN, STOCK])
def test_further_arguments_cannot_overrule_ours(method: Method, name: str) -> None:
    with pytest.raises(InputError, match=f"other settings decide; seen: {name}"):
        arm_arguments(method, server_args={name: 1})


def test_real_servers_ran_with_exactly_these_arguments() -> None:
    """The recorded replies came from servers that were started with them."""
    for arm in ("plain", "NGRAM", "EAGLE3"):
        check_applied(arm_arguments(ARMS[arm], CPU), effective(server_info(arm)))

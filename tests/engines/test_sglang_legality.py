"""What is refused before a server starts, because SGLang would refuse or change it later."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.growth import FixedDepth, level_capacity
from evict.selection import CostAware
from harness.engines.base import Method
from harness.engines.sglang.arguments import server_arguments, server_kind
from harness.engines.sglang.support import check_version
from tests.support.sglang_arms import (
    ARMS,
    CPU,
    GPU,
    NGRAM,
    PLAIN,
    POLICY,
    STOCK,
    WEIGHTS,
    arm_arguments,
    shaped,
)

SPECULATIVE = [NGRAM, STOCK, POLICY]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("attn_dp_size", 2),
        ("enable_dp_attention", True),
        ("dp_size", 2),
        ("pp_size", 2),
        ("speculative_adaptive", True),
        ("speculative_use_rejection_sampling", True),
        ("enable_multi_layer_eagle", True),
        ("enable_two_batch_overlap", True),
    ],
)
def test_what_the_evict_worker_cannot_do_is_refused(name: str, value: Any) -> None:
    with pytest.raises(InputError, match=f"{name} cannot be combined with EVICT"):
        arm_arguments(POLICY, server_args={name: value})
    assert arm_arguments(STOCK, server_args={name: value})[name] == value


@pytest.mark.parametrize("method", SPECULATIVE)
def test_relaxed_acceptance_is_refused(method: Method) -> None:
    with pytest.raises(InputError, match="changes which tokens are accepted"):
        arm_arguments(method, server_args={"speculative_accept_threshold_acc": 0.9})


def test_evict_needs_a_tree() -> None:
    with pytest.raises(InputError, match=r"no tree to cut.*method\.growth\.topk=2"):
        arm_arguments(shaped(POLICY, 5, topk=1))


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(2, 8), st.integers(1, 600))
def test_a_tree_is_accepted_exactly_if_growth_can_fill_it(steps: int, topk: int, n: int) -> None:
    method = Method("m", "eagle3", FixedDepth(steps, topk), CostAware(), n)
    most = level_capacity(steps, topk) + 1
    if 2 <= n <= most:
        assert arm_arguments(method)["speculative_num_draft_tokens"] == n
        return
    with pytest.raises(InputError) as refused:
        arm_arguments(method)
    nearest = int(str(refused.value.hint).removeprefix("method.draft_tokens="))
    assert arm_arguments(replace(method, draft_tokens=nearest))
    assert abs(nearest - n) == min(abs(2 - n), abs(most - n))


@pytest.mark.parametrize("backend", ["trtllm_mha", "torch_native", "aiter"])
@pytest.mark.parametrize(
    "side", ["attention_backend", "prefill_attention_backend", "decode_attention_backend"]
)
@pytest.mark.parametrize("method", SPECULATIVE)
def test_backends_without_trees_are_refused_on_every_side(
    method: Method, side: str, backend: str
) -> None:
    with pytest.raises(InputError, match=f"{backend} cannot verify trees.*allowed: fa3"):
        arm_arguments(method, **{side: backend})
    assert arm_arguments(PLAIN, **{side: backend})[side] == backend


@pytest.mark.parametrize(
    ("capability", "runs"), [((7, 5), False), ((8, 0), True), ((9, 0), True), ((10, 0), False)]
)
def test_fa3_is_kept_to_the_gpus_it_runs_on(capability: tuple[int, int], runs: bool) -> None:
    settings = replace(GPU, attention_backend="fa3")
    for method in ARMS.values():
        kind = server_kind(method)
        if runs:
            assert server_arguments(kind, settings, WEIGHTS, capability)
            continue
        with pytest.raises(InputError, match="fa3 does not run on this GPU"):
            server_arguments(kind, settings, WEIGHTS, capability)


def test_overlap_on_a_cpu_would_be_dropped_by_some_arms() -> None:
    for method in ARMS.values():
        with pytest.raises(InputError, match=r"engine\.disable_overlap_schedule=true"):
            arm_arguments(method, CPU, disable_overlap_schedule=False)


@pytest.mark.parametrize("found", ["0.5.22", "0.5.24.dev1", None])
def test_another_version_is_named_with_what_is_supported(found: str | None) -> None:
    with pytest.raises(InputError, match=rf"seen: {found or 'not installed'}.*allowed: 0\.5\.23"):
        check_version(found)
    assert check_version("0.5.23").tree_backends

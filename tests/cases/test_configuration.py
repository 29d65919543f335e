"""Cases 34, 35, 38: settings that change unseen, cannot work, or were never applied."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.config import ROOT
from harness.engines.sglang.effective import (
    backends,
    check_applied,
    check_publishable,
    comparable,
    differences,
    effective,
)
from harness.engines.sglang.legality import check_arguments
from harness.engines.sglang.spec import flags
from harness.engines.sglang.support import SUPPORTED, TABLE
from tests.support.sglang_arms import (
    CPU,
    NGRAM,
    POLICY,
    STOCK,
    arm_arguments,
    server_info,
    shaped,
)

LAB = ROOT / "harness" / "lab" / "weights"
UNSEEN: dict[str, tuple[Any, Any]] = {
    "max_running_requests": (4096, 48),
    "disable_cuda_graph": (False, True),
    "attention_backend": ("fa3", "flashinfer"),
    "mem_fraction_static": (0.85, 0.7),
}


def test_case_34_arms_that_differ_in_speculation_are_comparable() -> None:
    arms = {arm: server_info(arm) for arm in ("plain", "NGRAM", "EAGLE3")}
    assert comparable(arms) == []


@pytest.mark.parametrize("name", UNSEEN)
def test_case_34_a_setting_changed_unseen_is_named_with_both_values(name: str) -> None:
    first, second = UNSEEN[name]
    arms = {
        "plain": server_info("plain", **{name: first}),
        "EAGLE3": server_info("EAGLE3", **{name: second}),
    }
    (reason,) = comparable(arms)
    shown = [str(v).lower() if isinstance(v, bool) else str(v) for v in (first, second)]
    assert reason == f"not comparable: {name} is {shown[0]} in plain, {shown[1]} in EAGLE3"


def test_case_34_all_changed_settings_are_listed_for_each_arm() -> None:
    before = {name: values[0] for name, values in UNSEEN.items()}
    after = {name: values[1] for name, values in UNSEEN.items()}
    arms = {
        "plain": server_info("plain", **before),
        "NGRAM": server_info("NGRAM", **after),
        "EAGLE3": server_info("EAGLE3", **before),
    }
    named = re.findall(r"not comparable: (\w+) is .* in NGRAM", "\n".join(comparable(arms)))
    assert sorted(named) == sorted(UNSEEN)


def test_case_34_the_scheduler_has_the_last_word() -> None:
    """The launcher's arguments agree; what the scheduler ran with does not."""
    other = server_info("EAGLE3")
    other["internal_states"][0]["max_running_requests"] = 48
    (found,) = differences(server_info("plain"), other)
    assert (found.name, found.first, found.second) == ("max_running_requests", 1, 48)


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(set(server_info("plain")) - {"internal_states"})), st.text())
def test_case_34_only_listed_settings_may_differ(name: str, value: str) -> None:
    told_by_the_scheduler = name in server_info("plain")["internal_states"][0]
    secret = name not in effective(server_info("plain"))
    free = name.startswith(("speculative_", "_speculative_"))
    free |= name in ("port", "nccl_port", "dist_init_addr", "weight_version")
    free |= name == "max_total_num_tokens"
    found = differences(server_info("plain"), server_info("plain", **{name: value}))
    same = server_info("plain")[name] == value
    assert bool(found) is not (told_by_the_scheduler or secret or free or same)


def test_case_34_no_key_is_kept() -> None:
    told = json.dumps(server_info("plain"))
    assert "not-a-secret" in told
    assert "not-a-secret" not in json.dumps(effective(server_info("plain")))


@pytest.mark.parametrize(
    "name", ["SGLANG_SIMULATE_ACC_LEN", "SGLANG_SIMULATE_ACC_METHOD", "SGLANG_DSPARK_SIMULATE_FOLD"]
)
def test_case_34_simulated_acceptance_is_not_published(name: str) -> None:
    found = effective(server_info("EAGLE3"))
    check_publishable({"PATH": "/bin"}, found)
    with pytest.raises(InputError, match=f"speed is not published.*{name}=4"):
        check_publishable({name: "4"}, found)
    with pytest.raises(InputError, match=name):
        check_publishable({}, {**found, "env_vars": {name: "4"}})


def test_case_34_relaxed_acceptance_is_not_published() -> None:
    found = effective(server_info("EAGLE3", speculative_accept_threshold_acc=0.9))
    with pytest.raises(InputError, match=r"speculative_accept_threshold_acc=0\.9"):
        check_publishable({}, found)


def test_case_34_another_document_is_refused() -> None:
    with pytest.raises(InputError, match="not the server information"):
        effective({"error": "unauthorized"})


def test_case_35_trees_and_pages() -> None:
    method = shaped(STOCK, 16, topk=4)
    for backend in ("triton", "fa3"):
        with pytest.raises(InputError, match=r"topk 4.*page_size 64.*engine\.page_size=1"):
            arm_arguments(method, attention_backend=backend, page_size=64)
    assert arm_arguments(method, page_size=64)["page_size"] == 64
    with pytest.raises(InputError, match=r"engine\.page_size=1"):
        arm_arguments(NGRAM, attention_backend="triton", page_size=64)


def test_case_35_trees_and_overlap_by_version() -> None:
    """Legal in the supported version; a table that says otherwise refuses it."""
    arguments = arm_arguments(shaped(STOCK, 16, topk=4))
    check_arguments(arguments, support=TABLE["0.5.23"])
    chains_only = replace(TABLE["0.5.23"], tree_overlap=False)
    with pytest.raises(InputError, match=r"topk 4.*engine\.disable_overlap_schedule=true"):
        check_arguments(arguments, support=chains_only)
    check_arguments({**arguments, "disable_overlap_schedule": True}, support=chains_only)
    assert SUPPORTED in TABLE


@pytest.mark.parametrize("method", [NGRAM, shaped(STOCK, 16, topk=4), POLICY])
def test_case_35_backend_unset(method: Any) -> None:
    with pytest.raises(InputError, match=r"attention_backend is not set.*=flashinfer"):
        arm_arguments(method, attention_backend=None)


def test_case_35_a_chain_has_one_size() -> None:
    with pytest.raises(InputError, match=r"seen: 8; allowed: 6; try: method\.draft_tokens=6"):
        arm_arguments(shaped(STOCK, 8, steps=5, topk=1))
    assert arm_arguments(shaped(STOCK, 6, steps=5, topk=1))["speculative_num_draft_tokens"] == 6


def test_case_35_the_resolved_backend_is_read_back() -> None:
    found = backends(effective(server_info("EAGLE3")))
    assert (found["attention_prefill"], found["attention_decode"]) == ("intel_amx", "intel_amx")
    assert found["moe_runner"] == "triton"


def test_case_38_a_setting_that_the_server_did_not_take() -> None:
    wanted = arm_arguments(shaped(STOCK, 32, steps=7), CPU)
    words = flags(wanted)
    assert words[words.index("--speculative-num-steps") + 1] == "7"
    check_applied(wanted, effective(server_info("EAGLE3", speculative_num_steps=7)))
    with pytest.raises(InputError, match="config not applied: steps 7 -> 5;"):
        check_applied(wanted, effective(server_info("EAGLE3", speculative_num_steps=5)))


def test_case_38_every_setting_not_taken_is_named() -> None:
    found = effective(server_info("EAGLE3", speculative_eagle_topk=4, page_size=64))
    with pytest.raises(InputError, match="page_size 1 -> 64, topk 8 -> 4;"):
        check_applied(arm_arguments(STOCK, CPU), found)


def test_case_38_a_setting_the_server_does_not_know() -> None:
    found = effective(server_info("EAGLE3"))
    with pytest.raises(InputError, match="config not applied: new_switch true -> absent"):
        check_applied({"new_switch": True}, found)


@pytest.mark.parametrize(
    ("decode", "captured"), [({"backend": "disabled"}, [1]), ({"backend": "full"}, [])]
)
def test_case_38_graphs_that_were_asked_for_and_not_captured(
    decode: dict[str, str], captured: list[int]
) -> None:
    info = server_info("plain", cuda_graph_config={"decode": {"backend": "full"}})
    wanted = {"disable_cuda_graph": False}
    info["disable_cuda_graph"] = False
    info["internal_states"][0]["decode_cuda_graph_bs"] = [1]
    check_applied(wanted, effective(info))
    info["cuda_graph_config"]["decode"] = decode
    info["internal_states"][0]["decode_cuda_graph_bs"] = captured
    with pytest.raises(InputError, match="decode graphs on -> off"):
        check_applied(wanted, effective(info))

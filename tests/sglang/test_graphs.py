"""The CUDA graph regime in SGLang's own graph runners, with capture emulated on a CPU.

Emulated graphs repeat recorded operations on fixed tensors, refuse host waits while they are
captured, and lose to each other what they share (`tests.sglang.tape`). Not covered: GPU kernels
and GPU attention backends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sglang.checkpoints import Pair
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import graphs

Found = dict[str, Any]
N = 32
EXACT = ("k", "drafted", "depth", "accepted", "context", "union")
RULES: dict[str, Found] = {
    "stops early": {"threshold": -0.45, "check": [1, 2, 3]},
    "stops late": {"threshold": -3.1, "check": [1, 2, 3]},
    "one check": {"threshold": -3.1, "check": [3]},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("graphs")


def _run(tiny: Pair, folder: Path, scenario: Any, name: str, **arguments: Any) -> Found:
    own = folder / name.replace(" ", "_")
    own.mkdir()
    named = {"target": tiny.target, "draft": tiny.draft, "folder": own, **arguments}
    return run_scenario(scenario, named, timeout=600)


@pytest.fixture(scope="module")
def alone(tiny: Pair) -> list[list[int]]:
    outputs: list[list[int]] = run_scenario(graphs.plain, {"target": tiny.target})["outputs"]
    return outputs


@pytest.fixture(scope="module")
def captured(tiny: Pair, folder: Path) -> Found:
    return _run(tiny, folder, graphs.policies, "captured", captured=True)


@pytest.fixture(scope="module")
def eager(tiny: Pair, folder: Path) -> Found:
    return _run(tiny, folder, graphs.policies, "eager", captured=False)


def test_stock_eagle3_equals_plain_decoding_in_the_emulation(
    tiny: Pair, plain: Found, alone: list[list[int]]
) -> None:
    found = run_scenario(graphs.stock, {"target": tiny.target, "draft": tiny.draft})
    assert found["outputs"] == alone
    assert found["accepted"] > 0.5 * found["verifications"]
    assert set(found["replays"].values()) == {found["verifications"]}
    assert len(found["replays"]) == 3
    assert found["stress"]["outputs"] == plain["outputs"]


def test_every_policy_equals_plain_decoding(captured: Found, alone: list[list[int]]) -> None:
    differing = [name for name, run in captured["alone"].items() if run["outputs"] != alone]
    assert differing == []
    assert {"full", "evict", "coverage", "k=1", "k=17", "any"} <= captured["alone"].keys()


def test_every_step_alone_replays_a_graph(captured: Found) -> None:
    steps = sum(len(run["records"]) for run in captured["alone"].values())
    assert captured["state"]["resolved"]["regime"] == "graphs"
    assert (captured["state"]["graph_steps"], captured["state"]["eager_steps"]) == (steps, 0)


def test_policies_change_without_capturing_anew(captured: Found) -> None:
    before, after = captured["graphs"]
    assert before == after > len(graphs.TIERS)


def test_verify_lengths_follow_the_policy_and_vary(captured: Found) -> None:
    for name, run in captured["alone"].items():
        lengths = {record["k"] for record in run["records"]}
        if name.startswith("k="):
            assert lengths == {int(name[2:])}
        elif name in ("evict", "coverage", "any"):
            assert len(lengths) >= 2, name
            assert lengths <= {*graphs.TIERS, N}


def test_steps_are_those_of_the_eager_regime(captured: Found, eager: Found) -> None:
    for name in eager["alone"].keys() - {"any"}:
        _assert_same_steps(captured["alone"][name], eager["alone"][name])
    assert any(record["union"] for record in eager["alone"]["full"]["records"])


def test_batches_above_graph_batches_verify_the_whole_tree(captured: Found, plain: Found) -> None:
    together = captured["together"]
    assert together["outputs"] == plain["outputs"]
    for record in together["records"]:
        assert record["graph"] == (record["batch"] <= 4)
        assert record["batch"] == 1 or record["k"] == N
    batches = {record["batch"] for record in together["records"]}
    assert {1, 6} <= batches
    assert batches & {2, 3, 4}


def test_each_width_is_logged_with_its_time(captured: Found) -> None:
    for width in graphs.TIERS:
        lines = [line for line in captured["log"] if f"width {width} captured in " in line]
        assert len(lines) == 1, width


@pytest.fixture(scope="module", params=RULES)
def ruled(tiny: Pair, folder: Path, request: pytest.FixtureRequest) -> tuple[str, Found, Found]:
    """A rule's name, its run from graphs and its eager run."""
    rule = request.param
    runs = [
        _run(tiny, folder, graphs.depth, f"{rule} {captured}", captured=captured, **RULES[rule])
        for captured in (True, False)
    ]
    return rule, runs[0], runs[1]


def test_dynamic_depth_draws_the_trees_of_the_eager_loop(
    ruled: tuple[str, Found, Found], alone: list[list[int]], plain: Found
) -> None:
    rule, captured, eager = ruled
    for selection, expected in eager["alone"].items():
        assert expected["outputs"] == alone
        _assert_same_steps(captured["alone"][selection], expected)
    depths = {record["depth"] for record in captured["alone"]["full"]["records"]}
    assert depths == ({1, 2} if rule == "stops early" else {3, 4})
    assert captured["together"]["outputs"] == plain["outputs"]


def test_dynamic_depth_replays_graphs_in_every_batch_that_has_one(
    ruled: tuple[str, Found, Found],
) -> None:
    rule, captured, _ = ruled
    records = captured["together"]["records"]
    assert captured["state"]["eager_steps"] == 0
    assert all(record["graph"] == (record["batch"] <= 4) for record in records)
    several = {record["k"] for record in records if 1 < record["batch"] <= 4}
    assert several == ({9, N} if rule == "stops early" else {N})


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("verify raises", "ArithmeticError: injected"),
        ("runner not swapped", "width 4, batch 1 fell back to eager"),
        ("runner of another width", "width 4, batch 1 fell back to eager"),
        ("tier left out", "no verify state of width 4"),
    ],
)
def test_a_fault_is_an_error_and_leaves_the_target_as_it_was(
    tiny: Pair, folder: Path, kind: str, words: str
) -> None:
    found = _run(tiny, folder, graphs.fault, kind, kind=kind)
    assert words in found["error"]
    outside, after_good_step = found["outside"]
    assert outside == after_good_step == found["after"]
    assert outside[2] == found["width"] == N
    assert found["inside"][2] == 4
    assert all(ours != theirs for ours, theirs in zip(found["inside"], outside, strict=True))


def _assert_same_steps(found: Found, expected: Found) -> None:
    assert found["outputs"] == expected["outputs"]
    assert len(found["records"]) == len(expected["records"])
    for ours, theirs in zip(found["records"], expected["records"], strict=True):
        assert {key: ours[key] for key in EXACT} == {key: theirs[key] for key in EXACT}
        assert ours["tree"]["tokens"] == theirs["tree"]["tokens"]
        assert ours["tree"]["parents"] == theirs["tree"]["parents"]
        pairs = zip(ours["tree"]["scores"], theirs["tree"]["scores"], strict=True)
        for scores, others in pairs:
            assert scores == pytest.approx(others, abs=1e-5)
        assert ours["expected"] == pytest.approx(theirs["expected"], abs=1e-4)

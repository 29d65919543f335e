"""The lab model in SGLang and in the embedded engine: the same trees, scores, k, tokens and Mat."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.sglang.process import run_scenario
from tests.sglang.scenarios import lab

# float32 through 12 layers, in another order of operations.
SCORE_TOLERANCE = 1e-5
# Nodes this close may change places; at most one in a thousand does.
TIE = 1e-6
EXCEPTIONS_PER_NODE = 1e-3
EXACT = ("k", "accepted", "emitted", "context")

EVICT = {"policy": {"name": "evict"}, "prompts": 9, "length": 64}
SHORT: dict[str, Any] = {"drafting": "slots", "prompts": 3, "length": 48}
RUNS: dict[str, dict[str, Any]] = {
    "evict": {**EVICT, "drafting": "slots"},
    "evict_paths": {**EVICT, "drafting": "paths"},
    "eagle3": {**SHORT, "policy": {"name": "full"}},
    "coverage": {**SHORT, "policy": {"name": "coverage", "rho": 0.7}},
}
SHIFTED = {**EVICT, "drafting": "shifted", "prompts": 1}
FIXED_DEPTH = {"name": "fixed_depth"}
DYNAMIC_DEPTH = {"name": "ddd", "threshold": -0.7, "check_depths": [2, 3]}
DDD = {"ddd": {**SHORT, "policy": {"name": "full"}}}
Runs = dict[str, lab.Decoded]


@pytest.fixture(scope="module")
def prompts() -> list[list[int]]:
    return lab.lab_prompts(2)


@pytest.fixture(scope="module")
def by_sglang(prompts: list[list[int]]) -> Runs:
    runs = {**RUNS, "shifted": SHIFTED}
    return run_scenario(
        lab.by_sglang, {"prompts": prompts, "growth": FIXED_DEPTH, "runs": runs}, timeout=900
    )


@pytest.fixture(scope="module")
def by_torch(prompts: list[list[int]]) -> Runs:
    return run_scenario(
        lab.by_torch, {"prompts": prompts, "growth": FIXED_DEPTH, "runs": RUNS}, timeout=900
    )


@dataclass
class Comparison:
    """What two decodings of the same prompts have in common.

    largest: of the differences between scores of the same node. nodes: compared; exceptions: of
    these, in another place as their scores nearly tie. wrong: everything else that differs.
    """

    steps: int = 0
    nodes: int = 0
    largest: float = 0.0
    exceptions: int = 0
    wrong: list[str] = field(default_factory=list)


def compare(ours: lab.Decoded, theirs: lab.Decoded, deepest: int = lab.STEPS) -> Comparison:
    """deepest: nodes below this depth are left out, with the order that they may have moved."""
    found = Comparison()
    for request, (one, other) in enumerate(zip(ours["steps"], theirs["steps"], strict=True)):
        if len(one) != len(other):
            found.wrong.append(f"request {request}: {len(one)} and {len(other)} steps")
        for number, (step, twin) in enumerate(zip(one, other, strict=False)):
            found.steps += 1
            where = f"request {request}, step {number}"
            for name in EXACT:
                if step[name] != twin[name]:
                    found.wrong.append(f"{where}: {name} {step[name]} and {twin[name]}")
            _compare_trees(_nodes(step, deepest), _nodes(twin, deepest), where, found)
    return found


def _compare_trees(
    ours: dict[tuple[int, ...], float],
    theirs: dict[tuple[int, ...], float],
    where: str,
    found: Comparison,
) -> None:
    if len(ours) != len(theirs):
        found.wrong.append(f"{where}: {len(ours)} and {len(theirs)} nodes")
    least = min(ours.values())
    for node, twin in zip(ours, theirs, strict=False):
        found.nodes += 1
        if node in theirs:
            found.largest = max(found.largest, abs(ours[node] - theirs[node]))
        if node != twin:
            # A node that only the other tree keeps scores here no more than the last one.
            found.exceptions += 1
            apart = abs(ours[node] - ours.get(twin, least))
            if apart > TIE:
                found.wrong.append(f"{where}: {node} for {twin}, {apart:.1e} apart")


def _nodes(step: Mapping[str, Any], deepest: int) -> dict[tuple[int, ...], float]:
    """Score of every node by its tokens from the root on, in the tree's order."""
    paths: list[tuple[int, ...]] = []
    for token, parent in zip(step["tokens"], step["parents"], strict=True):
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
    scored = dict(zip(paths, step["scores"], strict=True))
    assert len(scored) == len(paths)
    return {path: score for path, score in scored.items() if len(path) <= deepest + 1}


def mat(decoded: lab.Decoded) -> float:
    """Mean tokens committed per step."""
    lengths = [len(step["emitted"]) for step in _steps(decoded)]
    return sum(lengths) / len(lengths)


def _steps(decoded: lab.Decoded) -> Iterator[dict[str, Any]]:
    return (step for steps in decoded["steps"] for step in steps)


def _check_equal(ours: lab.Decoded, theirs: lab.Decoded) -> Comparison:
    found = compare(ours, theirs)
    assert not found.wrong
    assert found.largest <= SCORE_TOLERANCE
    assert found.exceptions <= EXCEPTIONS_PER_NODE * found.nodes
    assert ours["outputs"] == theirs["outputs"]
    assert mat(ours) == pytest.approx(mat(theirs), abs=1e-9)
    return found


@pytest.mark.parametrize(
    ("name", "least_steps"),
    [("evict", 200), ("evict_paths", 200), ("eagle3", 30), ("coverage", 30)],
)
def test_engines_agree(name: str, least_steps: int, by_sglang: Runs, by_torch: Runs) -> None:
    assert _check_equal(by_sglang[name], by_torch[name]).steps >= least_steps


def test_evict_chooses_many_lengths_at_equal_expectations(by_sglang: Runs, by_torch: Runs) -> None:
    """Otherwise equal k would say little."""
    steps = list(zip(_steps(by_sglang["evict"]), _steps(by_torch["evict"]), strict=True))
    assert len({step["k"] for step, _ in steps}) >= 5
    assert len({step["accepted"] for step, _ in steps}) == lab.STEPS + 1
    for step, twin in steps:
        assert step["expected"] == pytest.approx(twin["expected"], abs=step["k"] * SCORE_TOLERANCE)


def test_dynamic_depth_stops_at_the_same_levels(prompts: list[list[int]]) -> None:
    given = {"prompts": prompts, "growth": DYNAMIC_DEPTH, "runs": DDD}
    ours = run_scenario(lab.by_sglang, given, timeout=900)["ddd"]
    _check_equal(ours, run_scenario(lab.by_torch, given)["ddd"])
    depths = {max(map(len, _nodes(step, lab.STEPS))) - 1 for step in _steps(ours)}
    assert depths == {2, 3, 4}


def test_stock_eagle3_accepts_the_same(prompts: list[list[int]], by_torch: Runs) -> None:
    """SGLang's own worker, which leaves no record of its trees."""
    ours = by_torch["eagle3"]
    stock = run_scenario(
        lab.by_stock,
        {"prompts": prompts[: SHORT["prompts"]], "length": SHORT["length"]},
        timeout=900,
    )
    assert stock["outputs"] == ours["outputs"]
    for counts, steps in zip(stock["accepted"], ours["steps"], strict=True):
        accepted = [step["accepted"] for step in steps]
        assert counts == [accepted.count(kept) for kept in range(max(accepted) + 1)]


def test_slots_and_paths_part_below_depth_two(by_sglang: Runs, by_torch: Runs) -> None:
    """What SGLang as it is and EAGLE's rule share, and that the comparison sees the rest."""
    shipped, paths = by_sglang["evict"], by_torch["evict_paths"]
    shared = compare(shipped, paths, deepest=2)
    assert shared.largest <= SCORE_TOLERANCE
    assert compare(shipped, paths).largest > 100 * SCORE_TOLERANCE
    assert shipped["outputs"] == paths["outputs"]


def test_shifted_positions_are_seen(by_sglang: Runs, by_torch: Runs) -> None:
    """Negative control: still the same text, but no longer the same scores."""
    shifted = by_sglang["shifted"]
    first = {name: part[:1] for name, part in by_torch["evict"].items()}
    assert shifted["outputs"] == first["outputs"]
    found = compare(shifted, first)
    assert found.wrong
    assert found.largest > 10 * SCORE_TOLERANCE

"""The stand-ins' tree kernels are SGLang's: equal to its Triton kernels on any tree."""

from __future__ import annotations

from typing import Any

import pytest

from tests.sglang.process import run_scenario
from tests.sglang.scenarios import sampling


@pytest.fixture(scope="module")
def compared() -> dict[str, Any]:
    return run_scenario("tests.sglang.scenarios.kernels:compare", {}, env={"TRITON_INTERPRET": "1"})


@pytest.mark.parametrize(
    "check", ["build_and_verify", "certain_trees", "rebuilt_from_mask", "draft_branches"]
)
def test_stand_in_equals_triton_kernel(compared: dict[str, Any], check: str) -> None:
    assert compared[check] == ""


def test_sampled_tree_has_the_targets_law() -> None:
    law = run_scenario(sampling.tree_law, {"seeds": [0, 1, 2]})
    assert min(law["first"]) > 1e-4
    assert min(law["second"]) > 1e-4

"""Two tensor-parallel ranks on a CPU: one k for both, and what happens where they differ."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from evict.sglang.session import Session
from tests.sglang.checkpoints import Pair
from tests.sglang.process import ScenarioFailed, run_scenario
from tests.sglang.scenarios import parallel
from tests.sglang.scenarios.parallel import (
    DRAFT_TOKENS,
    HEALTHY,
    RANKS,
    REQUESTS,
    lengths_file,
    session_folder,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ranks")


@pytest.fixture(scope="module")
def served(tiny: Pair, folder: Path) -> dict[str, Any]:
    """What two ranks serve under `broadcast`."""
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": folder}
    return run_scenario(parallel.broadcast, arguments)


@pytest.mark.parametrize("case", ["evict", "k=5", "disagreement"])
def test_two_ranks_give_the_tokens_of_plain_decoding_on_one(
    served: dict[str, Any], plain: dict[str, Any], case: str
) -> None:
    assert served[case]["outputs"] == plain["outputs"][:REQUESTS]


def test_ranks_choose_alike_by_the_cost_table_of_rank_0(served: dict[str, Any]) -> None:
    first, second = served["evict"]["proposed"]
    assert first == second
    assert len(set(first)) > 2
    assert max(first) > 1


def test_ranks_follow_the_orders_of_rank_0(served: dict[str, Any]) -> None:
    first, second = served["k=5"]["proposed"]
    assert first == second
    assert set(first) == {5}


def test_rank_0_alone_records_and_reports(served: dict[str, Any], folder: Path) -> None:
    steps = Session(session_folder(folder, 0)).take()
    assert [step["k"] for step in steps] == served["k=5"]["agreed"][0]
    assert list(session_folder(folder, 1).iterdir()) == []


def test_a_rank_that_chose_otherwise_follows_rank_0(served: dict[str, Any]) -> None:
    ours, other = served["disagreement"]["proposed"]
    assert len(ours) == len(other)
    assert all(one != another for one, another in zip(ours, other, strict=True))
    assert served["disagreement"]["agreed"] == [ours, ours]


def test_compared_ranks_decode_until_one_differs_and_then_stop_in_that_step(
    tiny: Pair, plain: dict[str, Any], tmp_path: Path
) -> None:
    arguments = {"target": tiny.target, "draft": tiny.draft, "folder": tmp_path}
    with pytest.raises(ScenarioFailed) as failed:
        run_scenario(parallel.compared, arguments)
    healthy = json.loads((tmp_path / HEALTHY).read_text())
    assert healthy["outputs"] == plain["outputs"][:REQUESTS]
    named = re.search(
        r"different verify lengths \(rank 0: (\d+), rank 1: (\d+)\)", str(failed.value)
    )
    assert named
    assert int(named[2]) == int(named[1]) % DRAFT_TOKENS + 1
    assert [lengths_file(tmp_path, rank).read_text() for rank in range(RANKS)] == ["", ""]

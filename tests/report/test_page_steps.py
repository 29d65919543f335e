"""The recorded steps of the page: the policies' own k, chosen before anything is rounded."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.cost import CostTable
from evict.selection import CostAware
from harness.collection import Collection
from harness.report.page.inline import json_text
from harness.report.page.utility import STEPS_SHOWN, chosen_lengths, spread, step_groups
from harness.report.words import benchmark
from harness.trees import TreeRecord
from tests.support.page_book import sample_data, without_costs


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_data()


def trees_of(data: Collection, group: dict[str, Any]) -> tuple[list[TreeRecord], CostTable]:
    named = data.runs["benchmark"].map(benchmark) == group["benchmark"]
    runs = data.runs[data.runs["recorded"] & named]
    (run,) = runs.loc[runs["temperature"] == group["temperature"], "run"]
    return data.recorded_trees(run), data.costs[run]


def test_stored_lengths_are_the_policies_own(data: Collection) -> None:
    groups = step_groups("m", data)
    assert len(groups) == 4
    compared = 0
    for group in groups:
        trees, cost = trees_of(data, group)
        assert len(trees) == group["of"] == len(group["steps"]) <= STEPS_SHOWN
        for tree, step in zip(trees, group["steps"], strict=True):
            at = step["at"]
            expected_N = torch.from_numpy(tree.scores).cumsum(0)
            select = CostAware().bind(cost, cost.draft_tokens)
            assert at["evict"]["k"] == int(select(expected_N)) == tree.verified
            found = tree.tokens_committed()
            rates = [found[k - 1] / cost.step_ms[k - 1] for k in range(1, tree.size + 1)]
            assert at["oracle"]["k"] == rates.index(max(rates)) + 1
            assert at["full"]["k"] == tree.size
            for one in at.values():
                k = one["k"]
                assert one["accepted"] == sum(0 < node < k for node in tree.path)
                assert one["committed"] == step["committed"][k - 1] == found[k - 1]
                assert one["expected"] == pytest.approx(float(expected_N[k - 1]), rel=1e-3)
                utility = cost.ar_ms * float(expected_N[k - 1]) / cost.step_ms[k - 1]
                assert one["utility"] == pytest.approx(utility, rel=1e-3)
            compared += 1
    assert compared > 40


def chain(scores: list[float], verified: int = 1) -> TreeRecord:
    n = len(scores)
    return TreeRecord(
        step=0,
        tokens=np.arange(n),
        parents=np.arange(n) - 1,
        depths=np.arange(n),
        scores=np.array(scores, dtype=np.float32),
        path=(0,),
        verified=verified,
        committed=1,
        experts=np.zeros((n, 1, 1), dtype=np.int16),
    )


def test_lengths_are_chosen_before_scores_are_rounded(data: Collection) -> None:
    """1.50004 / 1.50002 is above 1 / 1; with the score rounded to 0.5 it would be below."""
    cost = CostTable(step_ms=(1.0, 1.50002), ar_ms=1.0, spread_ms=(0.0, 0.0))
    assert chosen_lengths([chain([1.0, 0.50004])], cost) == [2]
    assert chosen_lengths([chain([1.0, 0.5])], cost) == [1]
    (group,) = step_groups("m", recorded_as(data, [chain([1.0, 0.50004])], cost))
    assert group["steps"][0]["scores"] == [1.0, 0.5]
    assert group["steps"][0]["at"]["evict"]["k"] == 2


def recorded_as(data: Collection, trees: list[TreeRecord], *costs: CostTable) -> Collection:
    """One recorded run per cost table, all with these trees but the k of its own policy."""
    row = data.runs[data.runs["recorded"]].iloc[0].to_dict()
    names = [f"trees/{i}" for i in range(len(costs))]
    rows = [
        {"prompt_id": "p", "turn": 0, "repeat": 0, "run": name}
        | {**tree.to_row(), "verified": k, "step": i}
        for name, cost in zip(names, costs, strict=True)
        for i, (tree, k) in enumerate(zip(trees, chosen_lengths(trees, cost), strict=True))
    ]
    return replace(
        data,
        runs=pd.DataFrame([row | {"run": name, "method_label": name} for name in names]),
        trees=pd.DataFrame(rows),
        costs=dict(zip(names, costs, strict=True)),
    )


def test_of_several_recordings_the_one_that_ran_evict_is_shown(data: Collection) -> None:
    cost = CostTable(step_ms=(1.0, 1.4), ar_ms=1.0, spread_ms=(0.0, 0.0))
    dear = CostTable(step_ms=(1.0, 9.0), ar_ms=1.0, spread_ms=(0.0, 0.0))
    made = recorded_as(data, [chain([1.0, 0.9]), chain([1.0, 0.1])], dear, cost)
    shared = replace(made, costs={"trees/0": cost, "trees/1": cost})
    (group,) = step_groups("m", shared)
    assert group["method"] == "trees/1"
    assert [step["live"] for step in group["steps"]] == [2, 1]


def test_a_recording_without_costs_borrows_a_timing_runs(data: Collection) -> None:
    lent = without_costs(data, keep="paper/")
    own, borrowed = step_groups("m", data), step_groups("m", lent)
    assert all(group["cost_from"] is None for group in own)
    assert all(group["cost_from"].startswith("paper/") for group in borrowed)
    assert [group["steps"] for group in own] == [group["steps"] for group in borrowed]


@given(st.lists(st.integers(1, 40), min_size=1, max_size=90), st.integers(1, 60))
@settings(max_examples=150, deadline=None)
def test_shown_steps_are_spread_over_the_prompts(sizes: list[int], most: int) -> None:
    keys = [prompt for prompt, size in enumerate(sizes) for _ in range(size)]
    shown = spread(keys, most)
    counts = np.bincount([keys[i] for i in shown], minlength=len(sizes))
    assert len(shown) <= most
    assert shown == sorted(set(shown))
    ends = np.flatnonzero(np.diff([-1, *keys, len(sizes)]))
    for prompt in np.flatnonzero(counts > 1):
        assert {int(ends[prompt]), int(ends[prompt + 1]) - 1} <= set(shown)
    if len(sizes) <= most:
        share = most // len(sizes)
        assert all(min(size, share) <= count for size, count in zip(sizes, counts, strict=True))
        assert max(counts) <= share + 1
    else:
        assert len(shown) == most
        assert max(counts) == 1


def test_steps_leave_room_for_the_figures(data: Collection) -> None:
    """60 steps of 32 nodes for six benchmarks and two temperatures take less than 1.2 MB."""
    groups = step_groups("m", data)
    shown = sum(len(group["steps"]) for group in groups)
    assert len(json_text(groups)) / shown * 6 * 2 * STEPS_SHOWN < 1.2e6

"""The lab hold-out: one half of the prompts is read, the other is only compared with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from harness.report.published import FOLDER
from harness.simulate.holdout import Halves, model_error, predict_other_half
from harness.unpack import read_pack

COLLECTION = read_pack(FOLDER.parent / "reference" / "paper")
KEYS = ["policy", "benchmark", "temperature", "measure"]
COUNT = 150


@pytest.fixture(scope="module")
def halves() -> Halves:
    return Halves.of(COLLECTION)


@pytest.fixture(scope="module")
def honest(halves: Halves) -> pd.DataFrame:
    return predict_other_half(halves, COUNT).set_index(KEYS).sort_index()


def longer(halves: Halves, half: int) -> Halves:
    """Every step of one half commits one token more and lasts twice as long."""
    there = halves.steps["half"] == half
    steps = halves.steps.assign(
        committed=halves.steps["committed"] + np.where(there, 0.5, 0.0),
        total_ms=halves.steps["total_ms"] * np.where(there, 2.0, 1.0),
    )
    return replace(halves, steps=steps)


def test_prompts_are_split_and_every_one_is_in_one_half(halves: Halves) -> None:
    prompts = halves.steps.groupby("half")["prompt_id"].unique()
    assert not set(prompts[0]) & set(prompts[1])
    assert len(prompts[0]) == len(prompts[1]) == 30
    assert len(halves.trees.scores_nN) < 0.7 * len(COLLECTION.trees)


def test_only_policies_that_draft_the_same_tree_take_part(halves: Halves) -> None:
    names = {policy.split()[0] for policy in halves.policies}
    assert names == {"eagle3", "evict", "coverage", "best_fixed"}


def test_the_measured_numbers_are_those_of_the_other_half(
    halves: Halves, honest: pd.DataFrame
) -> None:
    runs = COLLECTION.runs.query("experiment == 'paper' and method == 'evict'")
    run = runs[(runs["benchmark"] == "gsm8k") & (runs["temperature"] == 0)]["run"].item()
    steps = COLLECTION.steps[COLLECTION.steps["run"] == run]
    odd = steps[steps["prompt_id"].str.rsplit("-", n=1).str[-1].astype(int) % 2 == 1]
    measured = honest["measured"].loc["evict", "gsm8k", 0.0]
    assert measured["mat"] == pytest.approx(odd["committed"].mean())
    assert measured["verified"] == pytest.approx(odd["verified"].mean())
    speed = 1e3 * odd["committed"].sum() / odd["total_ms"].sum()
    assert measured["tokens_per_s"] == pytest.approx(speed)


def test_the_other_half_does_not_move_its_own_prediction(
    halves: Halves, honest: pd.DataFrame
) -> None:
    changed = predict_other_half(longer(halves, 1), COUNT).set_index(KEYS).sort_index()
    assert changed["predicted"].equals(honest["predicted"])
    assert not changed["measured"].equals(honest["measured"])


def test_the_fitting_half_does(halves: Halves, honest: pd.DataFrame) -> None:
    steps = longer(halves, 0).steps.assign(committed=halves.steps["committed"])
    changed = predict_other_half(replace(halves, steps=steps), COUNT).set_index(KEYS).sort_index()
    speeds = changed["predicted"].xs("tokens_per_s", level="measure")
    before = honest["predicted"].xs("tokens_per_s", level="measure")
    assert speeds.to_numpy() == pytest.approx(before.to_numpy() / 2)


def test_the_models_own_error_leaves_out_what_the_halves_differ_in() -> None:
    rows = [("evict", "mat", 0.05), ("evict", "mat", -0.05), ("eagle3", "mat", 0.03)]
    rows += [("eagle3", "mat", -0.03), ("evict", "verified", 0.0), ("eagle3", "verified", 0.1)]
    tried = pd.DataFrame(rows, columns=["policy", "measure", "residual"])
    assert model_error(tried) == pytest.approx({"mat": 0.04, "verified": 0.0})

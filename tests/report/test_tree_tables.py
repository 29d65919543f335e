from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from evict.oracle import best_rate
from harness.collection import Collection
from harness.report.blocks import main_block, tree_size_block, widths
from harness.report.spec import Missing
from harness.report.tables import TABLES
from tests.support.collection import sample_collection
from tests.support.sample_methods import EVICT, VANILLA
from tests.support.sample_trees import LAYERS, NODES, TOP_K, sample_cost


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection()


def one(frame: pd.DataFrame, **wanted: object) -> dict[str, float]:
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    (row,) = frame.to_dict("records")
    return row  # type: ignore[return-value]


def runs_of(data: Collection, **wanted: object) -> list[str]:
    found = data.runs
    for name, value in wanted.items():
        found = found[found[name] == value]
    return [str(run) for run in found["run"]]


def test_calibration_counts_every_node_of_every_tree(data: Collection) -> None:
    frame = TABLES["calibration"].build(data)
    runs = runs_of(data, recorded=True, temperature=0.0)
    trees = [tree for run in runs for tree in data.recorded_trees(run)]
    row = one(frame, temperature=0.0, benchmark="all")
    assert (row["trees"], row["nodes"]) == (len(trees), len(trees) * (NODES - 1))
    accepted = sum(len(tree.path) - 1 for tree in trees)
    assert row["acceptance_rate"] == pytest.approx(accepted / row["nodes"])
    scores = np.concatenate([tree.scores[1:] for tree in trees])
    assert row["mean_score"] == pytest.approx(scores.mean())
    assert row["nodes_likely"] == (scores >= 0.1).sum()
    assert max(tree.verified for tree in trees) < NODES


def test_calibration_tells_an_overconfident_drafter(data: Collection) -> None:
    trees = data.trees.copy()
    trees["scores"] = [[1.0, *(min(1.0, 2 * s) for s in row[1:])] for row in trees["scores"]]
    before = TABLES["calibration"].build(data)
    after = TABLES["calibration"].build(replace(data, trees=trees))
    at = {"temperature": 0.0, "benchmark": "all"}
    assert one(after, **at)["ece"] > 5 * one(before, **at)["ece"]
    assert one(after, **at)["ece_likely"] > 2 * one(before, **at)["ece_likely"]


def test_union_of_one_node_is_top_k_and_of_all_nodes_the_steps(data: Collection) -> None:
    frame = TABLES["union"].build(data)
    runs = runs_of(data, recorded=True, temperature=1.0)
    unions = []
    for run in runs:
        for tree in data.recorded_trees(run):
            layers = [len(set(tree.experts[:, i].ravel().tolist())) for i in range(LAYERS)]
            unions.append(np.mean(layers))
    assert one(frame, temperature=1.0, k=1)["experts_per_layer"] == TOP_K
    last = one(frame, temperature=1.0, k=NODES)
    assert last["experts_per_layer"] == pytest.approx(np.mean(unions))
    assert last["steps"] == len(unions)
    assert last["uniform"] == pytest.approx(48 * (1 - (1 - 2 / 48) ** 32))


def test_regret_is_measured_against_the_exact_bound(data: Collection) -> None:
    frame = TABLES["regret"].build(data)
    (source,) = runs_of(data, recorded=True, temperature=0.0, benchmark="gsm8k")
    trees, cost = data.recorded_trees(source), np.array(sample_cost().step_ms)
    best, _ = best_rate(np.array([tree.tokens_committed() for tree in trees], float), cost)
    row = one(frame, temperature=0.0, benchmark="gsm8k", method="eagle3")
    full = sum(tree.tokens_committed()[-1] for tree in trees) / (len(trees) * cost[-1])
    assert row["best"] == pytest.approx(best)
    assert row["regret"] == pytest.approx(1 - full / best)
    assert (frame["regret"] >= 0).all()
    hindsight = frame[frame["scores"] == "verdict"]
    assert np.allclose(hindsight["hindsight_regret"], 0)
    assert (hindsight["regret"] > 0).all()
    assert set(frame["recorded_method"]) == {"EVICT"}


def test_a_replay_without_its_recording_has_no_regret(data: Collection) -> None:
    without = data.select(set(data.runs["run"]) - set(runs_of(data, recorded=True)))
    with pytest.raises(Missing, match=r"\+experiment=replay"):
        TABLES["regret"].build(without)
    with pytest.raises(Missing, match=r"\+experiment=trees"):
        TABLES["calibration"].build(without)


def test_a_replay_of_other_trees_is_not_taken_for_this_recording(data: Collection) -> None:
    steps = data.steps.copy()
    replay = steps["run"].isin(runs_of(data, engine="replay", temperature=0.0))
    steps.loc[replay, "drafted"] = 20
    frame = TABLES["regret"].build(replace(data, steps=steps))
    assert set(frame["temperature"]) == {1.0}


def test_a_replay_is_matched_with_the_recording_of_its_own_temperature() -> None:
    """Two recordings with the same steps: only the temperature tells them apart."""
    data = sample_collection((0.0,), ("gsm8k",), (VANILLA, EVICT), 2, 1)
    frames = {
        name: pd.concat([frame, frame.assign(run="x" + frame["run"])], ignore_index=True)
        for name in ("runs", "requests", "steps", "trees")
        if len(frame := getattr(data, name))
    }
    hot = frames["runs"]["run"].str.startswith("x")
    frames["runs"].loc[hot, "temperature"] = 1.0
    frames["runs"].loc[hot, "settings_hash"] += "hot"
    costs = data.costs | {f"x{run}": cost for run, cost in data.costs.items()}
    frame = TABLES["replay_check"].build(replace(data, **frames, costs=costs))
    assert one(frame, temperature=1.0)["recorded"] == "x" + one(frame, temperature=0.0)["recorded"]


def test_a_faithful_replay_differs_nowhere(data: Collection) -> None:
    frame = TABLES["replay_check"].build(data)
    assert len(frame) == 12
    assert frame["steps"].sum() == len(data.trees)
    counts = ["unmatched", "k_differ", "accepted_differ", "committed_differ"]
    assert (frame[counts] == 0).all(axis=None)
    assert frame["mat_live"].tolist() == frame["mat_replayed"].tolist()


def test_one_wrong_k_of_a_replay_is_found(data: Collection) -> None:
    (run,) = runs_of(data, engine="replay", temperature=0.0, benchmark="qa", method="evict")
    steps = data.steps.copy()
    row = steps.index[steps["run"] == run][3]
    steps.loc[row, "verified"] += 1
    frame = TABLES["replay_check"].build(replace(data, steps=steps))
    row = one(frame, temperature=0.0, benchmark="qa")
    assert (row["k_differ"], row["accepted_differ"], row["committed_differ"]) == (1, 0, 0)
    assert frame["k_differ"].sum() == 1


def test_the_main_block_is_the_widest_comparison_and_not_the_sweep(data: Collection) -> None:
    assert set(main_block(data, "torch", 0.0).runs["experiment"]) == {"paper"}
    sweep = tree_size_block(data, "torch", 0.0)
    assert set(sweep.runs["experiment"]) == {"tree_size"}
    assert widths(sweep) == [1, 4, 8, 16, 32]
    few = data.select(set(data.runs["run"]) - set(runs_of(data, experiment="tree_size")))
    with pytest.raises(Missing, match=r"\+experiment=fig1 engine=torch temperature=0"):
        tree_size_block(few, "torch", 0.0)


def test_of_equal_blocks_the_newest_is_the_main_one(data: Collection) -> None:
    paper = data.select(set(runs_of(data, experiment="paper")))
    again = paper.runs.assign(
        run=paper.runs["run"] + "-again", experiment="again", finished_at="2027-01-01T00:00:00Z"
    )
    both = replace(data, runs=pd.concat([data.runs, again], ignore_index=True))
    assert set(main_block(both, "torch", 0.0).runs["experiment"]) == {"again"}

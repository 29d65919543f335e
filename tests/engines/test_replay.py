"""Recording on the lab model and replaying: the live policy exactly, any other step by step."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evict.errors import InputError
from harness.collect import collect
from harness.collection import Collection
from harness.compose import engine_opener
from harness.engines.base import Method, Request
from harness.engines.torch.engine import TorchEngine
from harness.experiment import run
from harness.profiling.cost import profile
from harness.trees import TreeRecord
from tests.engines.methods import method, priced
from tests.support.bench import composed, write_jsonl
from tests.support.bench import rows as rows_of

BENCHMARK = "benchmark=mt_bench"
KEY = ["prompt_id", "turn", "repeat", "step"]
POLICIES = [
    "eagle3",
    "coverage:selection.rho=0.7",
    "fixed_k:selection.k=6",
    "evict_calibrated",
    "evict_noroot",
    "oracle",
]


def run_here(results: Path, *overrides: str) -> None:
    config, methods = composed(
        f"results_dir={results}",
        "stages=[]",
        "machine=shared",
        BENCHMARK,
        "limit=3",
        *overrides,
    )
    outcome = run(config, methods, engine_opener(config), profile)
    assert {result.status for result in outcome.results.values()} == {"ok"}


@pytest.fixture(scope="module")
def results(lab: TorchEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """EVICT live, EVICT recorded, and policies replayed, at both temperatures."""
    folder = tmp_path_factory.mktemp("replayed")
    priced(lab).save(folder / "cost" / "given" / "cost_table.json")
    for temperature in ("temperature=0", "temperature=1"):
        run_here(folder, "+experiment=first_run", "compare=[]", temperature)
        run_here(folder, "+experiment=trees", temperature)
        run_here(folder, "+experiment=replay", temperature, f"compare={POLICIES}")
    return folder


@pytest.fixture(scope="module")
def data(results: Path) -> Collection:
    return collect(results)


def steps(data: Collection, temperature: float, name: str, **where: object) -> pd.DataFrame:
    runs = data.runs[(data.runs["temperature"] == temperature) & (data.runs["method"] == name)]
    for column, value in where.items():
        runs = runs[runs[column] == value]
    assert len(runs) == 1
    return data.steps[data.steps["run"].isin(runs["run"])].sort_values(KEY).reset_index(drop=True)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_replay_of_the_live_policy_is_the_live_run(data: Collection, temperature: float) -> None:
    live = steps(data, temperature, "evict", engine="torch", recorded=True)
    replayed = steps(data, temperature, "evict", engine="replay")
    assert len(live) > 100
    for column in ("drafted", "verified", "accepted", "committed", "expected", "expert_union"):
        assert (live[column] == replayed[column]).all(), column
    assert live["context_len"].tolist() == replayed["context_len"].tolist()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_recording_changes_nothing_but_the_times(data: Collection, temperature: float) -> None:
    plain = steps(data, temperature, "evict", engine="torch", recorded=False)
    recorded = steps(data, temperature, "evict", engine="torch", recorded=True)
    for column in ("verified", "accepted", "committed", "expert_union"):
        assert (plain[column] == recorded[column]).all(), column


def test_policies_order_as_they_must_on_the_same_trees(data: Collection) -> None:
    for temperature in (0.0, 1.0):
        full, oracle, fixed = (
            steps(data, temperature, name, engine="replay")
            for name in ("eagle3", "oracle", "fixed_k")
        )
        assert (full["verified"] == 32).all()
        assert (fixed["verified"] == 6).all()
        assert (full["accepted"] >= oracle["accepted"]).all()
        rate = [
            (one["committed"] / one["total_ms"]).to_numpy()
            for one in (oracle, full, fixed, steps(data, temperature, "evict", engine="replay"))
        ]
        assert all((rate[0] >= other - 1e-12).all() for other in rate[1:])


def test_step_times_of_a_replay_are_the_tables(data: Collection) -> None:
    fixed = data.runs[(data.runs["engine"] == "replay") & (data.runs["method"] == "fixed_k")]
    for run_name in fixed["run"]:
        times = data.steps.loc[data.steps["run"] == run_name, "total_ms"]
        assert (times == data.costs[run_name].step_ms[5]).all()


@pytest.mark.parametrize("k", [1, 3, 7, 20])
def test_one_recording_tells_every_width(lab: TorchEngine, ids: list[int], k: int) -> None:
    """Union and acceptance at k, read off the first recorded tree, are what a run at k sees."""
    for temperature in (0.0, 1.0):
        for seed in range(4):
            prompt = tuple(ids[seed:])
            recorded = lab.generate(
                Request("p", prompt, 8, temperature, record_trees=True), method("eagle3"), seed
            )
            live = lab.generate(Request("p", prompt, 8, temperature), fixed(k), seed)
            tree, step = recorded.trees[0], live.steps[0]
            assert tree.accepted()[k - 1] == step.accepted
            assert tree.union()[k - 1] == pytest.approx(step.expert_union)


def fixed(k: int) -> Method:
    return method(f"fixed_k:selection.k={k}")


def test_tree_rows_survive_the_round_trip(data: Collection) -> None:
    run_name = str(data.runs.loc[data.runs["recorded"], "run"].iloc[0])
    for tree in data.recorded_trees(run_name)[:5]:
        again = TreeRecord.from_row(tree.to_row())
        for name in ("tokens", "parents", "depths", "scores", "experts"):
            assert np.array_equal(getattr(tree, name), getattr(again, name))
        assert (tree.path, tree.verified, tree.committed) == (
            again.path,
            again.verified,
            again.committed,
        )
        assert tree.experts.shape == (32, 12, 4)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("engine.recording=/nowhere",), r"no such recording.*experiment=trees"),
        (("method=vanilla", "compare=[]"), "cannot be replayed"),
        (("method=ddd", "compare=[]", "tune=never"), "no cost table fits"),
    ],
)
def test_what_cannot_be_replayed_says_why(
    results: Path, overrides: tuple[str, ...], message: str
) -> None:
    config, methods = composed(
        f"results_dir={results}",
        "+experiment=replay",
        "stages=[]",
        BENCHMARK,
        "limit=3",
        "machine=shared",
        "compare=[]",
        *overrides,
    )
    try:
        outcome = run(config, methods, engine_opener(config), profile)
    except InputError as error:
        text = str(error)
    else:
        rows = [row for path in outcome.runs for row in rows_of(path)]
        assert {one.status for one in outcome.results.values()} == {"failed"}
        text = str(rows[0]["error_message"])
    assert re.search(message, text), text


def test_another_prompt_than_the_recorded_one_is_refused(results: Path) -> None:
    config, methods = composed(
        f"results_dir={results}",
        "+experiment=replay",
        "stages=[]",
        BENCHMARK,
        "limit=4",
        "machine=shared",
        "compare=[]",
    )
    outcome = run(config, methods, engine_opener(config), profile)
    assert {one.status for one in outcome.results.values()} == {"partial"}
    assert all(one.requests_ok >= 1 for one in outcome.results.values())


def test_a_recorded_id_with_another_text_is_refused(results: Path, tmp_path: Path) -> None:
    recorded = next((results / "trees").glob("*/requests.jsonl")).read_text().splitlines()[0]
    own = json.loads(recorded)["prompt_id"].removeprefix("mt_bench-")
    asked = write_jsonl(tmp_path / "q.jsonl", [{"prompt_id": own, "turns": ["another text"]}])
    config, methods = composed(
        f"results_dir={results}",
        "+experiment=replay",
        "stages=[]",
        BENCHMARK,
        f"benchmark.path={asked}",
        "limit=1",
        "machine=shared",
        "compare=[]",
    )
    (path,) = run(config, methods, engine_opener(config), profile).runs
    assert "not the prompt that was recorded" in str(rows_of(path)[0]["error_message"])

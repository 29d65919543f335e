"""Nothing in a report depends on a number that is invalid: frames, texts, figures, sentences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from harness.collection import Collection
from harness.report.figures import FIGURES
from harness.report.headline import headline
from harness.report.layouts import reservations, texts
from harness.report.notes import notes
from harness.report.spec import Missing
from harness.report.tables import TABLES
from tests.support.collection import sample_collection
from tests.support.sample_evidence import names, under_load, warm_prompts
from tests.support.sample_methods import BEST_FIXED, EAGLE3, EVICT, VANILLA, VANILLA_AA, coverage

METHODS = (VANILLA, VANILLA_AA, EAGLE3, coverage(0.7), BEST_FIXED, EVICT)
MS = ("decode_ms", "prefill_ms", "engine_ms", "wall_ms")


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection((0.0,), ("gsm8k", "qa"), METHODS, 3, 2)


def slower(data: Collection, runs: Sequence[str]) -> Collection:
    """The same verdicts over other numbers: all times of these runs are three times as long."""
    own = {name: getattr(data, name)["run"].isin(set(runs)) for name in ("requests", "steps")}
    requests, steps = data.requests.copy(), data.steps.copy()
    step_times = [name for name in steps if str(name).endswith("_ms")]
    for frame, mask, columns in (
        (requests, own["requests"], list(MS)),
        (steps, own["steps"], step_times),
    ):
        frame.loc[mask, columns] *= 3.0
    slow = data.runs["run"].isin(set(runs))
    wall = data.runs["wall_ms"].where(~slow, 3.0 * data.runs["wall_ms"])
    return replace(data, requests=requests, steps=steps, runs=data.runs.assign(wall_ms=wall))


def miscounted(data: Collection, runs: Sequence[str]) -> Collection:
    """The same verdicts over other times and counts, and other recorded trees."""
    found = slower(data, runs)
    mine = {name: getattr(found, name)["run"].isin(set(runs)) for name in ("steps", "trees")}
    steps, trees = found.steps.copy(), found.trees.copy()
    for name, value in (("accepted", 0), ("committed", 1), ("verified", 2), ("expert_union", 2.5)):
        steps.loc[mine["steps"], name] = value
    scores = [
        [score / 2 for score in row] if own else row
        for row, own in zip(trees["scores"], mine["trees"], strict=True)
    ]
    paths = [[0] if own else row for row, own in zip(trees["path"], mine["trees"], strict=True)]
    return replace(found, steps=steps, trees=trees.assign(scores=scores, path=paths))


def everything(data: Collection) -> dict[str, object]:
    """All that a report says: frames, texts and captions of tables, figures, sentences, notes."""
    frames = {}
    found: dict[str, object] = {}
    for name, spec in TABLES.items():
        try:
            frames[name] = spec.build(data)
        except Missing as gap:
            found[name] = str(gap)
            continue
        found[name] = frames[name].to_csv()
        found[f"{name} in words"] = texts(name, frames[name]), reservations(name, frames[name])
    for name, figure in FIGURES.items():
        try:
            found[f"figure {name}"] = figure.frame(data).to_csv()
        except Missing as gap:
            found[f"figure {name}"] = str(gap)
    found["headline"] = headline(data, frames)
    found["notes"] = notes(frames["summary"], data)
    return found


def differing(one: dict[str, object], other: dict[str, object]) -> set[str]:
    assert one.keys() == other.keys()
    return {name for name in one if one[name] != other[name]}


@pytest.mark.parametrize("method", ["vanilla", "eagle3", "evict"])
def test_nothing_depends_on_a_time_that_is_invalid(data: Collection, method: str) -> None:
    runs = names(data, method=method, recorded=False, engine="torch")
    loaded = under_load(data, runs)
    assert differing(everything(loaded), everything(slower(loaded, runs))) == set()
    if method == "evict":
        changed = differing(everything(data), everything(slower(data, runs)))
        assert {"table1", "table1_speedup", "spread", "summary", "reductions"} <= changed
        assert {"figure speedups", "figure fig6", "figure fig7", "headline", "notes"} <= changed


@pytest.mark.parametrize("method", ["eagle3", "evict"])
def test_nothing_depends_on_a_count_that_is_invalid(data: Collection, method: str) -> None:
    runs = names(data, method=method, engine="torch")
    spoiled = warm_prompts(data, runs)
    assert differing(everything(spoiled), everything(miscounted(spoiled, runs))) == set()
    if method == "evict":
        changed = differing(everything(data), everything(miscounted(data, runs)))
        assert {"mat", "acceptance", "shares", "reductions", "regret"} <= changed
        assert {"calibration", "figure reliability", "figure fig5"} <= changed

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hydra import initialize_config_dir

from harness.config import CONF, register
from harness.stages import stages

pytestmark = pytest.mark.usefixtures("_composing")


@pytest.fixture
def _composing() -> Iterator[None]:
    register()
    with initialize_config_dir(str(CONF), version_base="1.3"):
        yield


def test_a_plain_command_line_is_one_run() -> None:
    (only,) = stages(["method=fixed_k", "limit=3"])
    assert (only.config.method.name, only.config.limit) == ("fixed_k", 3)


def test_the_paper_is_both_temperatures_and_the_smaller_experiments() -> None:
    found = stages(["+experiment=paper"])
    names = [(one.config.name, one.config.temperature, one.config.engine["name"]) for one in found]
    assert names == [
        ("paper", 0.0, "torch"),
        ("paper", 1.0, "torch"),
        ("tree_size", 0.0, "torch"),
        ("trees", 0.0, "torch"),
        ("trees", 1.0, "torch"),
        ("replay", 0.0, "replay"),
        ("replay", 1.0, "replay"),
    ]
    methods = [method.name for method in found[0].methods]
    assert {"vanilla", "lookahead", "eagle3", "ddd", "coverage", "best_fixed", "evict"} <= set(
        methods
    )
    assert found[0].config.repeats >= 3
    assert [one.config.record_trees for one in found] == [False] * 3 + [True] * 2 + [False] * 2


def test_words_of_the_command_line_win_in_every_stage() -> None:
    found = stages(["+experiment=paper", "limit=2", "results_dir=elsewhere"])
    assert {one.config.limit for one in found} == {2}
    assert {one.config.results_dir for one in found} == {"elsewhere"}
    assert found[-1].config.engine["recording"] == "elsewhere/trees"


@pytest.mark.parametrize(
    ("name", "arms", "runs"),
    [
        ("table1", 8, 2),
        ("mat", 3, 2),
        ("fig1", 11, 1),
        ("fig2", 11, 1),
        ("fig5", 3, 2),
        ("fig6", 3, 2),
        ("fig7", 8, 2),
    ],
)
def test_every_experiment_is_one_command(name: str, arms: int, runs: int) -> None:
    found = stages([f"+experiment={name}"])
    assert [len(one.methods) for one in found] == [arms] * runs

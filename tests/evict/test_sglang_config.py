"""What the plugin is told: a file of settings, and policies as plain data."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth, Growth
from evict.selection import CostAware, Coverage, Expected, FixedPrefix, Full, Selection
from evict.sglang.config import VARIABLE, EvictConfig
from evict.sglang.policies import describe_growth, growth_of, policy_of, selection_of

STEPS, TOPK, N = 4, 8, 32


def table(size: int = N, **fingerprint: str) -> CostTable:
    return CostTable((1.0,) * size, 1.0, (0.0,) * size, fingerprint=fingerprint)


def configured(**settings: Any) -> EvictConfig:
    return EvictConfig.from_dict({"costs": {"1": table().to_dict()}, **settings})


def check(config: EvictConfig) -> None:
    config.check(STEPS, TOPK, N)


def test_without_a_variable_the_defaults_ask_for_a_table() -> None:
    config = EvictConfig.load({})
    assert config == EvictConfig()
    with pytest.raises(InputError, match=rf"needs a cost table.*export {VARIABLE}="):
        check(config)


def test_a_file_is_read_and_its_paths_are_relative_to_it(tmp_path: Path) -> None:
    folder = tmp_path / "configured"
    (folder / "session").mkdir(parents=True)
    table(N, model="a").save(folder / "one.json")
    table(40, model="b").save(tmp_path / "four.json")
    costs = {"4": "../four.json", "1": str(folder / "one.json"), "8": table().to_dict()}
    place = folder / "evict.json"
    place.write_text(json.dumps({"costs": costs, "session": "session", "tiers": [1, 8, 32]}))
    config = EvictConfig.load({VARIABLE: str(place)})
    check(config)
    assert config.session is not None
    assert Path(config.session).samefile(folder / "session")
    assert config.tiers == (1, 8, 32)
    assert list(config.cost_tables()) == [1, 4, 8]
    assert [one.fingerprint.get("model") for one in config.cost_tables().values()] == [
        "a",
        "b",
        None,
    ]


@pytest.mark.parametrize("content", [None, "{", "\0", "[1]", '"evict"', "3"])
def test_a_file_that_is_no_object_is_refused(tmp_path: Path, content: str | None) -> None:
    place = tmp_path / "evict.json"
    if content is not None:
        place.write_text(content)
    with pytest.raises(InputError, match=VARIABLE):
        EvictConfig.load({VARIABLE: str(place)})


def test_a_folder_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no readable JSON file"):
        EvictConfig.load({VARIABLE: str(tmp_path)})


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "unknown key": (
        {"polciy": {"name": "full"}},
        "unknown settings; seen: polciy; allowed",
    ),
    "unknown policy": ({"policy": {"name": "evcit"}}, r"unknown policy; seen: 'evcit'.*coverage"),
    "nameless policy": ({"policy": {}}, "unknown policy; seen: None"),
    "unknown parameter": ({"policy": {"name": "full", "k": 3}}, "full: unknown .*seen: k"),
    "missing parameter": ({"policy": {"name": "fixed_k"}}, "fixed_k: .*missing.*seen: k"),
    "rho outside": ({"policy": {"name": "coverage", "rho": 2}}, "0 < rho <= 1"),
    "k above the tree": (
        {"policy": {"name": "fixed_k", "k": 33}},
        r"seen: 33; allowed: whole numbers in 1\.\.32",
    ),
    "unknown growth": ({"growth": {"name": "wide"}}, "unknown growth; seen: 'wide'"),
    "ddd without threshold": ({"growth": {"name": "ddd", "check_depths": [2]}}, "seen: threshold"),
    "depth too deep": (
        {"growth": {"name": "ddd", "threshold": -1, "check_depths": [4]}},
        r"whole numbers in 1\.\.3",
    ),
    "no table": ({"costs": {}}, "needs a cost table"),
    "table that is not there": ({"costs": {"1": "nowhere.json"}}, "no cost table"),
    "table that is none": ({"costs": {"1": {}}}, "schema_version"),
    "short table": ({"costs": {"1": table(31).to_dict()}}, r"shorter.*C\(31\).*C\(32\)"),
    "second table short": (
        {"costs": {"1": table().to_dict(), "4": table(8).to_dict()}},
        r"shorter.*C\(8\)",
    ),
    "table of another batch size": (
        {"costs": {"1": table(N, **{"setting.batch": "4"}).to_dict()}},
        "batch size 1 was measured at another; seen: 4",
    ),
    "batch size zero": ({"costs": {"0": table().to_dict()}}, "batch size; seen: '0'"),
    "batch size in words": ({"costs": {"one": table().to_dict()}}, "batch size; seen: 'one'"),
    "tier zero": ({"tiers": [0, 32]}, r"tiers; seen: 0; allowed: whole numbers in 1\.\.32"),
    "tier above the tree": ({"tiers": [33]}, "tiers; seen: 33"),
    "tier in words": ({"tiers": ["8"]}, "tiers; seen: 8"),
    "tier true": ({"tiers": [True]}, "tiers; seen: True"),
    "graph batch": ({"graph_batches": [1, 0]}, "graph_batches"),
    "agreement": ({"agreement": "vote"}, "agreement; seen: vote; allowed: broadcast, assert, none"),
    "session folder": ({"session": "nowhere"}, "session folder does not exist; seen: nowhere"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_bad_settings_are_refused(name: str) -> None:
    settings, why = REFUSED[name]
    with pytest.raises(InputError, match=why):
        check(configured(**settings))


def test_a_session_brings_the_table_later(tmp_path: Path) -> None:
    check(configured(costs={}, session=str(tmp_path)))
    check(configured(costs={}, policy={"name": "full"}))


SELECTIONS: list[Selection] = [
    CostAware(),
    CostAware(count_root=False),
    Coverage(0.7),
    Coverage(0.4, count_root=False),
    FixedPrefix(5),
    Full(),
    Expected(count_root=False),
]


@pytest.mark.parametrize("selection", SELECTIONS, ids=repr)
def test_policies_round_trip(selection: Selection) -> None:
    described = json.loads(json.dumps(policy_of(selection)))
    assert selection_of(described) == selection


@pytest.mark.parametrize("growth", [FixedDepth(4, 8), DynamicDepth(4, 8, -1.5, [2, 3])], ids=repr)
def test_growths_round_trip(growth: Growth) -> None:
    described = json.loads(json.dumps(describe_growth(growth)))
    assert "steps" not in described
    assert growth_of(described, 4, 8) == growth


def test_a_policy_of_another_kind_cannot_be_described() -> None:
    class Own:
        needs_cost = False

    with pytest.raises(InputError, match="does not know this selection; seen: Own"):
        policy_of(Own())  # type: ignore[arg-type]

"""What a fingerprint holds, what it leaves out, and what differs between two."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.identity import Identity
from harness.validity.comparison import differences
from harness.validity.difference import ABSENT
from harness.validity.fingerprint import fingerprint
from tests.support.recorded_run import FACTS, PROVENANCE

IDENTITY = Identity(
    model={"target": "weights/target", "draft": None},
    method={"selection": {"k": 8}},
    prompts="abc",
    sampling={"temperature": 0.0, "repeats": 3},
    engine={"name": "torch", "record_trees": False},
)
GPU = {
    "index": 0,
    "name": "NVIDIA H100 80GB HBM3",
    "uuid": "GPU-1",
    "driver": "570.86.15",
    "memory_gib": 80.0,
    "power_limit_w": 700.0,
    "temperature_c": 55.0,
}
MACHINE = {**PROVENANCE, "gpus": [GPU], "governor": "performance"}


def made(
    identity: Identity = IDENTITY, read_back: dict[str, str] | None = None, **provenance: Any
) -> dict[str, str]:
    return fingerprint(identity, asdict(FACTS), {**MACHINE, **provenance}, read_back or {})


def test_a_fingerprint_is_flat_text() -> None:
    found = made(read_back={"attention_backend": "fa3"})
    expected = {
        "model.target": "weights/target",
        "prompts": "abc",
        "sampling.temperature": "0.0",
        "engine.record_trees": "false",
        "facts.dtype": "bfloat16",
        "facts.versions.torch": "2.13.0",
        "facts.settings.attention_backend": "triton",
        "effective.attention_backend": "fa3",
        "machine.cpu": "sample processor",
        "machine.governor": "performance",
        "machine.gpus.0.name": "NVIDIA H100 80GB HBM3",
        "machine.gpus.0.power_limit_w": "700.0",
        "packages.torch": "2.13.0",
        "code.commit": "c0ffee",
    }
    assert expected.items() <= found.items()
    assert not any(name.startswith("method") for name in found)
    assert all(isinstance(value, str) for value in found.values())


def test_two_methods_on_one_machine_have_one_fingerprint() -> None:
    other = replace(IDENTITY, method={"selection": {"k": 60}})
    assert differences(made(), made(other)) == []


@pytest.mark.parametrize(
    ("first", "second", "name"),
    [
        ({}, {"cpu": "another"}, "machine.cpu"),
        ({}, {"cores": 2}, "machine.cores"),
        ({}, {"gpus": [{**GPU, "power_limit_w": 500.0}]}, "machine.gpus.0.power_limit_w"),
        ({}, {"gpus": [{**GPU, "driver": "535"}]}, "machine.gpus.0.driver"),
        ({}, {"packages": {"torch": "2.14.0"}}, "packages.torch"),
        ({"threads": {"OMP_NUM_THREADS": "1"}}, {"threads": {"OMP_NUM_THREADS": "2"}}, None),
        ({"read_back": {"page_size": "1"}}, {"read_back": {"page_size": "64"}}, None),
    ],
)
def test_a_setting_that_changes_a_speed_sets_runs_apart(
    first: dict[str, Any], second: dict[str, Any], name: str | None
) -> None:
    (found,) = differences(made(**first), made(**second))
    assert found.name == (name or found.name)
    assert found.first != found.second


@pytest.mark.parametrize(
    "changed",
    [
        {"gpus": [{**GPU, "uuid": "GPU-2", "temperature_c": 80.0}]},
        {"load_average": [9.0, 9.0, 9.0]},
        {"packages": {**PROVENANCE["packages"], "pandas": "4.0"}},
        {"git": {"commit": "decaf", "dirty": True, "diff_hash": "1"}},
        {"threads": {"CUDA_VISIBLE_DEVICES": "3"}},
        {"read_back": {"speculative_num_steps": "7", "port": "30001"}},
    ],
)
def test_what_changes_no_speed_sets_nothing_apart(changed: dict[str, Any]) -> None:
    assert differences(made(), made(**changed)) == []


def test_no_path_of_a_machine_is_kept() -> None:
    found = made(read_back={"model_path": "/somewhere/else/weights"})
    assert found["effective.model_path"] == "weights"


TEXTS = st.dictionaries(st.sampled_from(["a", "b.c", "prompts", "code.commit"]), st.text())


@given(TEXTS, TEXTS)
def test_differences_are_the_names_whose_values_differ(
    one: dict[str, str], two: dict[str, str]
) -> None:
    found = {each.name: (each.first, each.second) for each in differences(one, two)}
    names = (one.keys() | two.keys()) - {"code.commit"}
    expected = {name: (one.get(name, ABSENT), two.get(name, ABSENT)) for name in names}
    assert found == {name: pair for name, pair in expected.items() if pair[0] != pair[1]}
    assert [each.name for each in differences(two, one)] == list(found)

from __future__ import annotations

import json
from typing import Any

import pynvml
import pytest

from harness.config import ROOT
from harness.facts import without_paths
from harness.identity import machine_hash
from harness.provenance import collect_provenance
from tests.support.fake_nvml import LOST, NOT_SUPPORTED, FakeGpu, FakeNvml

READ_BY_REPORTS = {"python", "platform", "packages", "cpu", "cores", "load_average", "git", "gpus"}


def strings(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [text for each in value.values() for text in strings(each)]
    if isinstance(value, list):
        return [text for each in value for text in strings(each)]
    return [value] if isinstance(value, str) else []


def test_it_is_plain_data_without_a_path_of_this_machine() -> None:
    told = collect_provenance(FakeNvml([FakeGpu(processes=(4242,))]))
    assert json.loads(json.dumps(told)) == told
    assert set(told) >= READ_BY_REPORTS
    assert not [text for text in strings(told) if text.startswith("/") or str(ROOT) in text]
    assert without_paths(told) == told


def test_every_fact_that_is_missing_has_its_reason_beside_it() -> None:
    told = collect_provenance(FakeNvml([FakeGpu(power_w=NOT_SUPPORTED, uuid=LOST)]))
    missing = {key for key, value in told.items() if value is None} - {"gpus_reason"}
    assert missing == set(told["absent"])
    (facts,), (state,) = told["gpus"], told["gpu_state"]
    unread = {key for key, value in {**facts, **state}.items() if value is None}
    assert unread == set(state["absent"]) == {"uuid", "power_w"}
    assert (told["git"]["commit"] is None) == (told["git"]["reason"] is not None)


@pytest.mark.parametrize("error", [None, pynvml.NVML_ERROR_DRIVER_NOT_LOADED])
def test_a_machine_without_gpus_says_why(error: int | None) -> None:
    init = None if error is None else pynvml.NVMLError(error)
    told = collect_provenance(FakeNvml([], init=init))
    assert (told["gpus"], told["gpu_state"]) == ([], [])
    assert told["gpus_reason"]


def test_parts_of_one_run_on_one_machine_have_equal_hashes() -> None:
    """What moves lies apart from what a machine is known by."""
    moving = FakeGpu(
        clock_mhz=[345, 1980],
        power_w=[70, 640],
        energy_j=[10, 9000],
        busy=[0, 1],
        temperature_c=[31, 84],
        memory_used_mib=[0, 0, 60_000],
        throttle=[0, pynvml.nvmlClocksEventReasonSwThermalSlowdown],
        processes=[(), (77,)],
        persistent=[False, True],
    )
    nvml = FakeNvml([moving])
    first, second = collect_provenance(nvml), collect_provenance(nvml)
    assert first["gpu_state"] != second["gpu_state"]
    assert machine_hash(first) == machine_hash(second)
    assert nvml.opened == 0


@pytest.mark.parametrize(
    "other",
    [
        FakeGpu(power_limit_w=500),
        FakeGpu(name="NVIDIA H200"),
        FakeGpu(uuid="GPU-other"),
        FakeGpu(clock_max_mhz=1755),
    ],
)
def test_another_gpu_or_another_limit_is_another_machine(other: FakeGpu) -> None:
    here, there = collect_provenance(FakeNvml()), collect_provenance(FakeNvml([other]))
    assert machine_hash(here) != machine_hash(there)


def test_the_commit_is_that_of_this_repository() -> None:
    git = collect_provenance(FakeNvml())["git"]
    if not (ROOT / ".git").exists():
        pytest.skip("not a checkout")
    assert len(git["commit"]) == 40
    assert git["dirty"] or git["diff_hash"] is None

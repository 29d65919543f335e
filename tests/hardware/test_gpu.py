from __future__ import annotations

from dataclasses import asdict, fields

import pynvml
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.hardware.gpu import Gpu, GpuReading, find_gpus, open_gpus, visible_indices
from tests.support.fake_nvml import LOST, NOT_SUPPORTED, FakeGpu, FakeNvml

UUIDS = ["GPU-aaaa", "GPU-abbb", "GPU-cccc"]
FIELDS = [field.name for field in fields(FakeGpu)]


def only(gpu: FakeGpu, **nvml: object) -> Gpu:
    return open_gpus(FakeNvml([gpu], **nvml)).gpus[0]  # type: ignore[arg-type]


def test_a_reading_is_in_units_that_its_names_say() -> None:
    gpu = FakeGpu(
        clock_mhz=1410,
        power_w=312.5,
        energy_j=99.25,
        busy=0.37,
        memory_used_mib=512,
        processes=(7,),
    )
    assert only(gpu).read([]) == GpuReading(1410, 312.5, 99.25, 0.37, 512, 55, "", 1)


def test_facts_hold_nothing_that_changes_from_moment_to_moment() -> None:
    moving = FakeGpu(
        clock_mhz=[210, 1980],
        power_w=[60, 690],
        energy_j=[1, 2],
        busy=[0, 1],
        temperature_c=[30, 80],
        memory_used_mib=[1, 2, 3, 4],
        throttle=[0, pynvml.nvmlClocksEventReasonHwSlowdown],
        processes=[(), (5,)],
        persistent=[False, True],
    )
    gpu = only(moving)
    before, first = gpu.facts(), gpu.state([])
    assert gpu.facts() == before
    assert {key for key, value in gpu.state([]).items() if value == first[key]} == {
        "index",
        "absent",
    }
    assert before["driver"] == "570.86.15"
    assert before["power_limit_w"] == 700
    assert before["memory_gib"] == 80


@given(broken=st.sets(st.sampled_from(FIELDS)))
def test_what_is_not_told_is_none_with_the_reason_and_the_rest_is_still_read(
    broken: set[str],
) -> None:
    gpu = only(FakeGpu(**{name: NOT_SUPPORTED for name in broken}))
    told = {**gpu.facts(), **gpu.state([])}
    reasons = told.pop("absent")
    unread = {name for name, value in told.items() if value is None}
    assert {name.removesuffix("_processes") for name in unread} == set(reasons)
    assert set(reasons.values()) <= {"Not Supported"}
    assert bool(unread) == bool(broken - {"throttle_older"})


def test_a_value_that_comes_back_loses_its_reason() -> None:
    gpu = only(FakeGpu(clock_mhz=[LOST, 1200]))
    assert gpu.read([]).clock_mhz is None
    assert gpu.absent == {"clock_mhz": "GPU is lost"}
    assert gpu.read([]).clock_mhz == 1200
    assert gpu.absent == {}


@pytest.mark.parametrize(
    ("bits", "words"),
    [
        (0, ""),
        (pynvml.nvmlClocksEventReasonGpuIdle, ""),
        (pynvml.nvmlClocksEventReasonApplicationsClocksSetting, ""),
        (pynvml.nvmlClocksEventReasonHwThermalSlowdown, "hw_thermal"),
        (
            pynvml.nvmlClocksEventReasonSwPowerCap | pynvml.nvmlClocksEventReasonSwThermalSlowdown,
            "sw_power_cap,sw_thermal",
        ),
    ],
)
def test_throttling_is_named_and_idling_is_none(bits: int, words: str) -> None:
    assert only(FakeGpu(throttle=bits)).read([]).throttle == words


def test_an_older_driver_is_asked_for_throttling_by_its_older_name() -> None:
    unknown = pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
    older = FakeGpu(throttle=unknown, throttle_older=pynvml.nvmlClocksThrottleReasonSyncBoost)
    assert only(older).read([]).throttle == "sync_boost"


def test_own_processes_are_not_foreign() -> None:
    gpu = only(FakeGpu(processes=(10, 11, 12)))
    assert gpu.read({10, 12}).foreign == 1
    assert gpu.foreign_processes({10, 12}) == ["process-11"]
    assert gpu.read({10, 11, 12}).foreign == 0


def test_a_process_of_another_namespace_makes_foreign_unknown_and_never_none_at_all() -> None:
    gpu = only(FakeGpu(processes=(10, 11)), unseen=frozenset({11}))
    assert gpu.read({10}).foreign is None
    assert "11" in gpu.absent["foreign"]


@pytest.mark.parametrize(
    ("nvml", "reason"),
    [
        (FakeNvml(init=pynvml.NVMLError(pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)), "no NVIDIA driver"),
        (FakeNvml(init=pynvml.NVMLError(pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH)), "mismatch"),
        (FakeNvml(driver=LOST), "NVML: GPU is lost"),
        (FakeNvml([]), "sees no GPU"),
    ],
)
def test_without_a_usable_driver_there_is_a_reason_and_nothing_stays_open(
    nvml: FakeNvml, reason: str
) -> None:
    session = open_gpus(nvml)
    assert session.gpus == []
    assert reason in str(session.reason)
    session.close()
    assert nvml.opened == 0


def test_a_session_is_closed_once_however_often_it_is_told() -> None:
    nvml = FakeNvml()
    kept, closed = open_gpus(nvml), open_gpus(nvml)
    closed.close()
    closed.close()
    assert kept.gpus[0].read([]).clock_mhz == 1980


@pytest.mark.parametrize(
    ("setting", "shown"),
    [
        ("0,2", [0, 2]),
        ("2, 0", [2, 0]),
        ("GPU-c", [2]),
        ("", []),
        ("-1", []),
        ("0,7,1", [0]),
        ("GPU-a", []),  # starts two of them: CUDA refuses it too
        ("MIG-GPU-aaaa/0/0", [0, 1, 2]),
    ],
)
def test_only_gpus_that_cuda_would_show_are_ours(setting: str, shown: list[int]) -> None:
    assert visible_indices(setting, UUIDS) == shown
    nvml = FakeNvml([FakeGpu(uuid=uuid) for uuid in UUIDS])
    session = open_gpus(nvml, {"CUDA_VISIBLE_DEVICES": setting})
    assert [gpu.index for gpu in session.gpus] == shown
    assert (session.reason is None) == bool(shown)


def test_texts_may_come_as_bytes() -> None:
    facts = only(FakeGpu(name=b"NVIDIA A100", uuid=b"GPU-1"), driver=b"470.1").facts()
    assert (facts["name"], facts["uuid"], facts["driver"]) == ("NVIDIA A100", "GPU-1", "470.1")


def test_the_real_driver_is_asked_without_raising() -> None:
    session, found = open_gpus(), find_gpus()
    assert len(session.gpus) == len(found.memory_gib)
    assert bool(session.gpus) == (session.reason is None)
    assert all(asdict(gpu.read([])) for gpu in session.gpus)
    session.close()

"""The stand-in must not drift from the module it stands for."""

from __future__ import annotations

import inspect

import pynvml
import pytest

from tests.support.fake_nvml import FakeGpu, FakeNvml

CALLS = [name for name in vars(FakeNvml) if name.startswith("nvml")]


@pytest.mark.parametrize("name", CALLS)
def test_every_call_exists_in_pynvml_with_as_many_arguments(name: str) -> None:
    wanted = inspect.signature(getattr(pynvml, name)).parameters.values()
    required = [each for each in wanted if each.default is each.empty]
    assert len(inspect.signature(getattr(FakeNvml(), name)).parameters) == len(required)


def test_a_list_gives_one_value_a_call_and_its_last_for_ever() -> None:
    nvml = FakeNvml([FakeGpu(temperature_c=[40, 50])])
    nvml.nvmlInit()
    read = [nvml.nvmlDeviceGetTemperature(nvml.gpus[0], pynvml.NVML_TEMPERATURE_GPU) for _ in "123"]
    assert read == [40, 50, 50]


def test_nothing_answers_before_it_is_initialised() -> None:
    with pytest.raises(pynvml.NVMLError_Uninitialized):
        FakeNvml().nvmlDeviceGetCount()

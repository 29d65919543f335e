"""Devices: conf/hardware is complete, wrong numbers are refused, this machine can be measured."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest

from evict.errors import InputError
from harness.simulate.hardware import FOLDER, from_document, load_hardware

NAMES = sorted(file.stem for file in FOLDER.glob("*.yaml") if file.stem != "this")


@pytest.mark.parametrize("name", NAMES)
def test_every_device_loads_and_names_itself(name: str) -> None:
    assert load_hardware(name).name == name
    source = (FOLDER / f"{name}.yaml").read_text()
    assert "data sheet" in source


def test_a_newer_device_is_no_slower() -> None:
    for older, newer in zip(["a100_80", "h100", "h200"], ["h100", "h200", "b200"], strict=True):
        old, new = load_hardware(older), load_hardware(newer)
        assert new.move_ms(1e9) < old.move_ms(1e9)
        assert new.multiply_ms(1e12) <= old.multiply_ms(1e12)
        assert new.reduce_ms(1e6, 8) <= old.reduce_ms(1e6, 8)


def test_units_of_the_data_sheet() -> None:
    device = replace(load_hardware("a100_80"), bandwidth_efficiency=1.0, matrix_efficiency=1.0)
    assert device.move_ms(2039e9) == pytest.approx(1000.0)
    assert device.multiply_ms(312e12) == pytest.approx(1000.0)
    assert device.reduce_ms(1e6, 1) == 0.0
    assert device.reduce_ms(0.0, 2) == pytest.approx(device.collective_us / 1e3)


def test_unknown_hardware_lists_the_known_and_this_machine() -> None:
    with pytest.raises(InputError) as raised:
        load_hardware("tpu")
    assert raised.value.seen == "tpu"
    assert raised.value.allowed == ", ".join([*NAMES, "this"])
    assert raised.value.hint == "hardware=a100_80"


@pytest.mark.parametrize(
    ("name", "value"),
    [("bandwidth_gb_s", 0), ("matrix_tflops", "fast"), ("bandwidth_efficiency", 1.5),
     ("kernel_us", -1), ("matrix_efficiency", 0), ("memory_gib", True)],
)  # fmt: skip
def test_a_number_that_cannot_be_is_refused(name: str, value: object) -> None:
    document = {**asdict(load_hardware("h100")), name: value}
    with pytest.raises(InputError, match=name):
        from_document(document, "h100.yaml")


def test_a_misspelt_entry_is_refused() -> None:
    document = asdict(load_hardware("h100"))
    document["bandwith_gb_s"] = document.pop("bandwidth_gb_s")
    with pytest.raises(InputError, match=r"bandwidth_gb_s, bandwith_gb_s"):
        from_document(document, "h100.yaml")


def test_this_machine_is_measured_not_looked_up() -> None:
    device = load_hardware("this")
    assert device.memory_gib > 0.5
    assert device.move_ms(1e9) > 0
    assert device.kernel_us > 0
    assert device.multiply_ms(1e9) > 0

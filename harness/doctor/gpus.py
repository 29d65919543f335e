"""GPUs: what they are, how they are set, who else uses them."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from harness.doctor.check import BAD, OK, WARN, Check, Here
from harness.hardware.gpu import Gpu, GpuSession, open_gpus
from harness.hardware.processes import own_pids


def gpus(here: Here) -> list[Check]:
    """A line per GPU and one per trouble with it."""
    session = open_gpus()
    try:
        return gpu_lines(session, own_pids())
    finally:
        session.close()


def gpu_lines(session: GpuSession, mine: Collection[int]) -> list[Check]:
    """mine: processes that are ours. No GPU at all is no fault: the processor can be measured."""
    if not session.gpus:
        return [Check("GPU", OK, f"none ({session.reason}): only what runs on the processor")]
    return [line for gpu in session.gpus for line in _lines(gpu, mine)]


def _lines(gpu: Gpu, mine: Collection[int]) -> list[Check]:
    facts, name = gpu.facts(), f"GPU {gpu.index}"
    state = gpu.state(mine)
    about = ", ".join(
        [
            str(facts["name"]),
            _of(facts["memory_gib"], None, "GiB"),
            _of(state["clock_mhz"], facts["clock_max_mhz"], "MHz"),
            _of(state["power_w"], facts["power_limit_w"], "W"),
            _of(state["temperature_c"], None, "°C"),
            f"driver {facts['driver']}",
        ]
    )
    return [Check(name, OK, about), *(Check(name, *trouble) for trouble in _troubles(facts, state))]


def _of(value: float | None, most: float | None, unit: str) -> str:
    known = "?" if value is None else f"{value:.0f}"
    return f"{known} {unit}" if most is None else f"{known} of {most:.0f} {unit}"


def _troubles(facts: dict[str, Any], state: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    index, foreign = facts["index"], state["foreign_processes"]
    if foreign is None:
        yield WARN, f"others may use it: {state['absent']['foreign']}", "look with nvidia-smi"
    elif foreign:
        names = ", ".join(foreign)
        yield BAD, f"others use it: {names}", "end them, or CUDA_VISIBLE_DEVICES=ANOTHER"
    if state["throttle"]:
        yield WARN, f"its clocks are lowered: {state['throttle']}", "nvidia-smi -q -d PERFORMANCE"
    limit, usual = facts["power_limit_w"], facts["power_default_w"]
    if limit is not None and usual is not None and limit < usual:
        hint = f"sudo nvidia-smi -i {index} -pl {usual:.0f}"
        yield WARN, f"power is limited to {limit:.0f} W, {usual:.0f} W by default", hint
    if state["persistence"] is False:
        yield WARN, "its driver unloads when idle", f"sudo nvidia-smi -i {index} -pm 1"
    for key, what in (("energy_j", "energy counter"), ("clock_mhz", "clock")):
        if state[key] is None:
            yield WARN, f"its {what} cannot be read: {state['absent'][key]}", ""

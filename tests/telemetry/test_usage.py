"""What a run's windows add up to, from frames as files hold them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.telemetry.usage import Usage, usages
from tests.support.readings import requests, telemetry, window

TICK_S = 0.01


def of(frame: pd.DataFrame, generations: int, tokens: int = 9) -> Usage:
    rows = requests({f"p{index}": tokens for index in range(generations)})
    return usages(frame, rows)["run"]


def cpu_run(durations: list[float], others: list[float], phase: float = 0.0) -> pd.DataFrame:
    """One own core busy; `others` cores busy besides; counters in whole ticks, as the kernel's."""
    windows, now, own, machine = [], 0.0, phase, 3 * phase
    for index, (seconds, cores) in enumerate(zip(durations, others, strict=True)):
        ends = [now, now + seconds]
        own_s, machine_s = [own, own + seconds], [machine, machine + (1 + cores) * seconds]
        windows.append(
            window(
                ends,
                f"p{index}",
                "cpu",
                own_cpu_s=[_ticks(value) for value in own_s],
                machine_cpu_s=[_ticks(value) for value in machine_s],
            )
        )
        now, own, machine = ends[1] + 0.013, own_s[1] + 0.007, machine_s[1] + 0.011
    return telemetry(*windows)


def _ticks(seconds: float) -> float:
    return float(np.floor(seconds / TICK_S) * TICK_S)


@settings(deadline=None, max_examples=60)
@given(
    st.lists(st.floats(0.05, 0.9), min_size=12, max_size=60),
    st.floats(0, 1.5),
    st.floats(0, 1),
)
def test_others_are_known_better_than_a_tick_per_generation(
    durations: list[float], cores: float, phase: float
) -> None:
    """A tick more or less is a fifth of a core in 0.05 s, and a false verdict on two cores."""
    found = of(cpu_run(durations, [cores] * len(durations), phase), len(durations))
    if sum(durations) < 0.5:
        assert found.others_cores is None
    else:
        worst = 2 * TICK_S * len(durations) / sum(durations)
        assert found.others_cores == pytest.approx(cores, abs=min(worst, 0.2))


def test_others_of_one_disturbance_and_of_a_shared_machine() -> None:
    durations = [0.4] * 50
    once = [2.0 if 10 <= index < 15 else 0.0 for index in range(50)]
    assert of(cpu_run(durations, once), 50).others_cores == pytest.approx(0.0, abs=0.03)
    shared = [0.0 if 10 <= index < 15 else 0.6 for index in range(50)]
    assert of(cpu_run(durations, shared), 50).others_cores == pytest.approx(0.6, abs=0.03)


def test_others_are_never_fewer_than_nobody() -> None:
    """Own ticks that the machine has not counted yet."""
    ends = [0.0, 1.0]
    ahead = window(ends, "p0", "cpu", own_cpu_s=[0.0, 1.0], machine_cpu_s=[0.0, 0.98])
    assert of(telemetry(ahead), 1).others_cores == 0.0


def test_others_are_unknown_in_a_blink_and_without_a_reading() -> None:
    assert of(cpu_run([0.1] * 4, [2.0] * 4), 4).others_cores is None
    unread = window([0.0, 9.0], "p0", "cpu", own_cpu_s=[0.0, 1.0])
    assert of(telemetry(unread), 1).others_cores is None


def test_processor_time_and_memory_are_of_windows_only() -> None:
    frame = telemetry(
        window([0, 1], "p0", "cpu", own_cpu_s=[5.0, 5.9], memory_mib=[400.0, 640.0]),
        window([9, 10], "p1", "cpu", own_cpu_s=[50.0, 51.1], memory_mib=[500.0, 480.0]),
    )
    found = of(frame, 2)
    assert found.cpu_s == pytest.approx(2.0)
    assert found.memory_peak_mib == 640.0
    assert of(frame, 3).cpu_s is None, "a generation was not read"


def test_clocks_are_those_of_busy_samples() -> None:
    """Careless: idle clocks between kernels pull the median down."""
    frame = telemetry(
        window(
            [0, 0.2, 0.4, 0.6, 0.8],
            "p0",
            clock_mhz=[345, 1980, 1965, 345, 345],
            busy=[0.0, 0.9, 0.8, 0.05, 0.0],
        )
    )
    found = of(frame, 1)
    assert (found.gpu_clock_mhz, found.busy_samples, found.busy_share) == (1972.5, 2, 0.4)


def test_throttling_temperature_and_others_are_the_worst_seen() -> None:
    frame = telemetry(
        window(
            [0, 1, 2],
            "p0",
            throttle=["", "sw_thermal,sw_power_cap", "sw_power_cap"],
            temperature_c=[60, 88, 71],
            foreign=[0, 2, 1],
            busy=[0.5] * 3,
        )
    )
    found = of(frame, 1)
    assert found.throttle == ("sw_power_cap", "sw_thermal")
    assert (found.temperature_c_max, found.foreign) == (88.0, 2)


@pytest.mark.parametrize(
    ("seen", "foreign"), [([0, 0], 0), ([0, None], None), ([None, None], None), ([None, 1], 1)]
)
def test_nobody_else_is_claimed_only_when_always_told(
    seen: list[int | None], foreign: int | None
) -> None:
    assert of(telemetry(window([0, 1], "p0", foreign=seen)), 1).foreign == foreign


def test_gpus_that_stood_idle_beside_the_run_are_left_out() -> None:
    """One of two GPUs was used: the other's joules, memory, idle samples are not the run's."""
    ends = [0.0, 1.0]
    used = window(ends, "p0", "gpu0", energy_j=[0, 300], memory_mib=[900, 950], busy=[0.8, 0.9])
    idle = window(ends, "p0", "gpu1", energy_j=[0, 70], memory_mib=[4, 4], busy=[0.0, 0.01])
    untold = window(ends, "p0", "gpu2", energy_j=[0, 5], memory_mib=[50, 50])
    found = of(telemetry(used, idle), 1)
    assert (found.energy_j, found.energy_source, found.gpu_memory_peak_mib) == (300, "gpu0", 950)
    assert found.busy_share == 1.0
    assert of(telemetry(used, untold), 1).energy_j == 305
    assert of(telemetry(idle), 1).energy_j == 70


def test_failed_rows_are_left_out() -> None:
    frame = telemetry(
        window([0, 1], "p0", "cpu", own_cpu_s=[0, 1], memory_mib=[100, 100]),
        window([1, 9], "p1", "cpu", own_cpu_s=[1, 9], memory_mib=[900, 900]),
    )
    found = usages(frame, requests({"p0": 9, "p1": None}))["run"]
    assert (found.cpu_s, found.memory_peak_mib) == (1.0, 100.0)


def test_every_run_has_a_usage_and_keeps_to_its_own_rows() -> None:
    """Runs share prompt ids; rows of windows and of runs may be mixed; one was never sampled."""
    both = telemetry(
        window([0, 1], "p0", "gpu0", "a", energy_j=[0, 10], busy=[1, 1]),
        window([0, 1], "p0", "gpu0", "b", energy_j=[0, 30], busy=[1, 1]),
        window([2, 3], "p1", "gpu0", "a", energy_j=[10, 15], busy=[1, 1]),
        window([2, 3], "p1", "gpu0", "b", energy_j=[30, 50], busy=[1, 1]),
    )
    rows = pd.concat([requests({"p0": 9, "p1": 9}, run) for run in ("b", "a", "replayed")])
    shuffled = rows.sort_values(["prompt_id", "run"])
    found = usages(both.iloc[[0, 2, 4, 6, 1, 3, 5, 7]], shuffled)
    assert {run: usage.energy_j for run, usage in found.items()} == {
        "a": 15.0,
        "b": 50.0,
        "replayed": None,
    }
    assert found["replayed"] == Usage(energy_reason="no telemetry")
    assert usages(pd.DataFrame(), rows)["a"] == Usage(energy_reason="no telemetry")


def test_the_clock_that_went_back_gives_no_energy_from_power() -> None:
    found = of(telemetry(window([5.0, 6.0, 4.5], "p0", power_w=[100.0] * 3)), 1)
    assert found.energy_j is None
    assert found.energy_reason is not None
    assert "the clock went back 1.5 s" in found.energy_reason


def test_joules_per_token_need_every_count() -> None:
    rows = requests({"p0": 9})
    frame = telemetry(window([0, 1], "p0", energy_j=[0, 10]))
    assert usages(frame, rows)["run"].j_per_token == 1.0
    uncounted = rows.assign(decode_tokens=None)
    found = usages(frame, uncounted)["run"]
    assert (found.energy_j, found.j_per_token) == (10.0, None)


def test_columns_that_nobody_read_survive_the_file(tmp_path: Path) -> None:
    """A column of nothing but None has no type; a CPU run's file is full of them."""
    frame = telemetry(
        window([0, 1], "p0", "cpu", own_cpu_s=[0.0, 1.0], machine_cpu_s=[0.0, 1.5]),
        window([1, 2], "p1", "gpu0", energy_j=[0.0, 5.0], throttle=["", "sw_thermal"]),
    )
    for rows in (frame, frame[frame["device"] == "cpu"]):
        rows.to_parquet(tmp_path / "telemetry.parquet", index=False)
        read = pd.read_parquet(tmp_path / "telemetry.parquet")
        assert of(read, 1) == of(rows, 1)
        assert of(read, 1).others_cores == pytest.approx(0.5)

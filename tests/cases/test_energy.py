"""Case 48: energy with holes gives no number, and joules belong to committed tokens."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Clock
from harness.telemetry.sampler import open_telemetry
from harness.telemetry.usage import Usage, usages
from tests.support.fake_clock import FakeClock
from tests.support.fake_nvml import NOT_SUPPORTED, FakeGpu, FakeNvml
from tests.support.readings import requests, telemetry, window

AT_S = [0.0, 1.0, 2.0, 7.0, 8.0]
WATTS = [100.0, 100.0, 400.0, 400.0, 100.0]


def one(*windows: list[dict[str, object]], tokens: int = 9) -> Usage:
    """The usage of a run with a single generation."""
    return usages(telemetry(*windows), requests({"p0": tokens}))["run"]


def test_case_48_a_gap_gives_no_energy() -> None:
    """Careless: the plain trapezoid, 2600 J although 5 s are unseen."""
    assert np.trapezoid(WATTS, AT_S) == 2600.0
    found = one(window(AT_S, power_w=WATTS))
    assert (found.energy_j, found.j_per_token, found.energy_source) == (None, None, None)
    assert found.energy_reason == "gap 5.0 s (gpu0, 1 of 1 generations)"


@given(
    st.lists(st.floats(0.01, 4.5), min_size=1, max_size=8),
    st.lists(st.floats(0, 700), min_size=9, max_size=9),
)
def test_case_48_power_counts_up_to_three_seconds_apart(
    gaps: list[float], watts: list[float]
) -> None:
    """Careless: a limit on the mean gap, or on the whole window."""
    at_s = [0.0, *np.cumsum(gaps).tolist()]
    found = one(window(at_s, power_w=watts[: len(at_s)]))
    if np.diff(np.multiply(at_s, 1e3)).max() > 3000.0:
        assert found.energy_j is None
    else:
        assert found.energy_j == pytest.approx(np.trapezoid(watts[: len(at_s)], at_s))


def test_case_48_the_counter_is_preferred() -> None:
    """Careless: power integrated although the GPU counts, and the gap held against the counter."""
    counter = [5000.0, 5100.0, 5300.0, 7000.0, 7200.0]
    found = one(window(AT_S, power_w=WATTS, energy_j=counter))
    assert (found.energy_j, found.energy_reason) == (2200.0, None)


@pytest.mark.parametrize("counter", [[900.0, 950.0, 30.0], [900.0, 40.0, 1000.0]])
def test_case_48_a_counter_that_goes_back_is_invalid(counter: list[float]) -> None:
    """Careless: a negative energy; its absolute value; the trapezoid, as if nothing had been."""
    found = one(window([0.0, 1.0, 2.0], power_w=[100.0] * 3, energy_j=counter))
    assert found.energy_j is None
    assert found.energy_reason == "the energy counter went back (gpu0, 1 of 1 generations)"


def test_case_48_two_gpus_add_up_and_the_processor_stays_out() -> None:
    """Careless: the first GPU alone, their mean, or the host's package on top."""
    ends = [0.0, 1.0]
    found = one(
        window(ends, device="cpu", energy_j=[0.0, 60.0]),
        window(ends, device="gpu0", energy_j=[1000.0, 1300.0]),
        window(ends, device="gpu1", energy_j=[7000.0, 7200.0]),
    )
    assert (found.energy_j, found.energy_source) == (500.0, "gpu0 + gpu1")
    alone = one(window(ends, device="cpu", energy_j=[0.0, 60.0]))
    assert (alone.energy_j, alone.energy_source) == (60.0, "cpu")


def test_case_48_a_hole_in_one_gpu_leaves_no_partial_sum() -> None:
    """Careless: what was read added up, as if the second GPU had drawn nothing."""
    ends = [0.0, 1.0]
    found = one(
        window(ends, device="gpu0", energy_j=[1000.0, 1300.0]),
        window(ends, device="gpu1"),
    )
    assert found.energy_j is None
    assert found.energy_reason == "energy was not read (gpu1, 1 of 1 generations)"


def test_case_48_a_generation_without_samples_leaves_no_partial_sum() -> None:
    """Careless: the joules of one generation over the tokens of two."""
    rows = requests({"p0": 9, "p1": 9})
    seen = window([0.0, 1.0], "p0", energy_j=[0.0, 300.0])
    found = usages(telemetry(seen), rows)["run"]
    assert (found.energy_j, found.j_per_token) == (None, None)
    assert found.energy_reason == "no sample (gpu0, 1 of 2 generations)"
    unread = window([2.0, 3.0], "p1")
    found = usages(telemetry(seen, unread), rows)["run"]
    assert found.energy_reason == "energy was not read (gpu0, 1 of 2 generations)"


def test_case_48_every_generation_is_read_in_its_own_way() -> None:
    """Careless: power that is missing in the next generation spoils the last step of this one."""
    frame = telemetry(
        window([0.0, 1.0], "p0", power_w=[100.0, 100.0]),
        window([1.0, 2.0], "p1", energy_j=[0.0, 70.0]),
    )
    assert usages(frame, requests({"p0": 9, "p1": 9}))["run"].energy_j == 170.0


def test_case_48_joules_per_token_are_over_committed_tokens_of_good_rows() -> None:
    """Careless: decode tokens alone (prefill made one too), or a failed row's joules counted."""
    rows = requests({"p0": 99, "p1": 49, "broken": None})
    found = usages(
        telemetry(
            window([0.0, 1.0], "p0", energy_j=[0.0, 200.0]),
            window([1.0, 9.0], "broken", energy_j=[200.0, 5000.0]),
            window([9.0, 10.0], "p1", energy_j=[5000.0, 5100.0]),
        ),
        rows,
    )["run"]
    assert (found.energy_j, found.j_per_token) == (300.0, 300.0 / (99 + 49 + 2))


@pytest.mark.parametrize("counts", [True, False])
def test_case_48_the_window_is_the_measured_section(counts: bool) -> None:
    """Careless: joules since the engine was started, warm-up and pauses included.

    200 W in warm-up and pauses, 100 W in two generations of 2 s: 400 J, by either way of reading.
    """
    now, gpu = FakeClock(), FakeGpu(power_w=200.0, energy_j=1000.0 if counts else NOT_SUPPORTED)
    sampler = open_telemetry("NVIDIA H100", Clock(now), 60.0, FakeNvml([gpu]))

    def spend(seconds: float, watts: float) -> None:
        now.advance(seconds)
        gpu.energy_j = gpu.energy_j + seconds * watts if counts else NOT_SUPPORTED

    rows = []
    for prompt in ("p0", "p1"):
        spend(20.0, 200.0)
        gpu.power_w = 100.0
        with sampler.window() as seen:
            spend(2.0, 100.0)
        gpu.power_w = 200.0
        key = {"run": "run", "prompt_id": prompt, "turn": 0, "repeat": 0}
        rows.append([{**key, **sample.to_dict()} for sample in seen.samples])
    sampler.close()
    found = usages(telemetry(*rows), requests({"p0": 9, "p1": 9}))["run"]
    assert found.energy_j == pytest.approx(400.0)
    assert found.j_per_token == pytest.approx(20.0)
    assert ("gpu0.energy" in sampler.absent) is not counts

"""What telemetry costs, measured interleaved; run alone: pytest -m slow -s -k overhead."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import nullcontext

import pandas as pd
import psutil
import pytest

from harness.clock import Clock
from harness.engines.base import Method
from harness.engines.torch.engine import TorchEngine
from harness.hardware.cpu import open_rapl
from harness.telemetry.cpu_probe import CpuProbe
from harness.telemetry.processes import ProcessTree
from harness.telemetry.sample import Sample
from harness.telemetry.sampler import INTERVAL_S, Sampler, open_telemetry
from harness.telemetry.usage import usages
from tests.engines.conftest import LAB
from tests.engines.test_decode import FULL, PLAIN, ask, lab_prompts
from tests.support.interleaved import paired
from tests.support.readings import requests, telemetry, window

pytestmark = pytest.mark.slow

LIMIT = 1.01
TOKENS = 128


@pytest.fixture
def sampler() -> Iterator[Sampler]:
    opened = open_telemetry("cpu", Clock())
    assert isinstance(opened, Sampler)
    yield opened
    opened.close()


@pytest.mark.parametrize("method", [PLAIN, FULL], ids=lambda method: str(method.name))
def test_overhead_of_telemetry_on_decode_time(sampler: Sampler, method: Method) -> None:
    """The engine runs in this very process: the thread also competes for the interpreter."""
    engine = TorchEngine(LAB, device="cpu")
    prompts = lab_prompts(engine, 2)
    windows: list[list[Sample]] = []

    def decode_ms(prompt: list[int], watched: bool) -> float:
        with sampler.window() if watched else nullcontext() as seen:
            trace = engine.generate(ask(prompt, TOKENS, ignore_eos=True), method, 0)
        if seen is not None:
            windows.append(seen.samples)
        return trace.decode_ms

    before = thread_seconds(sampler)
    found = paired(decode_ms, prompts)
    seconds = sum(seen[-1].at_ms - seen[0].at_ms for seen in windows) / 1e3
    share = (thread_seconds(sampler) - before) / seconds
    print(
        f"\ndecode time of {method.name} with telemetry / without: {found}, "
        f"{sum(map(len, windows)) / len(windows):.1f} samples in windows of "
        f"{seconds / len(windows):.2f} s; its thread used {share:.3%} of a core, "
        f"other processes {others(windows):.2f} cores"
    )
    assert sum(map(len, windows)) > 2 * len(windows), "nothing was read between the ends"
    assert found.high <= LIMIT
    assert share <= LIMIT - 1


def others(windows: list[list[Sample]]) -> float:
    """Cores that other processes kept busy meanwhile: above a tenth of all, measure again."""
    rows = [
        {"run": "run", "prompt_id": str(n), "turn": 0, "repeat": 0, **sample.to_dict()}
        for n, seen in enumerate(windows)
        for sample in seen
    ]
    names: dict[str, int | None] = {str(n): TOKENS for n in range(len(windows))}
    return usages(pd.DataFrame(rows), requests(names))["run"].others_cores or 0.0


def thread_seconds(sampler: Sampler) -> float:
    """CPU seconds of the sampling thread so far."""
    times = {one.id: one.user_time + one.system_time for one in psutil.Process().threads()}
    return float(times[sampler.thread.native_id])


def test_overhead_of_one_reading() -> None:
    """A reading, and the listing of descendants before a window, against the time between them."""
    tree = ProcessTree()
    probe = CpuProbe(tree, open_rapl())
    reading = median_s(lambda: probe.read(0.0), 500)
    listing = median_s(tree.list_again, 20)
    print(
        f"\none reading {reading * 1e6:.0f} us of {len(tree.pids)} process(es); "
        f"listing {listing * 1e3:.1f} ms of {len(psutil.pids())} processes"
    )
    assert reading <= (LIMIT - 1) * INTERVAL_S


def test_overhead_of_adding_up_grows_with_the_rows_only() -> None:
    """Eight times the runs in at most 16 times the time: no look at all rows for each run."""

    def frames(runs: int) -> tuple[pd.DataFrame, pd.DataFrame]:
        names = {f"p{index}": 9 for index in range(180)}
        rows = requests(names)
        at_s = [0.0, 0.2, 0.4, 0.5]
        seen = telemetry(
            *(window(at_s, p, "cpu", own_cpu_s=at_s, machine_cpu_s=at_s) for p in names)
        )
        both = ([part.assign(run=f"run{n}") for n in range(runs)] for part in (seen, rows))
        return tuple(pd.concat(parts, ignore_index=True) for parts in both)  # type: ignore[return-value]

    few, many = frames(50), frames(400)
    took = {len(f[1]): median_s(lambda f=f: usages(*f), 3) for f in (few, many)}  # type: ignore[misc]
    print("\nusages:", ", ".join(f"{n} generations in {s:.2f} s" for n, s in took.items()))
    assert took[len(many[1])] <= 16 * took[len(few[1])]


def median_s(call: Callable[[], object], times: int) -> float:
    taken = []
    for _ in range(times):
        begin = time.perf_counter()
        call()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)

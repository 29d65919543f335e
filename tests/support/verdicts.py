"""Runs judged from their files, the comparison of two, and GPUs that a run is read on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.clock import Clock
from harness.collect import collect
from harness.collection import Collection
from harness.report.tables.versus import Versus, versus
from harness.telemetry.sample import Sample
from harness.telemetry.sampler import open_telemetry
from tests.support.fake_clock import FakeClock
from tests.support.fake_nvml import FakeNvml
from tests.support.recorded_run import SECONDS, Recorded, Window

GPU = "NVIDIA H100 80GB HBM3"


def judged(results: Path, *runs: Recorded) -> Collection:
    """The runs, written, collected and judged."""
    for run in runs:
        run.write(results)
    return collect(results)


def row(data: Collection, run: Recorded) -> dict[str, Any]:
    """A run's row, verdict included."""
    (found,) = data.runs[data.runs["run"] == run.name].to_dict("records")
    return {str(key): value for key, value in found.items()}


def against(data: Collection, methods: Sequence[Recorded], baselines: Sequence[Recorded]) -> Versus:
    """The comparison of these runs."""
    own, base = ([run.name for run in runs] for runs in (methods, baselines))
    runs = data.runs
    return versus(data, runs[runs["run"].isin(own)], runs[runs["run"].isin(base)])


@contextmanager
def gpu_windows(nvml: FakeNvml) -> Iterator[tuple[Window, dict[str, str]]]:
    """Samples of a GPU's generations, read as in a real run, and what could not be read."""
    seconds = FakeClock()
    telemetry = open_telemetry(GPU, Clock(seconds), 3600.0, nvml)

    def window() -> list[Sample]:
        with telemetry.window() as found:
            seconds.advance(SECONDS)
        return found.samples

    try:
        yield window, telemetry.absent
    finally:
        telemetry.close()


def on_gpu(nvml: FakeNvml, run: Callable[..., Recorded], **changes: Any) -> Callable[[Path], Any]:
    """Writes a run whose GPU is what `nvml` says; enough generations for a median clock."""

    def write(results: Path) -> Recorded:
        with gpu_windows(nvml) as (window, absent):
            settings = {"prompts": 15, "facts": {"device": GPU}, **changes}
            made = run(window=window, **settings)
            made.result = {"absent": absent, **made.result}
            made.write(results)
        return made

    return write

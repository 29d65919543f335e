"""Where in its life a sweep is, told from its files; and waiting for the moment to strike."""

from __future__ import annotations

import contextlib
import os
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.faults.state import Key, keys, runs
from tests.faults.sweep import Process, Sweep

PHASES = ("start-up", "profiling", "measuring", "folding", "finishing")
WEIGHTS = {"start-up": 22, "measuring": 44, "folding": 18, "finishing": 16}
SOON = "soon after the first run was opened"
COARSE_NS = 20_000_000  # file times lag behind the clock
TICK_S = 0.003
SOON_SHARE = 0.3
FOLD_S, FINISH_S = 0.02, 0.005
Plan = Mapping[str, set[Key]]


@dataclass(frozen=True)
class Tempo:
    """How long an undisturbed sweep takes, in seconds, until and after its first run is open."""

    start_s: float
    profile_s: float
    measure_s: float


@dataclass
class Watch:
    """One process of a sweep, seen through the files it writes. plan: every run's generations."""

    sweep: Sweep
    process: Process
    plan: Plan
    tempo: Tempo
    priced: bool
    begin_ns: int
    begin_s: float

    @classmethod
    def begin(cls, sweep: Sweep, plan: Plan, tempo: Tempo) -> Watch:
        """Start the sweep's next process."""
        priced, now = sweep.priced, time.time_ns() - COARSE_NS
        return cls(sweep, sweep.begin(), plan, tempo, priced, now, time.monotonic())

    def fresh(self, start: str) -> set[Path]:
        """Runs of which this process wrote a file whose name starts so."""
        found = set()
        for experiment in _folders(self.sweep.results):
            for run in _folders(experiment):
                with contextlib.suppress(FileNotFoundError):  # renamed or removed just now
                    if any(
                        one.stat().st_mtime_ns >= self.begin_ns
                        for one in os.scandir(run)
                        if one.name.startswith(start)
                    ):
                        found.add(Path(run))
        return found

    def opened(self) -> set[Path]:
        """Runs that this process has opened."""
        return self.fresh("config.yaml")

    def elapsed_s(self) -> float:
        """Seconds since the process was started."""
        return time.monotonic() - self.begin_s

    def phase(self, elapsed_s: float) -> str:
        """What the process was doing when it was killed, after so many seconds."""
        opened = self.opened()
        if not opened:
            return "profiling" if elapsed_s > self.tempo.start_s and not self.priced else "start-up"
        if any(_ended(run) and (run / "steps.jsonl").exists() for run in opened):
            return "finishing"
        going = [run for run in opened if not _ended(run)]
        if not going:
            return "finishing"
        whole = all(set(keys(run)) >= self.plan.get(run.name, set()) for run in going)
        return "folding" if whole else "measuring"

    def wait_for(self, target: str, rng: random.Random) -> bool:
        """Sleep to a random moment of that phase; False when the process has ended before."""
        if not self.priced:
            start, rest = self.tempo.start_s, self.tempo.profile_s
            span = (0.0, start) if target == "start-up" else (start, start + rest)
            return self.process.wait(rng.uniform(*span)) is None
        if target == "start-up":
            return self.process.wait(rng.uniform(0.0, self.tempo.start_s)) is None
        if not self._until(lambda: bool(self.opened())):
            return False
        if target in ("measuring", SOON):
            longest = self.tempo.measure_s * (self._left() if target == "measuring" else SOON_SHARE)
            return self.process.wait(rng.uniform(0.0, longest)) is None
        if target == "folding":
            return self._until(self._folds) and self.process.wait(rng.uniform(0, FOLD_S)) is None
        ended = len(self.fresh("result.json"))
        grown = self._until(lambda: len(self.fresh("result.json")) > ended)
        return grown and self.process.wait(rng.uniform(0.0, FINISH_S)) is None

    def _left(self) -> float:
        """The share of all generations that are still to be made."""
        there = sum(len(keys(run)) for run in runs(self.sweep.results))
        return max(0.0, 1.0 - there / sum(len(one) for one in self.plan.values()))

    def _folds(self) -> bool:
        tables = self.fresh(".steps.parquet") | self.fresh("steps.parquet")
        return bool(tables - self.fresh("result.json"))

    def _until(self, happened: Callable[[], bool]) -> bool:
        """Whether it happened before the process ended."""
        while not happened():
            if self.process.wait(TICK_S) is not None:
                return False
        return True


def _folders(place: str | Path) -> list[str]:
    try:
        return [one.path for one in os.scandir(place) if one.is_dir()]
    except FileNotFoundError:  # not there yet, or no more
        return []


def _ended(run: Path) -> bool:
    return (run / "result.json").is_file()

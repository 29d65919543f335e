"""Sweeps that are killed and harmed again and again, and then left alone to finish."""

from __future__ import annotations

import random
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.config import ROOT
from tests.faults.disk import mounted
from tests.faults.injections import NAMES, inject
from tests.faults.invariants import Ledger, Place, complete, finished_rows
from tests.faults.phases import PHASES, WEIGHTS, Tempo, Watch
from tests.faults.rounds import FULL, LIMIT, Rounds
from tests.faults.state import generations, runs
from tests.faults.sweep import SETTINGS, Start, Sweep, start_command
from tests.faults.tally import Tally

HARMED, OUT_OF_DISK, OWN_PRICES, PRICED_ANYWAY, ON_A_MOUNT = 0.35, 0.08, 0.5, 0.35, 0.5
ATTEMPTS = 3
UNPRICED = (30, 70)
SIZE = "size=24m"
CALIBRATION, PROMPTS = ROOT / "datasets" / "lab" / "calibration.jsonl", 2
TICK_S = 0.005


class Broken(Exception):
    """The undisturbed sweep failed: what it said."""


@dataclass
class Campaign:
    """kills: how many in all. once: every kind of fault once, early; otherwise at random.

    costly: whether the settings need step costs.
    """

    folder: Path
    kills: int
    rng: random.Random
    start: Start = start_command
    settings: Sequence[str] = SETTINGS
    costly: bool = True
    once: bool = False
    tally: Tally = field(default_factory=Tally)
    plan: dict[str, set[Any]] = field(default_factory=dict)
    answers: dict[Place, list[int]] = field(default_factory=dict)
    left: list[str] = field(default_factory=list)
    tempo: Tempo = field(default_factory=lambda: Tempo(0.0, 0.0, 0.0))

    def run(self) -> Tally:
        """The undisturbed sweep first, then the others, until there were enough kills."""
        begin = time.monotonic()
        undisturbed = self.folder / "undisturbed"
        with _alone(self._sweep(undisturbed)) as sweep:
            self._undisturbed(sweep)
        self.left = [*NAMES, LIMIT, FULL] if self.once else []
        while self._wanted():
            self.tally.sweeps += 1
            results = self.folder / f"sweep-{self.tally.sweeps}"
            with self._place(results) as on_a_mount:
                if self.costly and self.rng.random() > OWN_PRICES:
                    shutil.copytree(undisturbed / "cost", results / "cost")
                with _alone(self._sweep(results)) as sweep:
                    self._disturb(sweep, on_a_mount)
            self.tally.seconds = time.monotonic() - begin
            print(self.tally.line(), file=sys.stderr, flush=True)
        return self.tally

    def _wanted(self) -> bool:
        return self.tally.kills.total() < self.kills or bool(self.left)

    def _sweep(self, results: Path) -> Sweep:
        settings = [*self.settings, f"calibration={self._calibration()}"]
        return Sweep(results, self.folder / "log", self.start, settings, self.costly)

    def _calibration(self) -> Path:
        """Few prompts to measure step costs on."""
        file = self.folder / "calibration.jsonl"
        lines = CALIBRATION.read_text().splitlines(keepends=True)
        file.write_text("".join(lines[:PROMPTS]))
        return file

    @contextmanager
    def _place(self, results: Path) -> Iterator[bool]:
        """A folder, on a small disk of its own where that is possible and drawn."""
        results.mkdir()
        if not self.once and self.rng.random() > ON_A_MOUNT:
            yield False
            return
        with mounted(results, SIZE) as possible:
            yield possible

    def _undisturbed(self, sweep: Sweep) -> None:
        """What every sweep must come to, and how long it takes."""
        self.start(["--cfg", "job"], {}, sweep.log).wait(
            None
        )  # the files that it reads are warm now
        begin = time.monotonic()
        if self.costly:
            self._end_well(sweep, sweep.begin().wait(None))
        priced = time.monotonic()
        watch = Watch.begin(sweep, {}, self.tempo)
        while not watch.opened() and watch.process.wait(TICK_S) is None:
            pass
        opened = time.monotonic()
        self._end_well(sweep, watch.process.wait(None))
        start_s, price_s = opened - priced, priced - begin
        self.tempo = Tempo(start_s, max(0.5, price_s - start_s), time.monotonic() - opened)
        self.plan = {run.name: set(generations(run)) for run in runs(sweep.results)}
        self.answers = _answers(sweep.results)

    def _end_well(self, sweep: Sweep, code: int | None) -> None:
        if code != 0:
            raise Broken(f"undisturbed, exit code {code}:\n{sweep.said()}")

    def _disturb(self, sweep: Sweep, on_a_mount: bool) -> None:
        """Rounds until the sweep has come to its end, or enough has been done to it."""
        ledger = Ledger(sweep.results, self.plan)
        rounds = Rounds(sweep, ledger, self.tally, self.plan, self.tempo, self.rng)
        if FULL in self.left and not on_a_mount:
            self.left.remove(FULL)
        ended = False
        while self._wanted() and not (ended and not self._harm_left()):
            self._harm(ledger)
            ended = self._round(rounds, on_a_mount)
        for _ in range(ATTEMPTS if not ended else 0):
            ended = ended or rounds.leave_alone()
        self._judge(sweep, ledger)

    def _harm_left(self) -> bool:
        """Whether a sweep that has ended is to be damaged, and so begins again."""
        return any(kind in NAMES for kind in self.left)

    def _round(self, rounds: Rounds, on_a_mount: bool) -> bool:
        if not rounds.sweep.priced:
            if self.rng.random() < PRICED_ANYWAY:
                return rounds.leave_alone()
            return rounds.kill(self.rng.choices(PHASES[:2], UNPRICED)[0])
        kind = self._full(on_a_mount)
        if kind is None:
            return rounds.kill(self.rng.choices(list(WEIGHTS), list(WEIGHTS.values()))[0])
        before = self.tally.faults[kind]
        ended = rounds.fill(kind)
        if self.tally.faults[kind] > before and kind in self.left:
            self.left.remove(kind)
        return ended

    def _full(self, on_a_mount: bool) -> str | None:
        """How the disk is full in the next round; mostly it is not."""
        kinds = [LIMIT, FULL] if on_a_mount else [LIMIT]
        if self.once:
            return next((kind for kind in kinds if kind in self.left), None)
        return self.rng.choice(kinds) if self.rng.random() < OUT_OF_DISK else None

    def _harm(self, ledger: Ledger) -> None:
        """Damage files while nothing runs."""
        kinds = [kind for kind in NAMES if kind in self.left]
        if not self.once and self.rng.random() < HARMED:
            kinds = [self.rng.choice(NAMES)]
        for kind in kinds:
            harm = inject(kind, ledger.results, self.rng)
            if harm is None:
                continue
            self.tally.faults[kind] += 1
            if self.once:
                self.left.remove(kind)
            ledger.harm_done(harm)

    def _judge(self, sweep: Sweep, ledger: Ledger) -> None:
        """What the sweep came to, against the undisturbed one."""
        when = f"end of sweep {self.tally.sweeps}"
        found = {run.name: run for run in runs(sweep.results)}
        lacking = [
            name
            for name, keys in self.plan.items()
            if name not in found or not complete(found[name], keys)
        ]
        answers = _answers(sweep.results)
        differ = [str(place) for place, ids in self.answers.items() if answers.get(place) != ids]
        self.tally.add({"unexpected": [f"{one} is not whole" for one in lacking]}, when)
        self.tally.add({"outputs differ": differ}, when)
        self.tally.rows += len(answers)
        self.tally.again += ledger.again
        self.tally.rescued += ledger.rescued


@contextmanager
def _alone(sweep: Sweep) -> Iterator[Sweep]:
    """The sweep; none of its processes is left behind, whatever happens."""
    try:
        yield sweep
    finally:
        sweep.end()


def _answers(results: Path) -> dict[Place, list[int]]:
    return {place: one.values["output_ids"] for place, one in finished_rows(results).items()}

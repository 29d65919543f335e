"""One process of a sweep: killed at a random moment, out of disk, or left alone."""

from __future__ import annotations

import contextlib
import os
import random
import resource
from dataclasses import dataclass
from pathlib import Path

from tests.faults.invariants import Ledger
from tests.faults.phases import SOON, Plan, Tempo, Watch
from tests.faults.sweep import Sweep
from tests.faults.tally import Tally

LIMIT, FULL = "file limit reached", "disk full"
SAID = {LIMIT: "File too large", FULL: "No space left on device"}
RESUMES = "finished rows stay; the same command resumes"
LONGEST_S = 300.0
BEYOND = 300
BLOCKS = (1 << 20, 1 << 12, 1)


@dataclass
class Rounds:
    """The rounds of one sweep. Everything that does not hold goes to the tally."""

    sweep: Sweep
    ledger: Ledger
    tally: Tally
    plan: Plan
    tempo: Tempo
    rng: random.Random

    def kill(self, target: str) -> bool:
        """Kill the process in this phase; True when it got to its end before."""
        watch = self._begin()
        if not watch.wait_for(target, self.rng):
            return self._ended(watch, f"to be killed while {target}")
        elapsed_s = watch.elapsed_s()
        orphans = self.sweep.kill(watch.process)
        phase = watch.phase(elapsed_s)
        self.tally.kills[phase] += 1
        self.tally.add({"orphans": [f"{orphans} processes"] if orphans else []}, phase)
        self.tally.add(self.ledger.check(f"kill while {phase}"), f"killed while {phase}")
        return False

    def leave_alone(self) -> bool:
        """Let the process end; True when it ended well."""
        return self._ended(self._begin(), "left alone")

    def fill(self, kind: str) -> bool:
        """Let the process run out of disk while it measures; True when it got to its end before."""
        watch = self._begin()
        filler = self.sweep.results / "filler"
        if not watch.wait_for(SOON, self.rng):
            return self._ended(watch, f"before {kind}")
        if kind == LIMIT:
            self._limit(watch)
        else:
            _fill(filler)
        code = watch.process.wait(LONGEST_S)
        filler.unlink(missing_ok=True)
        if code == 0:
            return self._ended(watch, kind)
        self.tally.faults[kind] += 1
        said = self.sweep.said()
        if code != 1 or SAID[kind] not in said or RESUMES not in said:
            self.tally.add({"unexpected": [f"exit code {code}: {said[-2000:]}"]}, kind)
        self.tally.add(self.ledger.check(kind), kind)
        return False

    def _begin(self) -> Watch:
        return Watch.begin(self.sweep, self.plan, self.tempo)

    def _limit(self, watch: Watch) -> None:
        """The largest growing file may not grow much: a write ends in the middle of a line."""
        files = [file for run in watch.opened() for file in run.glob("*.jsonl")]
        largest = max((file.stat().st_size for file in files), default=0)
        limit = largest + self.rng.randint(1, BEYOND)
        with contextlib.suppress(ProcessLookupError):  # it has just ended
            resource.prlimit(watch.process.pid, resource.RLIMIT_FSIZE, (limit, limit))

    def _ended(self, watch: Watch, when: str) -> bool:
        """The process has ended, or does so now: by itself, and well."""
        code = watch.process.wait(LONGEST_S)
        left = self.sweep.end_survivors(watch.process)
        self.tally.add({"orphans": [f"{left} processes"] if left else []}, when)
        self.tally.add(self.ledger.check(when), when)
        if code != 0:
            said = self.sweep.said()[-2000:]
            self.tally.add({"unexpected": [f"exit code {code}: {said}"]}, when)
        return code == 0 and watch.priced


def _fill(filler: Path) -> None:
    """Write until nothing more fits."""
    handle = os.open(filler, os.O_WRONLY | os.O_CREAT)
    try:
        for size in BLOCKS:
            try:
                while os.write(handle, bytes(size)):
                    pass
            except OSError:
                continue
    finally:
        os.close(handle)

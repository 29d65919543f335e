"""What must hold after every round, checked from the files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from harness.collect import collect
from harness.store import is_finished
from tests.faults.injections import Injection
from tests.faults.phases import Plan
from tests.faults.state import Generation, Key, generations, keys, runs, summary

LATELY = 8
Place = tuple[str, Key]
Rows = Mapping[Place, Generation]


def finished_rows(results: Path) -> dict[Place, Generation]:
    """Every finished generation of every run."""
    return {(run.name, key): one for run in runs(results) for key, one in generations(run).items()}


def doubles(results: Path) -> dict[Place, int]:
    """Generations that stand in a file more than once."""
    return {
        (run.name, key): count
        for run in runs(results)
        for key, count in keys(run).items()
        if count > 1
    }


def complete(run: Path, expected: set[Key]) -> bool:
    """Whether every generation is there once, its steps in the table adding up to its tokens."""
    found = generations(run)
    return (
        (run / "steps.parquet").is_file()
        and set(found) == set(keys(run)) == expected
        and set(keys(run).values()) == {1}
        and all(_adds_up(one) for one in found.values())
    )


def _adds_up(one: Generation) -> bool:
    if None in one.beside.values():
        return False
    committed = sum(step["committed"] for step in one.rows("steps"))
    return bool(committed == one.values["decode_tokens"] == len(one.values["output_ids"]) - 1)


def wrongly_ok(results: Path, plan: Plan) -> list[str]:
    """Runs that say ok, lack something, and are skipped or counted all the same."""
    said = {run: summary(run) or {} for run in runs(results)}
    lacking = [
        run
        for run, found in said.items()
        if found.get("status") == "ok" and not complete(run, plan[run.name])
    ]
    left_out = collect(results).left_out if lacking else {}
    return [
        run.name
        for run in lacking
        if is_finished(run, str(said[run].get("run_hash")))
        or str(run.relative_to(results)) not in left_out
    ]


@dataclass(frozen=True)
class Harmed:
    """A generation as it was, and what happened to it."""

    before: Generation
    injection: Injection


@dataclass
class Ledger:
    """Finished generations of one sweep: those that must stay, those that were harmed.

    again: harmed ones that were measured anew. rescued: harmed ones that came back unchanged.
    events: what was done to the sweep, for whoever has to find out what went wrong.
    """

    results: Path
    plan: Plan
    safe: dict[Place, Generation] = field(default_factory=dict)
    harmed: dict[Place, Harmed] = field(default_factory=dict)
    doubled: dict[Place, int] = field(default_factory=dict)
    again: int = 0
    rescued: int = 0
    events: list[str] = field(default_factory=list)

    def harm_done(self, injection: Injection) -> None:
        """Take note of what an injection has damaged: the rest must stay."""
        self.events.append(str(injection))
        found, hit, run = finished_rows(self.results), injection.hit(), injection.file.parent.name
        for place, before in list(self.safe.items()):
            named = place[0] == run and (hit is None or place[1] in hit)
            if named or found.get(place) != before:
                self.harmed[place] = Harmed(self.safe.pop(place), injection)
        self.doubled = doubles(self.results)

    def check(self, when: str = "") -> dict[str, list[str]]:
        """What does not hold, by kind, after a process has ended however it did."""
        self.events.append(when)
        found, before = finished_rows(self.results), self.safe
        lost = [place for place, one in before.items() if found.get(place) != one]
        doubled = doubles(self.results)
        more = [place for place, count in doubled.items() if count > self.doubled.get(place, 1)]
        self._settle(found)
        wrong = {
            "lost": [f"{_named(one)} ({_change(before[one], found.get(one))})" for one in lost],
            "duplicates": [_named(place) for place in more],
            "wrongly ok": wrongly_ok(self.results, self.plan),
        }
        lately = "; ".join(self.events[-LATELY:])
        return {kind: [f"{one}, after {lately}" for one in named] for kind, named in wrong.items()}

    def _settle(self, found: Rows) -> None:
        """Harmed generations whose file was written anew: are they back, and as they were?"""
        for place, harmed in list(self.harmed.items()):
            now = found.get(place)
            if now is None or None in now.beside.values() or harmed.injection.lasts:
                continue
            self.rescued += now == harmed.before
            self.again += now.row != harmed.before.row
            if now == harmed.before or now.row != harmed.before.row:
                del self.harmed[place]
        self.safe = {
            place: one
            for place, one in found.items()
            if place not in self.harmed and None not in one.beside.values()
        }


def _change(before: Generation, now: Generation | None) -> str:
    """What of a generation is not as it was."""
    if now is None:
        return "its row is gone"
    beside = [side for side, rows in before.beside.items() if now.beside[side] != rows]
    return ", ".join((["row"] if now.row != before.row else []) + beside)


def _named(place: Place) -> str:
    run, (prompt, turn, repeat) = place
    return f"{run} {prompt} turn {turn} repeat {repeat}"

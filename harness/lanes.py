"""The open lanes of a command line: taken up, warmed, and closed with a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.benchmarks import Prompt
from harness.costs import FILE
from harness.measure import Lane, Meter
from harness.outcome import Outcome
from harness.output_check import against_plain
from harness.plan import Cell, Group, cell_config
from harness.preparation import Setup
from harness.run_result import Evidence, run_result
from harness.store import RunDirectory
from harness.tuning import FILE as TUNING
from harness.tuning import tuned


@dataclass(frozen=True)
class Opened:
    """A cell with its tuned setting, and its lane."""

    cell: Cell
    group: Group
    lane: Lane

    @property
    def prompts(self) -> list[Prompt]:
        """What is measured on this lane."""
        return self.group.prompts


@contextmanager
def opened(
    setup: Setup, groups: Sequence[Group], provenance: dict[str, Any]
) -> Iterator[list[list[Opened]]]:
    """The lanes of these groups, directories of pending cells open; closed whatever happens."""
    lanes: list[list[Opened]] = []
    try:
        for group in groups:
            lanes.append([])
            for cell in group.cells:
                lanes[-1].append(_open(setup, group, cell, provenance))
        yield lanes
    finally:
        for one in (one for own in lanes for one in own):
            if one.lane.run is not None:
                one.lane.run.close()


def _open(setup: Setup, group: Group, before: Cell, provenance: dict[str, Any]) -> Opened:
    tuning = setup.tuning(before.config)
    cell = before.with_method(tuned(before.config, tuning))
    lane = Lane(cell.method, None, setup.cost(cell.method))
    if not before.finished:
        config = setup.config
        values = cell_config(config, cell)
        lane.run = RunDirectory.open(cell.path, values, provenance, config.record_trees)
        if lane.cost is not None:
            lane.cost.save(cell.path / FILE)
        if tuning is not None:
            tuning.save(cell.path / TUNING)
    return Opened(cell, group, lane)


def warm_up(setup: Setup, meter: Meter, lanes: Sequence[Opened]) -> None:
    """Warm the open lanes' methods, keep what was generated, end lanes whose engine is lost."""
    alive = [one for one in lanes if one.lane.open]
    done = setup.warm_up([one.lane.method for one in alive], meter.part, meter.clock)
    meter.cost = None
    for one in alive:
        method = repr(one.lane.method)
        one.lane.ended = done.lost.get(method)
        if one.lane.run is not None:
            one.lane.run.warmed(done.rows.get(method, []))


def finish(setup: Setup, meter: Meter, lanes: Sequence[Opened], outcome: Outcome) -> None:
    """Compare outputs, sum each run up and let it count as ended."""
    for one in lanes:
        run = one.lane.run
        if run is None:
            continue
        evidence = Evidence(
            facts=meter.facts,
            read_back=_read_back(meter, one),
            absent=meter.telemetry.absent,
            ended=one.lane.ended,
            outputs=against_plain(meter, lanes, one),
        )
        result = run_result(setup.config, one.cell, one.group, run, evidence)
        outcome.results[one.cell.path] = result
        run.finish(result)


def _read_back(meter: Meter, one: Opened) -> dict[str, str]:
    return {} if one.lane.ended else meter.engine.read_back(one.lane.method)

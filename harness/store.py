"""Run directories: what they are called, how they grow, and when they count as done.

requests.jsonl and its side files (steps, telemetry, and trees where recorded) grow by one line
each per generation, requests last. Every line names its generation and ends with a checksum. At
the end the side files become parquet, and result.json, which holds a sum of every other file, is
renamed into place. A directory without result.json was cut; one whose status is not ok is retried;
one of whose files a sum does not hold is taken up again, and only what is damaged is measured anew.

What is guaranteed. A killed process loses no generation that was finished: a line is handed to the
system at once, and a half line is cut off again or left out later. A power cut may cost the last
seconds of a run that was going on, since lines are not forced to the disk one by one: that would
put seconds of disk traffic between measurements. What it damages is found by the checksums and
measured again. A run that ended is on the disk: its files are forced there before result.json is.
Nothing tells a change from a measurement when the checksums were made to fit it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from omegaconf import OmegaConf

from evict.errors import InputError
from harness.atomic import Growing, check_writable, refusals, replace_text, sync
from harness.identity import machine_hash
from harness.lines import SIDES, STEPS, TELEMETRY, TREES, Key, Side
from harness.records import SCHEMA_VERSION, RequestRecord, RunResult, StepRecord
from harness.sealed import read_lines, sealed
from harness.sums import FILES, RESULT, changed, sums, written_sums
from harness.takeup import (
    CONFIG,
    PROVENANCE,
    REQUESTS,
    WARMUP,
    add_provenance,
    check_same,
    clear,
    take_up,
)
from harness.telemetry.sample import Sample
from harness.trees import TreeRecord

__all__ = [
    "REQUESTS",
    "RunDirectory",
    "check_writable",
    "damage",
    "is_finished",
    "read_records",
    "read_result",
    "read_warmup",
    "replace_text",
]

TABLES = tuple(side.table for side in SIDES)
SUMMED = (CONFIG, PROVENANCE, REQUESTS, WARMUP, "cost_table.json", "tuning.json", *TABLES)
KNOWN = (*SUMMED, RESULT, *(side.lines for side in SIDES))
STATUSES = ("ok", "partial", "failed")


def read_result(path: Path) -> RunResult | None:
    """The run's summary, or None when it was cut before it was written, or is damaged."""
    try:
        result = RunResult.from_dict(json.loads((path / RESULT).read_bytes()))
    except (OSError, ValueError, TypeError, AttributeError):
        return None
    return result if result.status in STATUSES else None


def is_finished(path: Path, run_hash: str) -> bool:
    """Whether this very run is there, complete, undamaged and without a failed request."""
    result = read_result(path)
    return (
        result is not None
        and result.status == "ok"
        and result.run_hash == run_hash
        and result.schema_version == SCHEMA_VERSION
        and damage(path, result) is None
    )


def damage(path: Path, result: RunResult) -> str | None:
    """What is wrong with the files of a run that ended, and what to do; None when they are whole.

    Of a run of an older version, which kept no sums, only the number of rows is known.
    """
    written = written_sums(path)
    if written:
        return changed(path, {STEPS.table: "", **written})
    rows, told = len(read_lines(path / REQUESTS)), result.requests_ok + result.requests_error
    if rows != told:
        return f"{REQUESTS} holds {rows} whole rows of {told}: run the same command again"
    return None if (path / STEPS.table).is_file() else f"{STEPS.table} is missing"


def read_records(path: Path) -> list[RequestRecord]:
    """The whole rows of a run directory, in the order of the file; nothing is changed."""
    return [RequestRecord.from_dict(line.values) for line in read_lines(path / REQUESTS)]


def read_warmup(path: Path) -> list[dict[str, Any]]:
    """What was generated before measuring, by every process that wrote to the run."""
    return [line.values for line in read_lines(path / WARMUP)]


@dataclass
class RunDirectory:
    """One run while it is being written; `done` holds its rows by prompt, turn and repeat.

    provenance: one entry per process that wrote to it. sides: the files that grow beside
    requests.jsonl.
    """

    path: Path
    done: dict[Key, RequestRecord] = field(default_factory=dict)
    provenance: list[dict[str, Any]] = field(default_factory=list)
    sides: tuple[Side, ...] = (STEPS, TELEMETRY)
    _lock: int | None = None
    _files: dict[str, Growing] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        path: Path,
        config: dict[str, Any],
        provenance: dict[str, Any],
        record_trees: bool = False,
        prepare: Callable[[Path], None] | None = None,
    ) -> Self:
        """Create the directory, or take up a cut, failed or damaged run after its whole rows.

        prepare: writes further files of the run; nothing stays locked when it raises. Raises
        InputError where nothing can be written, where another process writes, where a folder
        stands in a file's place and where the rows are another run's.
        """
        with refusals(path):
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path, sides=(STEPS, TELEMETRY, *((TREES,) if record_trees else ())))
            run._lock = _locked(path)
            with run._closed_on_error():
                clear(path, KNOWN)
                check_same(path, config.get("run_hash"))
                run.done = {row.key: row for row in take_up(path, run.sides)}
                for name in (REQUESTS, *(side.lines for side in run.sides)):
                    run._files[name] = Growing(path / name)
                replace_text(path / CONFIG, OmegaConf.to_yaml(OmegaConf.create(config)))
                run.provenance = add_provenance(path / PROVENANCE, provenance)
                if prepare is not None:
                    prepare(path)
        return run

    @property
    def records(self) -> list[RequestRecord]:
        """The rows that are there, in the order of the file."""
        return list(self.done.values())

    @property
    def machines(self) -> list[str | None]:
        """Where the rows were measured: an entry per process, None for one that is not known."""
        known = {part.get("part"): machine_hash(part) for part in self.provenance}
        return [known.get(part) for part in dict.fromkeys(row.part for row in self.records)]

    def append(
        self,
        record: RequestRecord,
        steps: Iterable[StepRecord],
        trees: Iterable[TreeRecord] = (),
        samples: Iterable[Sample] = (),
    ) -> None:
        """Write one generation: steps, trees and telemetry, then the row that makes them count.

        All of it or nothing: what was begun is taken back when the disk is full.
        """
        rows = {
            STEPS: [one.to_dict() for one in steps],
            TELEMETRY: [one.to_dict() for one in samples],
            TREES: [one.to_row() for one in trees],
        }
        lines = {side.lines: side.line(record.key, rows[side]) for side in self.sides}
        before = {name: self._files[name].size() for name in (*lines, REQUESTS)}
        try:
            for name, line in {**lines, REQUESTS: sealed(record.to_dict())}.items():
                self._files[name].write(line.raw)
        except BaseException:  # an interrupt as well as a full disk
            for name, size in before.items():
                self._files[name].cut(size)
            raise
        self.done[record.key] = record

    def warmed(self, rows: Iterable[dict[str, Any]]) -> None:
        """Keep warm-up generations, in a file of their own so that none is ever averaged."""
        for row in rows:
            if WARMUP not in self._files:
                self._files[WARMUP] = Growing(self.path / WARMUP)
            self._files[WARMUP].write(sealed(row).raw)

    def finish(self, result: RunResult) -> None:
        """Fold the side files, then let the run count as ended."""
        for side in self.sides:
            side.fold(self.path, [row.key for row in self.records])
        for name in (REQUESTS, WARMUP):
            if (self.path / name).is_file():
                sync(self.path / name)
        summary = {**result.to_dict(), FILES: sums(self.path, SUMMED)}
        replace_text(self.path / RESULT, json.dumps(summary, indent=2) + "\n")
        for side in self.sides:
            (self.path / side.lines).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the files; what was appended stays."""
        for file in self._files.values():
            file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    @contextlib.contextmanager
    def _closed_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise


def _locked(path: Path) -> int:
    """Hold the directory itself, so that no lock file is left behind."""
    handle = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise InputError(
            "another process is writing this run", seen=path, hint="wait for it to end"
        ) from None
    return handle

"""Run directories: what they are called, how they grow, and when they count as done.

requests.jsonl and its side files (steps, and trees where recorded) grow by one line each per
generation, requests last; line i of one belongs to line i of the others. At the end the side files
become parquet and result.json is renamed into place. A directory without result.json was cut; one
whose status is not ok is retried.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

from omegaconf import OmegaConf

from evict.errors import InputError
from harness.identity import machine_hash
from harness.lines import STEPS, TREES, Key, Side, keep_lines, whole_lines
from harness.records import SCHEMA_VERSION, RequestRecord, RunResult, StepRecord
from harness.trees import TreeRecord

REQUESTS = "requests.jsonl"


def read_result(path: Path) -> RunResult | None:
    """The run's summary, or None when it was cut before it was written."""
    try:
        return RunResult.from_dict(json.loads((path / "result.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def is_finished(path: Path, run_hash: str) -> bool:
    """Whether this very run is there, complete and without a failed request."""
    result = read_result(path)
    return (
        result is not None
        and result.status == "ok"
        and result.run_hash == run_hash
        and result.schema_version == SCHEMA_VERSION
    )


@dataclass
class RunDirectory:
    """One run while it is being written; `done` holds its rows by prompt, turn and repeat.

    `sides`: the files that grow beside requests.jsonl.
    """

    path: Path
    done: dict[Key, RequestRecord] = field(default_factory=dict)
    machines: list[str] = field(default_factory=list)
    sides: tuple[Side, ...] = (STEPS,)
    _lock: int | None = None
    _files: dict[str, TextIO] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        path: Path,
        config: dict[str, Any],
        provenance: dict[str, Any],
        record_trees: bool = False,
    ) -> Self:
        """Create the directory, or take up a cut or failed run after its last good row."""
        path.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
        sides = (STEPS, TREES) if record_trees else (STEPS,)
        done = {row.key: row for row in _take_up(path, sides)}
        run = cls(path, done, sides=sides, _lock=lock)
        for name in (REQUESTS, *(side.lines for side in sides)):
            run._files[name] = (path / name).open("a", encoding="utf-8")
        replace_text(path / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(config)))
        parts = _add_provenance(path / "provenance.json", provenance)
        run.machines = [machine_hash(part) for part in parts]
        return run

    @property
    def records(self) -> list[RequestRecord]:
        """The rows that are there, in the order of the file."""
        return list(self.done.values())

    def append(
        self,
        record: RequestRecord,
        steps: Iterable[StepRecord],
        trees: Iterable[TreeRecord] = (),
    ) -> None:
        """Write one generation: its steps and trees, then the row that makes them count."""
        rows = {STEPS: [one.to_dict() for one in steps], TREES: [one.to_row() for one in trees]}
        for side in self.sides:
            _write_line(self._files[side.lines], rows[side])
        _write_line(self._files[REQUESTS], record.to_dict())
        self.done[record.key] = record

    def finish(self, result: RunResult) -> None:
        """Fold the side files, then let the run count as ended."""
        for side in self.sides:
            side.fold(self.path, [row.key for row in self.records])
        replace_text(self.path / "result.json", json.dumps(result.to_dict(), indent=2) + "\n")
        for side in self.sides:
            (self.path / side.lines).unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the files; what was appended stays."""
        for file in self._files.values():
            if not file.closed:
                with contextlib.suppress(OSError):  # a full disk was reported by append
                    file.close()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def replace_text(path: Path, text: str) -> None:
    """Write a small file so that it is there completely or not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def _write_line(file: TextIO, values: object) -> None:
    file.write(json.dumps(values, ensure_ascii=False) + "\n")
    file.flush()


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


def _take_up(path: Path, sides: tuple[Side, ...]) -> list[RequestRecord]:
    """Keep whole rows without an error, and their side lines; log what is dropped."""
    requests = path / REQUESTS
    lines = whole_lines(requests)
    rows = [RequestRecord.from_dict(json.loads(line)) for line in lines]
    keys = [row.key for row in rows]
    side_lines = {side: side.take_up(path, keys) for side in sides}
    whole = min((len(found) for found in side_lines.values()), default=0)
    first = {key: i for i, key in reversed(list(enumerate(keys)))}
    kept = [
        i
        for i, row in enumerate(rows)
        if row.error_class is None and i < whole and first[row.key] == i
    ]
    keep_lines(requests, lines, kept)
    for side, found in side_lines.items():
        keep_lines(path / side.lines, found, kept)
    (path / "result.json").unlink(missing_ok=True)
    return [rows[i] for i in kept]


def _add_provenance(path: Path, provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per process that wrote to the run; returns all of them."""
    parts = json.loads(path.read_text())["parts"] if path.is_file() else []
    replace_text(path, json.dumps({"parts": [*parts, provenance]}, indent=2) + "\n")
    return [*parts, provenance]

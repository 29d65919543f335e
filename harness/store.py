"""Run directories: what they are called, how they grow, and when they count as done.

requests.jsonl and steps.jsonl grow by one line each per generation, steps first; line i of one
belongs to line i of the other. At the end steps.jsonl becomes steps.parquet and result.json is
renamed into place. A directory without result.json was cut; one whose status is not ok is retried.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TextIO

from omegaconf import OmegaConf

from evict.errors import InputError
from harness.identity import machine_hash
from harness.records import RequestRecord, RunResult, StepRecord

log = logging.getLogger(__name__)
Key = tuple[str, int, int]


def read_result(path: Path) -> RunResult | None:
    """The run's summary, or None when it was cut before it was written."""
    try:
        return RunResult.from_dict(json.loads((path / "result.json").read_text()))
    except (FileNotFoundError, ValueError, TypeError):
        return None


def is_finished(path: Path, run_hash: str) -> bool:
    """Whether this very run is there, complete and without a failed request."""
    result = read_result(path)
    return result is not None and result.status == "ok" and result.run_hash == run_hash


@dataclass
class RunDirectory:
    """One run while it is being written; `done` holds its rows by prompt, turn and repeat."""

    path: Path
    done: dict[Key, RequestRecord] = field(default_factory=dict)
    machines: list[str] = field(default_factory=list)
    _lock: int | None = None
    _requests: TextIO | None = None
    _steps: TextIO | None = None

    @classmethod
    def open(cls, path: Path, config: dict[str, Any], provenance: dict[str, Any]) -> Self:
        """Create the directory, or take up a cut or failed run after its last good row."""
        path.mkdir(parents=True, exist_ok=True)
        lock = _locked(path)
        run = cls(path, {row.key: row for row in _take_up(path)}, _lock=lock)
        run._requests = (path / "requests.jsonl").open("a", encoding="utf-8")
        run._steps = (path / "steps.jsonl").open("a", encoding="utf-8")
        replace_text(path / "config.yaml", OmegaConf.to_yaml(OmegaConf.create(config)))
        parts = _add_provenance(path / "provenance.json", provenance)
        run.machines = [machine_hash(part) for part in parts]
        return run

    @property
    def records(self) -> list[RequestRecord]:
        """The rows that are there, in the order of the file."""
        return list(self.done.values())

    def append(self, record: RequestRecord, steps: Iterable[StepRecord]) -> None:
        """Write one generation: its steps, then the row that makes them count."""
        assert self._steps is not None
        assert self._requests is not None
        _write_line(self._steps, [step.to_dict() for step in steps])
        _write_line(self._requests, record.to_dict())
        self.done[record.key] = record

    def finish(self, result: RunResult) -> None:
        """Fold the steps, then let the run count as ended."""
        _fold_steps(self.path)
        replace_text(self.path / "result.json", json.dumps(result.to_dict(), indent=2) + "\n")
        (self.path / "steps.jsonl").unlink(missing_ok=True)
        self.close()

    def close(self) -> None:
        """Let go of the files; what was appended stays."""
        for file in (self._steps, self._requests):
            if file is not None and not file.closed:
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


def _take_up(path: Path) -> list[RequestRecord]:
    """Keep whole rows without an error, and their steps; log what is dropped."""
    requests, steps = path / "requests.jsonl", path / "steps.jsonl"
    lines = whole_lines(requests)
    rows = [RequestRecord.from_dict(json.loads(line)) for line in lines]
    step_lines = whole_lines(steps)
    if rows and not step_lines:
        step_lines = _unfold_steps(path, rows)
    kept = [i for i, row in enumerate(rows) if row.error_class is None and i < len(step_lines)]
    _keep(requests, lines, kept)
    _keep(steps, step_lines, kept)
    (path / "result.json").unlink(missing_ok=True)
    return [rows[i] for i in kept]


def whole_lines(path: Path) -> list[bytes]:
    """The lines that end in a newline and hold JSON, up to the first that does not."""
    if not path.is_file():
        return []
    whole = []
    for line in path.read_bytes().splitlines(keepends=True):
        if not (line.endswith(b"\n") and _is_json(line)):
            log.warning("%s: dropped a broken line of %d bytes", path, len(line))
            break
        whole.append(line)
    return whole


def _is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except ValueError:
        return False
    return True


def _keep(path: Path, lines: list[bytes], kept: list[int]) -> None:
    """Reduce the file to the kept lines; their bytes do not change."""
    if len(kept) < len(lines):
        log.warning("%s: %d rows are measured again", path, len(lines) - len(kept))
    content = b"".join(lines[i] for i in kept)
    if not path.is_file() or path.read_bytes() != content:
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(content)
        os.replace(temporary, path)


def _fold_steps(path: Path) -> None:
    import pandas as pd

    lines = zip(
        whole_lines(path / "requests.jsonl"), whole_lines(path / "steps.jsonl"), strict=True
    )
    rows = []
    for request, steps in lines:
        row = json.loads(request)
        key = {name: row[name] for name in ("prompt_id", "turn", "repeat")}
        rows += [{**key, **step} for step in json.loads(steps)]
    temporary = path / ".steps.parquet"
    try:
        pd.DataFrame(rows).to_parquet(temporary, index=False)
        os.replace(temporary, path / "steps.parquet")
    finally:
        temporary.unlink(missing_ok=True)


def _unfold_steps(path: Path, rows: list[RequestRecord]) -> list[bytes]:
    """steps.jsonl again, from the parquet file of a run that ended with failed requests."""
    import pandas as pd

    file = path / "steps.parquet"
    if not file.is_file():
        return []
    frame = pd.read_parquet(file)
    found: dict[Key, list[dict[str, Any]]] = {}
    for step in json.loads(frame.to_json(orient="records", double_precision=15)):
        key = (step.pop("prompt_id"), step.pop("turn"), step.pop("repeat"))
        found.setdefault(key, []).append(step)
    lines = [json.dumps(found.get(row.key, [])).encode() + b"\n" for row in rows]
    (path / "steps.jsonl").write_bytes(b"".join(lines))
    return lines


def _add_provenance(path: Path, provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per process that wrote to the run; returns all of them."""
    parts = json.loads(path.read_text())["parts"] if path.is_file() else []
    replace_text(path, json.dumps({"parts": [*parts, provenance]}, indent=2) + "\n")
    return [*parts, provenance]

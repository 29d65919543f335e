"""Taking up a run that was cut, failed or damaged: what of it is whole stays, byte by byte."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from evict.errors import InputError
from harness.atomic import replace_bytes, replace_text
from harness.lines import ROWS, STEPS, Key, Row, Side, by_key
from harness.records import RequestRecord
from harness.sealed import Line, read_lines, sealed
from harness.sums import RESULT, written_sums

log = logging.getLogger(__name__)
REQUESTS = "requests.jsonl"
WARMUP = "warmup.jsonl"
CONFIG = "config.yaml"
PROVENANCE = "provenance.json"
TIMES = ("prefill_ms", "decode_ms", "engine_ms", "wall_ms")


def take_up(path: Path, sides: Sequence[Side]) -> list[RequestRecord]:
    """Reduce a run's files to its whole generations, and return their rows in order.

    A generation is whole when its row and its line in every side file are, no error and no
    negative time stands in it, and its steps commit its tokens. The lines are on the disk before
    the summary and the tables go, so that an end at any point loses none.
    """
    read = read_lines(path / REQUESTS)
    rows = by_key(read)
    sums = written_sums(path) or {}
    found = {side: side.take_up(path, list(rows), sums.get(side.table)) for side in sides}
    kept = {}
    for key, row in rows.items():
        record = _record(row)
        if record is not None and _whole(record, key, found):
            kept[key] = record
    if len(kept) < len(read):
        log.warning(
            "%s: %d of %d rows are kept, the rest is made again", path, len(kept), len(read)
        )
    for side in sides:
        _rewrite(path / side.lines, [found[side][key] for key in kept])
    _rewrite(path / REQUESTS, [rows[key] for key in kept])
    _rewrite(path / WARMUP, read_lines(path / WARMUP))
    for name in (RESULT, *(side.table for side in sides)):
        (path / name).unlink(missing_ok=True)
    return list(kept.values())


def _record(line: Line) -> RequestRecord | None:
    try:
        return RequestRecord.from_dict(line.values)
    except TypeError:  # a field is missing
        return None


def _whole(record: RequestRecord, key: Key, found: Mapping[Side, Mapping[Key, Line]]) -> bool:
    if record.error_class is not None or any(key not in lines for lines in found.values()):
        return False
    steps = found[STEPS][key].values[ROWS]
    return not _went_back(record, steps) and _add_up(record, steps)


def _went_back(record: RequestRecord, steps: Sequence[Row]) -> bool:
    """Whether a clock did, while this was measured."""
    times = [getattr(record, name) for name in TIMES] + [step.get("total_ms") for step in steps]
    if record.started_ms is not None and record.ended_ms is not None:
        times.append(record.ended_ms - record.started_ms)
    return any(time is not None and time < 0.0 for time in times)


def _add_up(record: RequestRecord, steps: Sequence[Row]) -> bool:
    return bool(record.decode_tokens == sum(step.get("committed", 0) for step in steps))


def _rewrite(path: Path, lines: Sequence[Line]) -> None:
    """Write these lines, those of an older version with a checksum, unless they stand there."""
    content = b"".join(line.raw if line.proven else sealed(line.values).raw for line in lines)
    if content != (path.read_bytes() if path.is_file() else b""):
        replace_bytes(path, content)


def clear(path: Path, known: Sequence[str]) -> None:
    """Remove what a killed process had begun to write. InputError for a folder in a file's place.

    Only for a process that holds the run's lock.
    """
    for name in known:
        if (path / name).is_dir():
            raise InputError(
                "a folder stands where a run keeps a file",
                seen=path / name,
                hint="move it away, then run the same command again",
            )
    for file in path.glob(".*"):
        if file.is_file() and file.name[1:].startswith(tuple(known)):
            file.unlink()


def check_same(path: Path, run_hash: object) -> None:
    """InputError where the directory's rows belong to another run: it was moved or renamed."""
    try:
        config = OmegaConf.to_container(OmegaConf.load(path / CONFIG))
        found = config.get("run_hash") if isinstance(config, dict) else None
    except Exception:  # missing or damaged: it is written anew; the folder's name holds the hash
        return
    if found is not None and run_hash is not None and found != run_hash:
        raise InputError(
            "this folder holds another run",
            seen=f"{path}: run hash {str(found)[:8]}",
            allowed=str(run_hash)[:8],
            hint="move it away, then run the same command again",
        )


def add_provenance(path: Path, provenance: dict[str, Any]) -> list[dict[str, Any]]:
    """One entry per process that wrote to the run; returns all of them.

    A damaged file is kept beside the new one. Rows of processes that are named in neither were
    measured nobody knows where, so the run's times are of a mixed session.
    """
    parts = _parts(path)
    replace_text(path, json.dumps({"parts": [*parts, provenance]}, indent=2) + "\n")
    return [*parts, provenance]


def _parts(path: Path) -> list[dict[str, Any]]:
    if not path.is_file():
        return []
    try:
        parts = json.loads(path.read_bytes())["parts"]
        if all(isinstance(part, dict) for part in parts):
            return list(parts)
    except (ValueError, TypeError, KeyError):
        pass
    log.warning("%s is damaged: where the earlier rows were measured is not known", path)
    path.replace(path.with_name(f"{path.name}.damaged"))
    return []

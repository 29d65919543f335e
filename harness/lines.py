"""Files that grow by one JSON line per generation, and the parquet files they are folded into."""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.trees import packed, unpacked

log = logging.getLogger(__name__)
Key = tuple[str, int, int]
KEY = ("prompt_id", "turn", "repeat")
Row = Mapping[str, Any]


@dataclass(frozen=True)
class Side:
    """Rows that belong to a generation: `lines` while the run grows, `table` once it has ended.

    A line is a list of rows. pack, unpack: between a row of a line and a row of the table.
    """

    lines: str
    table: str
    pack: Callable[[Row], Row]
    unpack: Callable[[Row], Row]

    def fold(self, path: Path, keys: Sequence[Key]) -> None:
        """Write the table from the lines; line i belongs to keys[i]."""
        import pandas as pd

        lines = whole_lines(path / self.lines)
        rows = [
            {**dict(zip(KEY, key, strict=True)), **self.pack(row)}
            for key, line in zip(keys, lines, strict=True)
            for row in json.loads(line)
        ]
        temporary = path / f".{self.table}"
        try:
            pd.DataFrame(rows).to_parquet(temporary, index=False, compression="zstd")
            os.replace(temporary, path / self.table)
        finally:
            temporary.unlink(missing_ok=True)

    def take_up(self, path: Path, keys: Sequence[Key]) -> list[bytes]:
        """The whole lines; written again from the table of a run that ended with failures."""
        lines = whole_lines(path / self.lines)
        if lines or not keys or not (path / self.table).is_file():
            return lines
        found = self._unfold(path / self.table)
        lines = [json.dumps(found.get(key, [])).encode() + b"\n" for key in keys]
        (path / self.lines).write_bytes(b"".join(lines))
        return lines

    def _unfold(self, file: Path) -> dict[Key, list[Row]]:
        import pyarrow.parquet as pq

        found: dict[Key, list[Row]] = {}
        for row in pq.read_table(file).to_pylist():
            key = tuple(row.pop(name) for name in KEY)
            found.setdefault(key, []).append(self.unpack(row))
        return found


def _same(row: Row) -> Row:
    return row


STEPS = Side("steps.jsonl", "steps.parquet", _same, _same)
TREES = Side("trees.jsonl", "trees.parquet", packed, unpacked)


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


def keep_lines(path: Path, lines: Sequence[bytes], kept: Sequence[int]) -> None:
    """Reduce the file to the kept lines; their bytes do not change."""
    if len(kept) < len(lines):
        log.warning("%s: %d rows are measured again", path, len(lines) - len(kept))
    content = b"".join(lines[i] for i in kept)
    if not path.is_file() or path.read_bytes() != content:
        temporary = path.with_name(f".{path.name}")
        temporary.write_bytes(content)
        os.replace(temporary, path)

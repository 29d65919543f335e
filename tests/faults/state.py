"""What a run's files hold, read without the harness: bytes of rows, and what belongs to them."""

from __future__ import annotations

import base64
import json
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

Key = tuple[str, int, int]
KEY = ("prompt_id", "turn", "repeat")
SIDES = ("steps", "telemetry", "trees")
SUMMARY = "result.json"


@dataclass(frozen=True)
class Generation:
    """A finished generation: its line in requests.jsonl, and its rows in the other files.

    beside: canonical JSON by file, None where the rows cannot be read.
    """

    row: bytes
    beside: Mapping[str, str | None]

    @property
    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.row)
        return found

    def rows(self, side: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self.beside[side] or "[]")
        return found


def runs(results: Path) -> list[Path]:
    """Every run directory."""
    return sorted(file.parent for file in results.glob("*/*/requests.jsonl"))


def generations(run: Path) -> dict[Key, Generation]:
    """The whole rows without an error, the first of each key."""
    rows: dict[Key, bytes] = {}
    for raw, values in _lines(run / "requests.jsonl"):
        key = key_of(values)
        if key is not None and values.get("error_class") is None:
            rows.setdefault(key, raw)
    sides = {side: _side(run, side) for side in SIDES}
    return {
        key: Generation(raw, {side: _of(found, key) for side, found in sides.items()})
        for key, raw in rows.items()
    }


def keys(run: Path) -> Counter[Key]:
    """How often each generation stands in requests.jsonl."""
    found = (key_of(values) for _, values in _lines(run / "requests.jsonl"))
    return Counter(key for key in found if key is not None)


def summary(run: Path) -> dict[str, Any] | None:
    """result.json, None where it is missing or damaged."""
    try:
        found = json.loads((run / SUMMARY).read_bytes())
    except (OSError, ValueError):
        return None
    return found if isinstance(found, dict) else None


def _lines(file: Path) -> Iterator[tuple[bytes, dict[str, Any]]]:
    content = file.read_bytes() if file.is_file() else b""
    for raw in content.split(b"\n")[:-1]:
        if (values := _object(raw)) is not None:
            yield raw, values


def _object(raw: bytes) -> dict[str, Any] | None:
    try:
        values = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    return values if isinstance(values, dict) else None


def key_of_line(raw: bytes) -> Key | None:
    """The generation that the bytes of a line name."""
    values = _object(raw)
    return None if values is None else key_of(values)


def key_of(values: Mapping[str, Any]) -> Key | None:
    """The generation that a line names."""
    prompt, turn, repeat = (values.get(name) for name in KEY)
    if isinstance(prompt, str) and isinstance(turn, int) and isinstance(repeat, int):
        return prompt, turn, repeat
    return None


def _side(run: Path, side: str) -> dict[Key, list[Any]] | None:
    """Rows by generation; from the table of a run that ended, else from the lines.

    None where there is no file, and so no row; of a table that cannot be read nothing is known.
    """
    table, lines = run / f"{side}.parquet", run / f"{side}.jsonl"
    folded = _table(table) if table.is_file() else None
    if folded is not None and ((run / SUMMARY).is_file() or not lines.is_file()):
        return folded
    if not lines.is_file():
        return folded
    named = ((key_of(values), values) for _, values in _lines(lines))
    found = _Empty(folded) if isinstance(folded, _Empty) else dict[Key, list[Any]]()
    found |= {key: one["rows"] for key, one in named if key is not None and "rows" in one}
    return found


class _Empty(dict[Key, list[Any]]):
    """Of a table that can be read: a generation without rows has none."""

    def get(self, key: Key, default: Any = None) -> Any:  # type: ignore[override]
        return super().get(key, [])


def _table(file: Path) -> dict[Key, list[Any]]:
    found = _Empty()
    try:
        for row in pq.read_table(file, page_checksum_verification=True).to_pylist():
            found.setdefault(tuple(row.pop(name) for name in KEY), []).append(row)
    except Exception:
        return {}
    return found


def _of(found: dict[Key, list[Any]] | None, key: Key) -> str | None:
    if found is None:
        return "[]"
    rows = found.get(key)
    return None if rows is None else json.dumps(_plain(rows), sort_keys=True)


def _plain(value: Any) -> Any:
    """The same for a value read from JSON and from parquet, where every number is a float."""
    if isinstance(value, Mapping):
        return {name: one for name, part in value.items() if (one := _plain(part)) is not None}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [_plain(part) for part in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return None if math.isnan(value) else float(value)
    return value

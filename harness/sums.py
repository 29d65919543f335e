"""What a run looked like when it ended: a sum of every file, kept in its summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from harness.atomic import sha256

RESULT = "result.json"
FILES = "files"
AGAIN = "restore it, or run the same command again: whole rows are kept"


def sums(path: Path, names: tuple[str, ...]) -> dict[str, str]:
    """SHA-256 of those of these files that are there."""
    return {name: sha256(path / name) for name in names if (path / name).is_file()}


def written_sums(path: Path) -> dict[str, str] | None:
    """The sums in a run's summary; None without one, {} in one of an older version."""
    try:
        found = json.loads((path / RESULT).read_bytes()).get(FILES, {})
    except (OSError, ValueError, AttributeError):
        return None
    return found if isinstance(found, dict) else {}


def matches(file: Path, written: str | None) -> bool:
    """Whether the file is the one that was written."""
    return written is not None and file.is_file() and sha256(file) == written


def changed(path: Path, written: Mapping[str, str]) -> str | None:
    """Which file of a run that ended is not the one that was written, and what to do."""
    for name, expected in written.items():
        if not matches(path / name, expected):
            what = "has changed since the run ended" if (path / name).exists() else "is missing"
            return f"{name} {what}: {AGAIN}"
    return None

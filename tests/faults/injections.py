"""Harm to the files of a sweep that is not running, at random places."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from tests.faults.state import runs

LINES = ("requests.jsonl", "steps.jsonl", "telemetry.jsonl", "warmup.jsonl")
TABLES = ("steps.parquet", "telemetry.parquet")
SMALL = ("result.json", "config.yaml", "provenance.json", "cost_table.json")
LONGEST = 64
Harm = Callable[[bytes, random.Random], bytes]


def cut(content: bytes, rng: random.Random) -> bytes:
    """The file ends at any byte."""
    return content[: rng.randrange(len(content))]


def garble(content: bytes, rng: random.Random) -> bytes:
    """Some bytes are others."""
    return _overwritten(content, rng.randbytes(rng.randint(1, LONGEST)), rng)


def zero(content: bytes, rng: random.Random) -> bytes:
    """Some bytes are NUL, as after a power cut."""
    return _overwritten(content, bytes(rng.randint(1, 8 * LONGEST)), rng)


def double(content: bytes, rng: random.Random) -> bytes:
    """A line stands there once more."""
    lines = content.splitlines(keepends=True)
    return content + rng.choice(lines)


def half(content: bytes, rng: random.Random) -> bytes:
    """The beginning of a line stands behind the last one."""
    line = content.splitlines(keepends=True)[-1]
    return content + line[: rng.randrange(1, len(line))]


def _overwritten(content: bytes, harm: bytes, rng: random.Random) -> bytes:
    start = rng.randrange(len(content))
    return (content[:start] + harm + content[start + len(harm) :])[: len(content)]


KINDS: dict[str, tuple[tuple[str, ...], Harm]] = {
    "lines cut": (LINES, cut),
    "lines garbled": (LINES, garble),
    "lines zeroed": (LINES, zero),
    "line twice": (LINES[:1], double),
    "half a line": (LINES, half),
    "table cut": (TABLES, cut),
    "table garbled": (TABLES, garble),
    "small file cut": (SMALL, cut),
    "small file garbled": (SMALL, garble),
    "small file emptied": (SMALL, lambda content, rng: b""),
}
DELETED = "file deleted"
NAMES = (*KINDS, DELETED)


def inject(name: str, results: Path, rng: random.Random) -> str | None:
    """Harm one file of this kind; which one, None where there is none yet."""
    names, harm = KINDS.get(name, ((*LINES, *TABLES, *SMALL), None))
    files = [run / one for run in runs(results) for one in names]
    there = [file for file in files if file.is_file() and file.stat().st_size]
    if not there:
        return None
    file = rng.choice(there)
    if harm is None:
        file.unlink()
    else:
        file.write_bytes(harm(file.read_bytes(), rng))
    return f"{name}: {file.relative_to(results)}"

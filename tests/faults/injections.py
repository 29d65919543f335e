"""Harm to the files of a sweep that is not running, at random places."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.faults.state import Key, key_of_line, runs

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


@dataclass(frozen=True)
class Injection:
    """One file, before and after; after is None where it was deleted."""

    kind: str
    file: Path
    before: bytes
    after: bytes | None

    @property
    def lasts(self) -> bool:
        """Whether the file still is what the injection made of it."""
        return (self.file.read_bytes() if self.file.is_file() else None) == self.after

    def hit(self) -> set[Key] | None:
        """Generations whose lines it changed; None for all of the run's, when a table is hit."""
        if self.file.name in TABLES:
            return None
        left = set((self.after or b"").splitlines(keepends=True))
        return {
            key
            for raw in self.before.splitlines(keepends=True)
            if raw not in left and (key := key_of_line(raw)) is not None
        }

    def __str__(self) -> str:
        return f"{self.kind}: {self.file.parent.name}/{self.file.name}"


def inject(kind: str, results: Path, rng: random.Random) -> Injection | None:
    """Harm one file of this kind; None where there is none yet."""
    names, harm = KINDS.get(kind, ((*LINES, *TABLES, *SMALL), None))
    files = [run / one for run in runs(results) for one in names]
    there = [file for file in files if file.is_file() and file.stat().st_size]
    if not there:
        return None
    file = rng.choice(there)
    before = file.read_bytes()
    after = None if harm is None else harm(before, rng)
    if after is None:
        file.unlink()
    else:
        file.write_bytes(after)
    return Injection(kind, file, before, after)

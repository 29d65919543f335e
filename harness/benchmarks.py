"""Six question sets, one shape: a benchmark is a list of prompts, wherever they come from."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.config import ROOT, BenchmarkChoice, BenchmarkConfig
from harness.hub import hub_rows

SOURCES = ("auto", "lab", "hub", "file")


@dataclass(frozen=True)
class Prompt:
    """One question: the user's turns, reference answers (none, or one a turn), its origin."""

    prompt_id: str
    turns: tuple[str, ...]
    references: tuple[str, ...]
    source: str

    @property
    def hash(self) -> str:
        """Content hash of the turns; equal texts have equal hashes wherever they came from."""
        return hashlib.sha256(json.dumps(self.turns).encode()).hexdigest()


def content_hash(prompts: Iterable[Prompt]) -> str:
    """Hash of ids and turns in order: what a run measured, independent of file names."""
    rows = [(prompt.prompt_id, prompt.turns) for prompt in prompts]
    return hashlib.sha256(json.dumps(rows).encode()).hexdigest()


def members(choice: BenchmarkChoice) -> list[BenchmarkConfig]:
    """The single set, or every member of a collection, in the order of the file."""
    return list(choice.members.values()) or [choice]


def load(config: BenchmarkConfig, lab: bool, limit: int | None) -> list[Prompt]:
    """The first `limit` prompts of the set (None: all). InputError when there are fewer."""
    source = _source(config, lab)
    rows, where = _rows(config, source)
    prompts = parse(rows, config.name, source, where)
    if limit is not None and limit > len(prompts):
        raise InputError(
            f"benchmark {config.name} is smaller than limit",
            seen=limit,
            allowed=f"1..{len(prompts)}",
            hint="limit=null takes all of them",
        )
    return prompts[:limit]


def load_file(path: Path, name: str, source: str) -> list[Prompt]:
    """Prompts of a local JSONL file, one object with `turns` a line."""
    return parse(read_jsonl(path), name, source, str(path))


def check_disjoint(measured: Sequence[Prompt], calibration: Sequence[Prompt]) -> None:
    """InputError when a calibration or warm-up prompt is also measured (compared by content)."""
    warm = {prompt.hash: prompt.prompt_id for prompt in calibration}
    for prompt in measured:
        if prompt.hash in warm:
            raise InputError(
                "a calibration prompt is also measured",
                seen=f"{warm[prompt.hash]} = {prompt.prompt_id}",
                hint="take it out of the calibration file, or choose another with calibration=",
            )


def check_references(prompts: Sequence[Prompt]) -> None:
    """InputError when a later turn would have no reference answer to follow."""
    for prompt in prompts:
        if len(prompt.references) < len(prompt.turns) - 1:
            raise InputError(
                f"{prompt.prompt_id} has no reference answer for every turn",
                seen=len(prompt.references),
                allowed=f"{len(prompt.turns) - 1} or more",
                hint="history=own",
            )


def parse(rows: Iterable[tuple[int, Any]], name: str, source: str, where: str) -> list[Prompt]:
    """Turn numbered rows into prompts; InputError names the line that is wrong."""
    prompts: dict[str, Prompt] = {}
    for line, row in rows:
        prompt = _prompt(row, line, name, source, where)
        if prompt.prompt_id in prompts:
            raise InputError(f"{where}:{line}: id used twice", seen=prompt.prompt_id)
        prompts[prompt.prompt_id] = prompt
    if not prompts:
        raise InputError(f"{where}: no prompts", hint="one JSON object with `turns` a line")
    return list(prompts.values())


def read_jsonl(path: Path) -> list[tuple[int, Any]]:
    """(line number, object) for each line; InputError names a line that is not JSON."""
    if not path.is_file():
        raise InputError("prompt file not found", seen=path)
    rows = []
    for line, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        try:
            rows.append((line, json.loads(text)))
        except ValueError as error:
            raise InputError(
                f"{path}:{line}: not JSON ({error})",
                seen=text[:60],
                allowed='one object a line, such as {"turns": ["..."]}',
            ) from None
    return rows


def _source(config: BenchmarkConfig, lab: bool) -> str:
    if config.source not in SOURCES:
        raise InputError("benchmark.source", seen=config.source, allowed=", ".join(SOURCES))
    if config.source != "auto":
        return config.source
    if config.path is not None:
        return "file"
    return "lab" if lab else "hub"


def _rows(config: BenchmarkConfig, source: str) -> tuple[list[tuple[int, Any]], str]:
    if source == "hub":
        if config.hub is None:
            raise InputError(f"benchmark {config.name} has no hub entry", hint="benchmark.path=...")
        rows = enumerate(hub_rows(config.name, config.hub), start=1)
        return list(rows), f"{config.hub.dataset}@{config.hub.revision}"
    path = config.path if source == "file" else config.bundled
    if path is None:
        raise InputError(f"benchmark {config.name} names no {source} file", hint="benchmark.path=")
    place = Path(path) if source == "file" else ROOT / path
    return read_jsonl(place), path


def _prompt(row: Any, line: int, name: str, source: str, where: str) -> Prompt:
    turns = row.get("turns") if isinstance(row, dict) else None
    if not isinstance(turns, list) or not all(isinstance(turn, str) for turn in turns):
        raise InputError(f"{where}:{line}: `turns` must be a list of texts", seen=str(row)[:60])
    if not turns or not all(turn.strip() for turn in turns):
        raise InputError(f"{where}:{line}: empty prompt", seen=turns)
    own = row.get("prompt_id", row.get("question_id", line - 1))
    return Prompt(f"{name}-{own}", tuple(turns), _references(row.get("reference")), source)


def _references(found: Any) -> tuple[str, ...]:
    """A text, a list of texts (one a turn), or nothing usable."""
    answers = [found] if isinstance(found, str) else found
    if not isinstance(answers, list) or not all(isinstance(one, str) for one in answers):
        return ()
    return tuple(answers)

"""What makes two measurements the same run, a pair, or neighbours in one table."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evict.errors import InputError

SAMPLE = 1 << 20


def digest(values: object) -> str:
    """Hash of plain data, independent of the order of keys."""
    text = json.dumps(values, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def input_hash(ids: Sequence[int]) -> str:
    """What a request was asked: a hash of its prompt's token ids."""
    return hashlib.sha256(repr(list(ids)).encode()).hexdigest()[:16]


def request_seed(seed: int, prompt_id: str, turn: int, repeat: int) -> int:
    """The same for every method, different for every generation; below 2**31."""
    text = f"{seed}/{prompt_id}/{turn}/{repeat}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


@dataclass(frozen=True)
class Identity:
    """What changes a measurement, and nothing else: equal identities are the same run."""

    model: dict[str, Any]
    method: dict[str, Any]
    prompts: str
    sampling: dict[str, Any]
    engine: dict[str, Any]

    @property
    def run_hash(self) -> str:
        """The run itself."""
        return digest([self.model, self.method, self.prompts, self.sampling, self.engine])

    @property
    def method_hash(self) -> str:
        """The method's settings alone."""
        return digest(self.method)

    def settings_hash(self, limit: int | None) -> str:
        """Equal for the runs of one table: any method, any benchmark, as many prompts."""
        return digest([self.model, self.sampling, self.engine, limit])

    @property
    def pair_hash(self) -> str:
        """Equal for runs that differ in nothing but their method."""
        return digest([self.model, self.prompts, self.sampling, self.engine])


def file_hash(file: Path) -> str:
    """Hash of a small file's content; InputError where there is none."""
    if not file.is_file():
        raise InputError("no such file", seen=file)
    return hashlib.sha256(file.read_bytes()).hexdigest()


def folder_hash(*folders: Path) -> str:
    """Hash of checkpoint folders: every file's name, size and 1 MiB from each end.

    Checkpoints reach hundreds of GiB, so they are sampled and never read whole.
    """
    found = hashlib.sha256()
    for file in (file for folder in folders for file in sorted(folder.iterdir())):
        if file.is_file():
            size = file.stat().st_size
            found.update(f"{file.name}:{size}".encode())
            with file.open("rb") as handle:
                found.update(handle.read(SAMPLE))
                handle.seek(max(0, size - SAMPLE))
                found.update(handle.read())
    return found.hexdigest()


def run_path(
    results: Path, experiment: str, names: Sequence[str], temperature: float, engine: str, key: str
) -> Path:
    """<results>/<experiment>/<model>-<method>-<benchmark>-T<temp>-<engine>-<hash8>."""
    parts = [*names, f"T{temperature:g}", engine, key[:8]]
    return results / experiment / "-".join(parts)


def machine_hash(provenance: dict[str, Any]) -> str:
    """What must agree for two speeds to be comparable: the engine as read back, the processor."""
    return digest([provenance.get("engine"), provenance.get("cpu"), provenance.get("gpus")])

"""Reading a packed results folder: every file is checked against the sum written beside it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from evict.cost import CostTable
from evict.errors import InputError
from harness.collection import Collection
from harness.facts import Facts
from harness.pack_columns import large_steps, large_trees, read_rows
from harness.records import SCHEMA_VERSION

INDEX = "pack.json"
LARGE = {"requests": read_rows, "steps": large_steps, "trees": large_trees, "telemetry": read_rows}


def read_pack(path: Path) -> Collection:
    """The packed runs under their own names.

    Raises InputError for another schema, and for a missing or changed file, which it names.
    """
    index = _checked(path)
    rows = _json_lines(path / "runs.jsonl")
    tables = json.loads((path / "costs.json").read_text(encoding="utf-8"))
    costs = [CostTable.from_dict(table, f"{path / 'costs.json'}") for table in tables]
    frames = {name: _frame(path, name, large) for name, large in LARGE.items()}
    return Collection(
        runs=pd.DataFrame([row["values"] for row in rows]),
        **frames,
        costs={
            str(row["values"]["run"]): costs[row["links"]["cost"]]
            for row in rows
            if row["links"]["cost"] is not None
        },
        left_out=dict(index["left_out"]),
    )


def read_pack_facts(path: Path) -> dict[str, Facts]:
    """Facts of each packed run; InputError as in `read_pack`."""
    _checked(path)
    configs, parts = _json_lines(path / "configs.jsonl"), _json_lines(path / "provenance.jsonl")
    return {
        str(row["values"]["run"]): Facts(
            dict(configs[i] for i in row["links"]["config"]),
            [parts[i] for i in row["links"]["provenance"]],
        )
        for row in _json_lines(path / "runs.jsonl")
    }


def _checked(path: Path) -> dict[str, Any]:
    index: dict[str, Any] = json.loads((path / INDEX).read_text(encoding="utf-8"))
    version = index.get("schema_version")
    if version != SCHEMA_VERSION:
        raise InputError(f"{path}: schema version", seen=version, allowed=SCHEMA_VERSION)
    for name, expected in index["files"].items():
        file = path / name
        found = sha256(file) if file.is_file() else "no such file"
        if found != expected:
            raise InputError(
                f"packed file {name} is not the one that was written",
                seen=f"{file}: {found}",
                allowed=expected,
                hint="restore it, or pack again: python -m harness.pack RESULTS OUT",
            )
    return index


def _frame(path: Path, name: str, large: Callable[[Path], pd.DataFrame]) -> pd.DataFrame:
    file = path / f"{name}.parquet"
    return large(file) if file.is_file() else pd.DataFrame()


def _json_lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


def sha256(file: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    return hashlib.sha256(file.read_bytes()).hexdigest()

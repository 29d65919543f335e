"""Every finished run under a folder, as tables. Reads files only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evict.cost import CostTable
from evict.errors import InputError
from harness.collect_checks import copies
from harness.collection import Collection
from harness.facts import Facts, read_facts
from harness.lines import TREES, whole_lines
from harness.records import SCHEMA_VERSION, RunResult
from harness.store import read_result
from harness.unpack import INDEX, read_pack, read_pack_facts


@dataclass
class _Found:
    runs: list[dict[str, Any]] = field(default_factory=list)
    requests: list[pd.DataFrame] = field(default_factory=list)
    steps: list[pd.DataFrame] = field(default_factory=list)
    trees: list[pd.DataFrame] = field(default_factory=list)
    costs: dict[str, CostTable] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, data: Collection) -> None:
        """Take in runs that were packed."""
        self.runs += data.runs.to_dict("records")  # type: ignore[arg-type]
        self.requests.append(data.requests)
        self.steps.append(data.steps)
        if len(data.trees):
            self.trees.append(data.trees)
        self.costs |= data.costs
        self.left_out |= data.left_out


def collect(results: Path) -> Collection:
    """Read every run directory and packed folder below `results`.

    Cut and failed runs, older schemas and second copies are named in `left_out`, not read. Raises
    InputError for a packed folder whose files are not the ones that were written.
    """
    found = _Found()
    for path in sorted(file.parent for file in results.glob("**/requests.jsonl")):
        _read(path, str(path.relative_to(results)), found)
    for pack in sorted(file.parent for file in results.glob(f"**/{INDEX}")):
        found.add(read_pack(pack))
    data = Collection(
        runs=pd.DataFrame(found.runs),
        requests=_joined(found.requests),
        steps=_joined(found.steps),
        trees=_joined(found.trees),
        costs=found.costs,
        left_out=found.left_out,
    )
    extra = copies(data.runs, data.requests)
    if not extra:
        return data
    return data.select(set(data.runs["run"]) - set(extra), found.left_out | extra)


def _read(path: Path, name: str, found: _Found) -> None:
    result = read_result(path)
    reason = unusable(path, result)
    if result is None or reason:
        found.left_out[name] = reason or "cut"
        return
    rows = [json.loads(line) for line in whole_lines(path / "requests.jsonl")]
    found.runs.append({"run": name, **result.to_dict()})
    found.requests.append(pd.DataFrame(rows).assign(run=name))
    found.steps.append(pd.read_parquet(path / "steps.parquet").assign(run=name))
    if (path / TREES.table).is_file():
        found.trees.append(pd.read_parquet(path / TREES.table).assign(run=name))
    cost = _cost(path / "cost_table.json")
    if cost is not None:
        found.costs[name] = cost


def unusable(path: Path, result: RunResult | None) -> str | None:
    """Why no number may come from a run directory; None when it is fine."""
    version = _schema(path)
    if version is not None and version != SCHEMA_VERSION:
        return (
            f"schema version {version}; this version reads {SCHEMA_VERSION}: "
            "run the same command again"
        )
    if result is None:
        return "cut: the same command resumes it"
    if result.status == "failed":
        return "failed: " + ("; ".join(result.reasons) or "no request succeeded")
    if not (path / "steps.parquet").is_file():
        return "steps.parquet is missing"
    return None


def _schema(path: Path) -> int | None:
    try:
        return int(json.loads((path / "result.json").read_text())["schema_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cost(path: Path) -> CostTable | None:
    try:
        return CostTable.load(path)
    except InputError:
        return None


def _joined(frames: list[pd.DataFrame]) -> pd.DataFrame:
    return pd.concat(frames, ignore_index=True) if frames else pd.DataFrame()


def collect_facts(results: Path, runs: Iterable[str]) -> dict[str, Facts]:
    """Facts of these runs of a results folder, from their directories or the packs in it."""
    packs = sorted(file.parent for file in results.glob(f"**/{INDEX}"))
    packed = {run: fact for pack in packs for run, fact in read_pack_facts(pack).items()}
    return {
        run: read_facts(results / run) if (results / run).is_dir() else packed.get(run, Facts())
        for run in runs
    }

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
from harness.collect_checks import copies, went_back
from harness.collection import Collection
from harness.facts import Facts, read_facts
from harness.lines import SIDES, STEPS, TELEMETRY, TREES, Damaged, frame
from harness.records import SCHEMA_VERSION, RunResult
from harness.sealed import read_lines
from harness.store import REQUESTS, damage, read_result
from harness.sums import AGAIN, RESULT
from harness.unpack import INDEX, read_pack, read_pack_facts
from harness.validity.judge import judge

CUT = "cut: the same command resumes it"


@dataclass
class _Found:
    runs: list[dict[str, Any]] = field(default_factory=list)
    requests: list[pd.DataFrame] = field(default_factory=list)
    steps: list[pd.DataFrame] = field(default_factory=list)
    trees: list[pd.DataFrame] = field(default_factory=list)
    telemetry: list[pd.DataFrame] = field(default_factory=list)
    costs: dict[str, CostTable] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)

    def add(self, data: Collection) -> None:
        """Take in runs that were packed."""
        self.runs += data.runs.to_dict("records")  # type: ignore[arg-type]
        self.requests.append(data.requests)
        self.steps.append(data.steps)
        if len(data.trees):
            self.trees.append(data.trees)
        if len(data.telemetry):
            self.telemetry.append(data.telemetry)
        self.costs |= data.costs
        self.left_out |= data.left_out


def collect(results: Path) -> Collection:
    """Read every run directory and packed folder below `results`, and judge every run.

    Named in `left_out`, not read: runs that were cut, failed or damaged, older schemas, second
    copies, runs that hold a generation twice or a time below zero. Raises InputError for a packed
    folder whose files are not the ones that were written.
    """
    found = _Found()
    for path in sorted(_places(results)):
        _read(path, str(path.relative_to(results)), found)
    for pack in sorted(file.parent for file in results.glob(f"**/{INDEX}")):
        found.add(read_pack(pack))
    data = Collection(
        runs=pd.DataFrame(found.runs),
        requests=_joined(found.requests),
        steps=_joined(found.steps),
        trees=_joined(found.trees),
        telemetry=_joined(found.telemetry),
        costs=found.costs,
        left_out=found.left_out,
    )
    extra = went_back(data.requests, data.steps) | copies(data.runs, data.requests)
    if extra:
        data = data.select(set(data.runs["run"]) - set(extra), found.left_out | extra)
    return judge(data)


def _places(results: Path) -> set[Path]:
    """Every directory that holds a run, or what is left of one."""
    return {file.parent for name in (REQUESTS, RESULT) for file in results.glob(f"**/{name}")}


def _read(path: Path, name: str, found: _Found) -> None:
    result = read_result(path)
    reason = unusable(path, result)
    if result is None or reason:
        found.left_out[name] = reason or CUT
        return
    try:
        frames = {side: _frame(path / side.table) for side in SIDES}
    except Damaged as error:
        found.left_out[name] = f"{error}: {AGAIN}"
        return
    rows = [line.values for line in read_lines(path / REQUESTS)]
    found.runs.append({"run": name, **result.to_dict()})
    found.requests.append(pd.DataFrame(rows).assign(run=name))
    kept = {STEPS: found.steps, TREES: found.trees, TELEMETRY: found.telemetry}
    for side, one in frames.items():
        if one is not None:
            kept[side].append(one.assign(run=name))
    cost = _cost(path / "cost_table.json")
    if cost is not None:
        found.costs[name] = cost


def _frame(file: Path) -> pd.DataFrame | None:
    return frame(file) if file.exists() else None


def unusable(path: Path, result: RunResult | None) -> str | None:
    """Why no number may come from a run directory; None when it is fine."""
    version = _schema(path)
    if version is not None and version != SCHEMA_VERSION:
        return (
            f"schema version {version}; this version reads {SCHEMA_VERSION}: "
            "run the same command again"
        )
    if result is None:
        return CUT
    if not result.requests_ok:
        return "failed: " + ("; ".join(result.reasons) or "no request succeeded")
    return damage(path, result)


def _schema(path: Path) -> int | None:
    try:
        return int(json.loads((path / RESULT).read_bytes())["schema_version"])
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _cost(path: Path) -> CostTable | None:
    try:
        return CostTable.load(path)
    except (InputError, OSError):
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

"""Every finished run under a folder, as tables. Reads files only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from evict.cost import CostTable
from evict.errors import InputError
from harness.records import RunResult
from harness.store import read_result, whole_lines


@dataclass(frozen=True)
class Collection:
    """runs: a row per run; requests, steps: a row each, with the run's directory in `run`.

    unfinished: directories that hold rows but no ended run, or a failed one.
    """

    runs: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    unfinished: list[str] = field(default_factory=list)

    def select(self, runs: set[str], unfinished: list[str]) -> Collection:
        """Only these run directories."""
        requests, steps = (
            frame[frame["run"].isin(runs)] if len(frame) else frame
            for frame in (self.requests, self.steps)
        )
        return Collection(self.runs[self.runs["run"].isin(runs)], requests, steps, unfinished)


def collect(results: Path) -> Collection:
    """Read every run directory below `results`; failed and cut ones are named, not read."""
    runs: list[dict[str, Any]] = []
    requests: list[dict[str, Any]] = []
    steps: list[pd.DataFrame] = []
    unfinished: list[str] = []
    for path in sorted(file.parent for file in results.glob("**/requests.jsonl")):
        name = str(path.relative_to(results))
        result = read_result(path)
        if result is None or result.status == "failed":
            unfinished.append(name)
            continue
        runs.append(_run_row(path, name, result))
        requests += [
            {"run": name, **json.loads(line)} for line in whole_lines(path / "requests.jsonl")
        ]
        steps.append(pd.read_parquet(path / "steps.parquet").assign(run=name))
    joined = pd.concat(steps, ignore_index=True) if steps else pd.DataFrame()
    return Collection(pd.DataFrame(runs), pd.DataFrame(requests), joined, unfinished)


def _run_row(path: Path, name: str, result: RunResult) -> dict[str, Any]:
    cost = path / "cost_table.json"
    table = None
    if cost.is_file():
        try:
            table = CostTable.load(cost)
        except InputError:
            table = None
    return {
        "run": name,
        **result.to_dict(),
        "ar_ms": table.ar_ms if table else None,
        "full_step_ms": table.step_ms[-1] if table else None,
        "beta": table.beta if table else None,
    }

"""Collected runs as data frames: what every table and figure starts from."""

from __future__ import annotations

from dataclasses import dataclass, field

import pandas as pd

from evict.cost import CostTable
from harness.trees import TreeRecord


@dataclass(frozen=True)
class Collection:
    """runs: a row per run; requests, steps, trees, telemetry: a row each, its directory in `run`.

    costs: the cost table of each run that has one. left_out: directories whose rows are in no
    table, and why: cut, failed, of an older schema, a second copy of a run.
    """

    runs: pd.DataFrame
    requests: pd.DataFrame
    steps: pd.DataFrame
    trees: pd.DataFrame = field(default_factory=pd.DataFrame)
    costs: dict[str, CostTable] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    telemetry: pd.DataFrame = field(default_factory=pd.DataFrame)

    def select(self, runs: set[str], left_out: dict[str, str] | None = None) -> Collection:
        """Only these run directories."""
        requests, steps, trees, telemetry = (
            frame[frame["run"].isin(runs)] if len(frame) else frame
            for frame in (self.requests, self.steps, self.trees, self.telemetry)
        )
        return Collection(
            runs=self.runs[self.runs["run"].isin(runs)] if len(self.runs) else self.runs,
            requests=requests,
            steps=steps,
            trees=trees,
            costs={run: cost for run, cost in self.costs.items() if run in runs},
            left_out=self.left_out if left_out is None else left_out,
            telemetry=telemetry,
        )

    def recorded_trees(self, run: str) -> list[TreeRecord]:
        """The recorded steps of one run, in order."""
        rows = self.trees[self.trees["run"] == run] if len(self.trees) else self.trees
        return [TreeRecord.from_row(row) for row in rows.to_dict("records")]

"""What came of one command line: its runs, the ones skipped, and how each of the others ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from harness.collect import collect
from harness.collection import Collection
from harness.records import RunResult
from harness.tuning import Tuning


@dataclass
class Outcome:
    """What happened: every run of the plan, the ones skipped, the status of the others."""

    runs: list[Path] = field(default_factory=list)
    skipped: list[Path] = field(default_factory=list)
    results: dict[Path, RunResult] = field(default_factory=dict)
    cost_folders: list[Path] = field(default_factory=list)
    tunings: list[Tuning] = field(default_factory=list)

    def collect(self, results: Path) -> Collection:
        """The plan's runs, and earlier ones of the same settings and benchmarks beside them."""
        data = collect(results)
        if data.runs.empty:
            return data
        names = {str(path.relative_to(results)) for path in self.runs}
        own = data.runs[data.runs["run"].isin(names)]
        keys = ["experiment", "settings_hash", "benchmark"]
        beside = data.runs[keys].merge(
            own[keys].drop_duplicates(), on=keys, how="left", indicator=True
        )
        chosen = set(data.runs.loc[(beside["_merge"] == "both").to_numpy(), "run"])
        left = {name: why for name, why in data.left_out.items() if name in names}
        return data.select(chosen, left)

    def exit_code(self, allow_partial: bool) -> int:
        """1 when a run failed, or is partial and that was not allowed."""
        accepted = {"ok", "partial"} if allow_partial else {"ok"}
        return int(any(result.status not in accepted for result in self.results.values()))

    def unfinished(self) -> dict[str, list[str]]:
        """Runs that are not whole, by directory name, with the reasons."""
        return {
            path.name: result.reasons
            for path, result in self.results.items()
            if result.status != "ok"
        }

"""One run as its files tell it: what every rule looks at. Built for all runs at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

import numpy as np
import pandas as pd

from harness.collection import Collection
from harness.records import TOKENLESS, RequestRecord, RunResult
from harness.telemetry.usage import Usage, usages
from harness.validity.step_totals import StepTotals, step_totals, tokens_by_request

NUMBERS = ("temperature", "decode_tokens", "started_ms", "ended_ms", "cached_tokens")
STEP_TOKENS = "step_tokens"
CPU = "cpu"
REQUIRED = {
    item.name: None
    for item in fields(RunResult)
    if item.default is MISSING and item.default_factory is MISSING
}


@dataclass(frozen=True)
class RunView:
    """One run. requests: a column each, a row per generation, `step_tokens` beside the record's.

    good: rows without an error. usage: what telemetry adds up to, None where nothing was sampled.
    """

    result: RunResult
    requests: Mapping[str, np.ndarray]
    good: np.ndarray
    steps: StepTotals = field(default_factory=StepTotals)
    usage: Usage | None = None

    @property
    def timed(self) -> bool:
        """Whether its times are measured speeds: no trees kept, and a model was run."""
        reasons = self.requests["finish_reason"][self.good]
        return not self.result.recorded and not (len(reasons) and TOKENLESS.issuperset(reasons))

    @property
    def complete(self) -> bool:
        """Whether all that this version writes down is there."""
        dated = ~np.isnan(self.requests["started_ms"][self.good])
        return bool(self.result.fingerprint) and bool(dated.all())

    @property
    def on_gpu(self) -> bool:
        """Whether the engine says that its device is no CPU."""
        return not str((self.result.engine_facts or {}).get("device", CPU)).startswith(CPU)

    def of_good(self, name: str) -> np.ndarray:
        """A column of the rows without an error."""
        column: np.ndarray = self.requests[name][self.good]
        return column


def views(data: Collection) -> Iterator[tuple[str, RunView]]:
    """Every run of a collection, in its order. Columns that a frame lacks are empty."""
    results = {str(row["run"]): _result(row) for row in data.runs.to_dict("records")}
    steps = step_totals(data.steps, {run: _experts(one) for run, one in results.items()})
    used = usages(data.telemetry, data.requests) if len(data.telemetry) else {}
    requests = _by_run(data, results)
    for run, result in results.items():
        own = requests[run]
        yield (
            run,
            RunView(
                result=result,
                requests=own,
                good=pd.isna(own["error_class"]),
                steps=steps.get(run, StepTotals()),
                usage=used.get(run),
            ),
        )


def _result(row: Mapping[Any, Any]) -> RunResult:
    """A run's summary; where an older one lacks a value, the default of today's schema."""
    known = {str(key): value for key, value in row.items() if not _nothing(value)}
    return RunResult.from_dict(REQUIRED | known)


def _nothing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and value != value)


def _experts(result: RunResult) -> tuple[int, int]:
    facts = result.engine_facts or {}
    return int(facts.get("experts") or 0), int(facts.get("experts_per_token") or 0)


def _by_run(data: Collection, runs: Iterable[str]) -> dict[str, dict[str, np.ndarray]]:
    """Columns of the requests of each run, as slices of one sorted copy."""
    names = [item.name for item in fields(RequestRecord)]
    columns = {name: _column(data.requests, name) for name in names}
    columns[STEP_TOKENS] = tokens_by_request(data.requests, data.steps)
    codes, found = pd.factorize(_column(data.requests, "run"))
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(found) + 1))
    ordered = {name: column[order] for name, column in columns.items()}
    places = {str(run): slice(edges[i], edges[i + 1]) for i, run in enumerate(found)}
    return {
        run: {name: column[places.get(run, slice(0))] for name, column in ordered.items()}
        for run in runs
    }


def _column(frame: pd.DataFrame, name: str) -> np.ndarray:
    number = name in NUMBERS
    if name not in frame:
        return np.full(len(frame), np.nan if number else None, dtype=float if number else object)
    return pd.to_numeric(frame[name]).to_numpy(float) if number else frame[name].to_numpy(object)

"""The summary of a run: its identity, what it was made with, how many requests succeeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime

from harness.compose import parameters
from harness.config import RunConfig
from harness.engines.base import EngineFacts
from harness.plan import Cell, Group
from harness.records import RequestRecord, RunResult, Status
from harness.store import RunDirectory


def verdict(
    config: RunConfig, cell: Cell, group: Group, run: RunDirectory, facts: EngineFacts
) -> RunResult:
    """The summary of a run whose rows are all there."""
    good = [row for row in run.records if row.error_class is None]
    errors = Counter(row.error_class for row in run.records if row.error_class is not None)
    reasons = [f"{count} of {len(run.records)} requests: {name}" for name, count in errors.items()]
    if len(set(run.machines)) > 1:
        reasons.append("rows from processes whose engine or machine differ: speed not compared")
    status: Status = "ok" if not errors else "partial" if good else "failed"
    return RunResult(
        status=status,
        reasons=reasons,
        run_hash=cell.identity.run_hash,
        pair_hash=cell.identity.pair_hash,
        settings_hash=cell.identity.settings_hash(config.limit),
        method_hash=cell.identity.method_hash,
        machine_hash=run.machines[0] if len(set(run.machines)) == 1 else None,
        experiment=config.name,
        model=config.model.name,
        model_label=config.model.label,
        lab=config.model.lab,
        method=cell.config.name,
        method_label=cell.config.label,
        rank=cell.config.rank,
        baseline=cell.config.baseline,
        parameters=parameters(cell.config),
        tuned=[cell.config.tune.parameter] if cell.config.tune else [],
        remark=cell.config.remark,
        scores=cell.config.scores,
        lossless=cell.config.lossless,
        recorded=config.record_trees,
        benchmark=cell.benchmark.name,
        source=group.prompts[0].source,
        temperature=config.temperature,
        history=config.history,
        repeats=config.repeats,
        engine=str(config.engine["name"]),
        engine_facts=asdict(facts),
        requests_ok=len(good),
        requests_error=len(run.records) - len(good),
        truncated_requests=sum(row.truncated_tokens > 0 for row in good),
        engine_ms=_total(good, "engine_ms"),
        wall_ms=_total(good, "wall_ms"),
        finished_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
    )


def _total(rows: Sequence[RequestRecord], name: str) -> float:
    return float(sum(getattr(row, name) or 0.0 for row in rows))

"""The summary of a run: its identity, what it was made with, how many requests succeeded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness.compose import parameters
from harness.config import RunConfig
from harness.engines.base import EngineFacts
from harness.plan import Cell, Group
from harness.records import RequestRecord, RunResult, Status
from harness.store import RunDirectory, read_warmup
from harness.validity.fingerprint import fingerprint
from harness.warm_up import spans


@dataclass(frozen=True)
class Evidence:
    """What is known of a run beside its rows.

    read_back: the engine's own account for this method. ended: why the run ended early. outputs:
    what the check against plain decoding found.
    """

    facts: EngineFacts
    read_back: Mapping[str, str] = field(default_factory=dict)
    absent: Mapping[str, str] = field(default_factory=dict)
    ended: str | None = None
    outputs: dict[str, Any] | None = None


def run_result(
    config: RunConfig, cell: Cell, group: Group, run: RunDirectory, evidence: Evidence
) -> RunResult:
    """The summary of a run that has ended, whole or not."""
    good = [row for row in run.records if row.error_class is None]
    turns = sum(len(prompt.turns) for prompt in group.prompts)
    missing = config.repeats * turns - len(run.records)
    facts = asdict(evidence.facts)
    return RunResult(
        status=_status(good, run, missing, evidence),
        reasons=_reasons(run, missing, evidence),
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
        engine_facts=facts,
        requests_ok=len(good),
        requests_error=len(run.records) - len(good),
        truncated_requests=sum(row.truncated_tokens > 0 for row in good),
        engine_ms=_total(good, "engine_ms"),
        wall_ms=_total(good, "wall_ms"),
        finished_at=f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        drafter=cell.config.drafter,
        replica=cell.config.replica,
        fingerprint=fingerprint(cell.identity, facts, run.provenance[-1], evidence.read_back),
        warmup=spans(read_warmup(run.path)),
        absent=dict(evidence.absent),
        outputs=evidence.outputs,
        requests_missing=missing,
    )


def _status(
    good: Sequence[RequestRecord], run: RunDirectory, missing: int, evidence: Evidence
) -> Status:
    if not good or _faults(evidence):
        return "failed"
    return "ok" if len(good) == len(run.records) and not missing else "partial"


def _reasons(run: RunDirectory, missing: int, evidence: Evidence) -> list[str]:
    errors = Counter(row.error_class for row in run.records if row.error_class is not None)
    reasons = [f"{count} of {len(run.records)} requests: {name}" for name, count in errors.items()]
    if missing:
        reasons.append(f"{missing} generations not made: {evidence.ended or 'ended early'}")
    if len(set(run.machines)) > 1:
        reasons.append("rows from processes whose engine or machine differ: speed not compared")
    if faults := _faults(evidence):
        reasons.append(f"{faults} greedy outputs differ from plain decoding's without excuse")
    return reasons


def _faults(evidence: Evidence) -> int:
    return int((evidence.outputs or {}).get("counts", {}).get("fault", 0))


def _total(rows: Sequence[RequestRecord], name: str) -> float:
    return float(sum(getattr(row, name) or 0.0 for row in rows))

"""A run written to files as a real one leaves them: clean, or with a single fault."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.engines.base import EngineFacts
from harness.identity import Identity, input_hash
from harness.records import RequestRecord, RunResult, StepRecord
from harness.store import RunDirectory
from harness.telemetry.sample import CPU, Sample
from harness.validity.fingerprint import fingerprint
from tests.support.steps import steps

SECONDS, GAP_MS, WARM_MS, CORES = 0.9, 1000.0, 50.0, 8
FACTS = EngineFacts(
    engine="fake",
    model="sample",
    dtype="bfloat16",
    device="cpu (sample processor)",
    threads=1,
    layers=2,
    experts=8,
    experts_per_token=2,
    context_length=4096,
    draft_vocab=64,
    weights_hash="0",
    versions={"torch": "2.13.0"},
    settings={"attention_backend": "triton"},
)
PROVENANCE: dict[str, Any] = {
    "cpu": "sample processor",
    "cores": CORES,
    "packages": {"torch": "2.13.0", "pandas": "3.1.1"},
    "git": {"commit": "c0ffee", "dirty": False, "diff_hash": None},
    "gpus": [],
}
Window = Callable[[], list[Sample]]
Alter = Callable[[RequestRecord, list[StepRecord]], None]


def _unaltered(record: RequestRecord, own: list[StepRecord]) -> None:
    """Leave the generation as it is."""


@dataclass
class Recorded:
    """A run of one method on a CPU that nobody else uses; nothing speaks against it.

    others: cores that other processes keep busy. window: samples of one generation instead of the
    processor's. alter: changes a generation before it is written. result: fields of RunResult.
    """

    method: str = "evict"
    baseline: str | None = None
    drafter: str = "trie"
    benchmark: str = "gsm8k"
    temperature: float = 0.0
    prompts: int = 4
    repeats: int = 1
    part: str = "part-0"
    step_ms: float = 10.0
    others: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    read_back: dict[str, str] = field(default_factory=dict)
    window: Window | None = None
    alter: Alter = _unaltered
    result: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The run's directory, below the results folder."""
        return f"paper/{self.method}-{self.benchmark}-T{self.temperature:g}"

    def write(self, results: Path) -> Path:
        """The run's directory, as a real run leaves it."""
        engine = {**asdict(FACTS), **self.facts}
        part = {**PROVENANCE, "part": self.part, **self.provenance, "engine": engine}
        run = RunDirectory.open(results / self.name, {"method": self.method}, part)
        for index in range(self.prompts * self.repeats):
            record, own = self._generation(index)
            self.alter(record, own)
            run.append(record, own, samples=self._samples(record))
        run.finish(self._result(run, part))
        return results / self.name

    def _generation(self, index: int) -> tuple[RequestRecord, list[StepRecord]]:
        own = self._steps()
        repeat, prompt = divmod(index, self.prompts)
        began = WARM_MS + 50.0 + GAP_MS * index
        tokens = sum(step.committed for step in own)
        record = RequestRecord(
            prompt_id=f"{self.benchmark}-{prompt}",
            turn=0,
            repeat=repeat,
            order=0,
            seed=index,
            temperature=self.temperature,
            input_hash=input_hash([prompt]),
            input_tokens=12,
            output_ids=list(range(100 + index, 101 + index + tokens)),
            decode_tokens=tokens,
            finish_reason="length",
            prefill_ms=5.0,
            decode_ms=sum(step.total_ms for step in own),
            engine_ms=SECONDS * 1e3,
            wall_ms=SECONDS * 1e3,
            started_ms=began,
            ended_ms=began + SECONDS * 1e3,
            cached_tokens=0,
            part=self.part,
        )
        return record, own

    def _steps(self) -> list[StepRecord]:
        one = [(0, 1, 0)] * 8 if self.drafter == "none" else [(7, 4, 1)] * 4
        return steps(*one, step_ms=self.step_ms)

    def _samples(self, record: RequestRecord) -> list[Sample]:
        if record.error_class is not None:
            return []
        if self.window is not None:
            return self.window()
        began = record.started_ms or 0.0
        return [
            Sample(
                at_ms=began + 1e3 * after,
                device=CPU,
                own_cpu_s=(began / 1e3 + after),
                machine_cpu_s=(began / 1e3 + after) * (1.0 + self.others),
                memory_mib=100.0,
            )
            for after in (0.0, SECONDS)
        ]

    def _result(self, run: RunDirectory, part: dict[str, Any]) -> RunResult:
        good = sum(row.error_class is None for row in run.records)
        sampling = {"temperature": self.temperature, "repeats": self.repeats}
        identity = Identity(
            model={"target": "sample"},
            method={"name": self.method},
            prompts=self.benchmark,
            sampling=sampling,
            engine={"name": "fake"},
        )
        values: dict[str, Any] = {
            "status": "ok" if good == len(run.records) else "partial",
            "reasons": [],
            "run_hash": identity.run_hash,
            "pair_hash": identity.pair_hash,
            "settings_hash": identity.settings_hash(self.prompts),
            "method_hash": identity.method_hash,
            "machine_hash": run.machines[0],
            "experiment": "paper",
            "model": "sample",
            "model_label": "sample",
            "lab": True,
            "method": self.method,
            "method_label": self.method,
            "rank": 1,
            "baseline": self.baseline,
            "parameters": {},
            "tuned": [],
            "remark": "",
            "scores": "draft",
            "lossless": True,
            "recorded": False,
            "benchmark": self.benchmark,
            "source": "lab",
            "temperature": self.temperature,
            "history": "own",
            "repeats": self.repeats,
            "engine": "fake",
            "engine_facts": part["engine"],
            "requests_ok": good,
            "requests_error": len(run.records) - good,
            "truncated_requests": 0,
            "engine_ms": 0.0,
            "wall_ms": 0.0,
            "finished_at": "2026-11-30T00:00:00Z",
            "drafter": self.drafter,
            "fingerprint": fingerprint(identity, part["engine"], part, self.read_back),
            "warmup": [
                {"part": self.part, "prompts": ["warm"], "started_ms": 0.0, "ended_ms": WARM_MS}
            ],
        }
        return RunResult(**{**values, **self.result})


def plain(**changes: Any) -> Recorded:
    """Plain decoding, the baseline: 8 steps of 10 ms."""
    return Recorded(**{"method": "vanilla", "baseline": "plain", "drafter": "none", **changes})


def failed(record: RequestRecord, own: list[StepRecord], error: str, message: str) -> None:
    """Make a generation one that failed: its class and message, and nothing measured."""
    record.error_class, record.error_message = error, message
    record.started_ms = record.ended_ms = record.engine_ms = record.decode_ms = None
    record.prefill_ms = record.decode_tokens = record.cached_tokens = None
    record.output_ids = []
    own.clear()

"""A deterministic engine: no clock, no tensors; every time and token follows from the request."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from evict.cost import CostTable
from harness.engines.base import (
    EngineFacts,
    Message,
    Method,
    Observer,
    Request,
    RequestTrace,
)
from harness.engines.in_process import InProcess
from harness.equality import NextTokens
from harness.profiling.cost import fingerprint
from harness.records import StepRecord

PLAIN_MS, DRAFTED_MS, PREFILL_MS = 10.0, 12.0, 3.0
DECODE_STEPS = 4


@dataclass
class FakeEngine(InProcess):
    """Plain steps commit one token in 10 ms, drafted ones two in 12 ms; eight tokens a request.

    `live` methods can take turns. `fail(request, method)` may raise. `calls` holds what was
    generated, in order.
    """

    fail: Callable[[Request, Method], None] | None = None
    context_length: int = 4096
    device: str = "cpu"
    calls: list[tuple[str, str]] = field(default_factory=list)
    prompts: list[str] = field(default_factory=list)
    costs: list[CostTable | None] = field(default_factory=list)
    closed: bool = False
    forgotten: int = 0
    timed: bool = True
    observable: bool = False
    live: int = 99
    gap: NextTokens | None = None
    own_costs: Sequence[CostTable] = ()

    def describe(self) -> EngineFacts:
        return EngineFacts(
            engine="fake",
            model="fake",
            dtype="none",
            device=self.device,
            threads=1,
            layers=2,
            experts=8,
            experts_per_token=2,
            context_length=self.context_length,
            draft_vocab=64,
            weights_hash="0",
            versions={},
        )

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        text = "".join(f"<{m['role']}>{m['content']}" for m in messages)
        return [ord(char) for char in text]

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(i) for i in ids)

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        self.calls.append((request.prompt_id, method.name))
        self.prompts.append(self.decode(request.prompt_ids))
        if self.fail is not None:
            self.fail(request, method)
        text = hashlib.sha256(repr(request.prompt_ids).encode()).hexdigest()
        count = DECODE_STEPS if method.speculative else 2 * DECODE_STEPS
        steps = [self._step(i, method) for i in range(count)]
        ids = [ord(char) for char in text[: 1 + sum(step.committed for step in steps)]]
        return RequestTrace(
            output_ids=ids,
            text=self.decode(ids),
            finish_reason="length",
            prefill_ms=PREFILL_MS,
            decode_ms=sum(step.total_ms for step in steps),
            steps=steps,
        )

    def _step(self, index: int, method: Method) -> StepRecord:
        drafted = method.draft_tokens - 1
        if not method.speculative:
            return StepRecord(
                step=index,
                drafted=0,
                verified=1,
                accepted=0,
                committed=1,
                depth_drawn=0,
                verify_ms=PLAIN_MS,
                total_ms=PLAIN_MS,
                context_len=10,
                expert_union=2.0,
            )
        return StepRecord(
            step=index,
            drafted=drafted,
            verified=min(4, drafted + 1),
            accepted=1,
            committed=2,
            depth_drawn=4,
            expected=2.0,
            utility=1.1,
            draft_ms=3.0,
            verify_ms=8.0,
            extend_ms=1.0,
            total_ms=DRAFTED_MS,
            context_len=10,
            expert_union=5.0,
        )

    def set_cost(self, cost: CostTable | None) -> None:
        self.costs.append(cost)

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        return [self._step(i, method) for i in range(steps)]

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        places = list(range(len(methods)))
        return [places[first : first + self.live] for first in range(0, len(places), self.live)]

    def forget(self) -> None:
        self.forgotten += 1

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        return self.gap

    def close(self) -> None:
        self.closed = True


@dataclass
class FakeProfiler:
    """Costs that grow linearly; counts how often it was asked."""

    calls: int = 0

    def __call__(
        self,
        engine: FakeEngine,
        method: Method,
        prompts: Sequence[Sequence[int]],
        seed: int,
        progress: Callable[[str, float], None] | None = None,
    ) -> CostTable:
        self.calls += 1
        n = method.draft_tokens
        return CostTable(
            step_ms=tuple(10.0 + k for k in range(1, n + 1)),
            ar_ms=10.0,
            spread_ms=(0.5,) * n,
            fingerprint=fingerprint(engine, method),
        )

"""The measured loop: methods interleaved prompt by prompt, one row per generation."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

from evict.cost import CostTable
from evict.errors import InputError
from harness.benchmarks import Prompt
from harness.clock import Clock
from harness.config import RunConfig
from harness.consistency import InconsistentTrace, check_trace
from harness.engines.base import (
    Engine,
    EngineFacts,
    EngineLost,
    Message,
    Method,
    Request,
    RequestTrace,
)
from harness.fitting import fit
from harness.identity import input_hash, request_seed
from harness.progress import REPLAYED, Bar
from harness.records import RequestRecord
from harness.store import RunDirectory
from harness.telemetry.sample import Sample
from harness.telemetry.window import NoTelemetry, Telemetry


@dataclass
class Lane:
    """One method on one benchmark: its directory (None when done) and its cost table, if any.

    ended: why nothing more is measured on it in this process (its engine was lost).
    """

    method: Method
    run: RunDirectory | None
    cost: CostTable | None = None
    ended: str | None = None

    @property
    def open(self) -> bool:
        """Whether generations may still be made for it."""
        return self.run is not None and self.ended is None


@dataclass
class Meter:
    """Drives one engine over prompts; keeps the time since the last row, so none is lost.

    recover: called after an engine was lost, before the next generation.
    """

    engine: Engine
    config: RunConfig
    limit: int
    part: str
    progress: Bar
    clock: Clock = field(default_factory=Clock)
    telemetry: Telemetry = field(default_factory=NoTelemetry)
    recover: Callable[[], None] = lambda: None
    encoded: dict[str, tuple[list[int], int]] = field(default_factory=dict)
    cost: CostTable | None = None
    mark: float = 0.0
    facts: EngineFacts = field(init=False)

    def __post_init__(self) -> None:
        self.facts = self.engine.describe()

    def encode_all(self, prompts: Sequence[Prompt]) -> None:
        """First turns to ids before anything is measured; InputError for one that is too long."""
        for prompt in prompts:
            self.encoded[prompt.prompt_id] = self._fit([_user(prompt.turns[0])], prompt.prompt_id)

    def measure(
        self, prompts: Sequence[Prompt], lanes: Sequence[Lane], repeats: Iterable[int]
    ) -> None:
        """These repeats of all prompts; even positions run the lanes forwards, odd ones backwards.

        Every repeat starts from an engine that remembers nothing, so that none can retrieve the
        answers of the one before.
        """
        self.mark = time.perf_counter()
        for repeat in repeats:
            self._forget()
            for index, prompt in enumerate(prompts):
                ordered = list(lanes) if (index + repeat) % 2 == 0 else list(reversed(lanes))
                for turn in range(len(prompt.turns)):
                    for order, lane in enumerate(ordered):
                        self._one(lane, prompt, turn, repeat, order)

    def _forget(self) -> None:
        """An engine that was lost since the last request is a new one, and remembers nothing."""
        try:
            self.engine.forget()
        except EngineLost:
            self.cost = None
            self.recover()

    def use(self, cost: CostTable | None) -> None:
        """Give the engine a lane's cost table, unless it has it already."""
        if cost is not None and cost is not self.cost:
            self.engine.set_cost(cost)
            self.cost = cost

    def input_ids(
        self, run: RunDirectory, prompt: Prompt, turn: int, repeat: int
    ) -> tuple[list[int], int]:
        """Prompt ids of a turn and how many were dropped; later turns hold earlier answers."""
        if turn == 0:
            return self.encoded[prompt.prompt_id]
        own = self.config.history == "own"
        answers = own_answers(run, prompt, turn, repeat) if own else prompt.references
        return self._fit(history(prompt, turn, answers), prompt.prompt_id)

    def _one(self, lane: Lane, prompt: Prompt, turn: int, repeat: int, order: int) -> None:
        run = lane.run
        if run is None or not lane.open or (prompt.prompt_id, turn, repeat) in run.done:
            return
        record = RequestRecord(
            prompt_id=prompt.prompt_id,
            turn=turn,
            repeat=repeat,
            order=order,
            seed=request_seed(self.config.seed, prompt.prompt_id, turn, repeat),
            temperature=self.config.temperature,
            input_hash="",
            input_tokens=0,
            part=self.part,
        )
        trace, samples = self._attempt(lane, run, prompt, record)
        now = time.perf_counter()
        record.wall_ms, self.mark = (now - self.mark) * 1e3, now
        run.append(record, *((trace.steps, trace.trees) if trace else ([], [])), samples)
        self.progress.advance(run.path.name, 1.0 if self.engine.timed else REPLAYED)
        if lane.ended is not None:
            self.cost = None
            self.recover()
            self.mark = time.perf_counter()

    def _attempt(
        self, lane: Lane, run: RunDirectory, prompt: Prompt, record: RequestRecord
    ) -> tuple[RequestTrace | None, list[Sample]]:
        """Fill the record; a failure leaves its class and message, and no timings."""
        try:
            trace, samples = self._generate(lane, run, prompt, record)
        except Exception as error:  # any failure of one request is that request's row
            record.started_ms = record.ended_ms = record.engine_ms = None
            record.error_class = type(error).__name__
            record.error_message = str(error)
            if isinstance(error, EngineLost):
                lane.ended = f"{record.error_class}: {error}"
            return None, []
        record.output_ids, record.text = list(trace.output_ids), trace.text
        record.decode_tokens = trace.decode_tokens
        record.finish_reason = trace.finish_reason
        record.cached_tokens, record.first_answer_ms = trace.cached_tokens, trace.first_answer_ms
        record.prefill_ms, record.decode_ms = trace.prefill_ms, trace.decode_ms
        return trace, samples

    def _generate(
        self, lane: Lane, run: RunDirectory, prompt: Prompt, record: RequestRecord
    ) -> tuple[RequestTrace, list[Sample]]:
        ids, dropped = self.input_ids(run, prompt, record.turn, record.repeat)
        record.input_hash = input_hash(ids)
        record.input_tokens, record.truncated_tokens = len(ids), dropped
        request = Request(
            prompt_id=prompt.prompt_id,
            prompt_ids=tuple(ids),
            max_new_tokens=self.config.max_new_tokens,
            temperature=self.config.temperature,
            turn=record.turn,
            repeat=record.repeat,
            record_trees=self.config.record_trees,
        )
        self.use(lane.cost)
        with self.telemetry.window() as window:
            record.started_ms = self.clock.now_ms()
            trace = self.engine.generate(request, lane.method, record.seed)
            record.ended_ms = self.clock.now_ms()
        record.engine_ms = record.ended_ms - record.started_ms
        if record.engine_ms < 0.0:
            raise InconsistentTrace(f"the clock went back by {-record.engine_ms:.3f} ms")
        check_trace(trace, self.facts)
        return trace, window.samples

    def _fit(self, messages: Sequence[Message], prompt_id: str) -> tuple[list[int], int]:
        encode = self.engine.encode_chat
        return fit(encode, messages, self.limit, self.config.truncate, prompt_id)


def own_answers(run: RunDirectory, prompt: Prompt, turn: int, repeat: int) -> list[str]:
    """What this very run answered in the turns before."""
    answers = []
    for earlier in range(turn):
        before = run.done[(prompt.prompt_id, earlier, repeat)]
        if before.error_class is not None:
            raise InputError(f"turn {earlier} of {prompt.prompt_id} has no answer")
        answers.append(before.text)
    return answers


def history(prompt: Prompt, turn: int, answers: Sequence[str]) -> list[Message]:
    """The chat up to this turn, with one answer after each earlier one."""
    messages = [_user(prompt.turns[0])]
    for earlier in range(turn):
        messages.append({"role": "assistant", "content": answers[earlier]})
        messages.append(_user(prompt.turns[earlier + 1]))
    return messages


def _user(text: str) -> Message:
    return {"role": "user", "content": text}

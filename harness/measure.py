"""The measured loop: methods interleaved prompt by prompt, one row per generation."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from evict.cost import CostTable
from evict.errors import InputError
from harness.benchmarks import Prompt
from harness.config import RunConfig
from harness.consistency import check_trace
from harness.engines.base import Engine, EngineFacts, Message, Method, Request, RequestTrace
from harness.fitting import fit
from harness.progress import REPLAYED, Bar
from harness.records import RequestRecord
from harness.store import RunDirectory


@dataclass
class Lane:
    """One method on one benchmark: its directory (None when done) and its cost table, if any."""

    method: Method
    run: RunDirectory | None
    cost: CostTable | None = None


@dataclass
class Meter:
    """Drives one engine over prompts; keeps the time since the last row, so none is lost."""

    engine: Engine
    config: RunConfig
    limit: int
    part: str
    progress: Bar
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
            self.engine.forget()
            for index, prompt in enumerate(prompts):
                ordered = list(lanes) if (index + repeat) % 2 == 0 else list(reversed(lanes))
                for turn in range(len(prompt.turns)):
                    for order, lane in enumerate(ordered):
                        self._one(lane, prompt, turn, repeat, order)

    def use(self, cost: CostTable | None) -> None:
        """Give the engine a lane's cost table, unless it has it already."""
        if cost is not None and cost is not self.cost:
            self.engine.set_cost(cost)
            self.cost = cost

    def _one(self, lane: Lane, prompt: Prompt, turn: int, repeat: int, order: int) -> None:
        run = lane.run
        if run is None or (prompt.prompt_id, turn, repeat) in run.done:
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
        trace = self._generate(lane, run, prompt, record)
        now = time.perf_counter()
        record.wall_ms, self.mark = (now - self.mark) * 1e3, now
        run.append(record, *((trace.steps, trace.trees) if trace else ([], [])))
        self.progress.advance(run.path.name, 1.0 if self.engine.timed else REPLAYED)

    def _generate(
        self, lane: Lane, run: RunDirectory, prompt: Prompt, record: RequestRecord
    ) -> RequestTrace | None:
        """Fill the record; a failure leaves its class and message, and no timings."""
        try:
            ids = self._input(run, prompt, record)
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
            started = time.perf_counter()
            trace = self.engine.generate(request, lane.method, record.seed)
            record.engine_ms = (time.perf_counter() - started) * 1e3
            check_trace(trace, self.facts)
        except Exception as error:  # any failure of one request is that request's row
            record.engine_ms = None
            record.error_class = type(error).__name__
            record.error_message = str(error)
            return None
        record.output_ids, record.text = list(trace.output_ids), trace.text
        record.decode_tokens = trace.decode_tokens
        record.finish_reason = trace.finish_reason
        record.prefill_ms, record.decode_ms = trace.prefill_ms, trace.decode_ms
        return trace

    def _input(self, run: RunDirectory, prompt: Prompt, record: RequestRecord) -> list[int]:
        """Prompt ids of this turn; later turns hold earlier answers, own or the reference's."""
        if record.turn == 0:
            ids, dropped = self.encoded[prompt.prompt_id]
        else:
            own = self.config.history == "own"
            answers = own_answers(run, prompt, record) if own else prompt.references
            ids, dropped = self._fit(history(prompt, record.turn, answers), prompt.prompt_id)
        record.input_hash = hashlib.sha256(repr(ids).encode()).hexdigest()[:16]
        record.input_tokens, record.truncated_tokens = len(ids), dropped
        return ids

    def _fit(self, messages: Sequence[Message], prompt_id: str) -> tuple[list[int], int]:
        encode = self.engine.encode_chat
        return fit(encode, messages, self.limit, self.config.truncate, prompt_id)


def own_answers(run: RunDirectory, prompt: Prompt, record: RequestRecord) -> list[str]:
    """What this very run answered in the turns before."""
    answers = []
    for turn in range(record.turn):
        before = run.done[(prompt.prompt_id, turn, record.repeat)]
        if before.error_class is not None:
            raise InputError(f"turn {turn} of {prompt.prompt_id} has no answer")
        answers.append(before.text)
    return answers


def history(prompt: Prompt, turn: int, answers: Sequence[str]) -> list[Message]:
    """The chat up to this turn, with one answer after each earlier one."""
    messages = [_user(prompt.turns[0])]
    for earlier in range(turn):
        messages.append({"role": "assistant", "content": answers[earlier]})
        messages.append(_user(prompt.turns[earlier + 1]))
    return messages


def request_seed(seed: int, prompt_id: str, turn: int, repeat: int) -> int:
    """The same for every method, different for every generation; below 2**31."""
    text = f"{seed}/{prompt_id}/{turn}/{repeat}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], "big") >> 1


def _user(text: str) -> Message:
    return {"role": "user", "content": text}

"""`engine=replay`: any selection on recorded trees, with step times taken from a cost table."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from evict.cost import STAGES, CostTable
from evict.errors import InputError
from evict.selection import Selector
from evict.tree import DraftTree
from harness.engines.base import (
    EngineFacts,
    Message,
    Method,
    Observer,
    Request,
    RequestTrace,
)
from harness.engines.in_process import InProcess
from harness.engines.locate import TOKENIZER_FILES, locate
from harness.engines.replay.recording import Recorded, read_recording
from harness.engines.tokenizer import ChatTokenizer
from harness.records import StepRecord
from harness.trees import TreeRecord

Expectation = Callable[[TreeRecord], torch.Tensor]


class ReplayEngine(InProcess):
    """Takes each recorded step as it stands and asks the method how much of it to verify.

    Exact for the policy that was live. For another policy it is the value of its choice at every
    step of the recorded path: verified nodes, accepted tokens and experts are what the target said,
    times are C(k); the path itself, which the other policy would have left, is not followed.
    """

    timed = False
    observable = False

    def __init__(
        self,
        model: Mapping[str, Any],
        recording: str,
        recorded_method: str | None = None,
        **_: Any,
    ) -> None:
        torch.set_num_threads(1)
        self.recording = read_recording(Path(recording), recorded_method)
        folder = locate(model["target"], model.get("revision"), TOKENIZER_FILES)
        self.tokenizer = ChatTokenizer.of(model, folder)
        self.own_costs: Sequence[CostTable] = self.recording.costs
        self.cost: CostTable | None = None

    def describe(self) -> EngineFacts:
        """The engine that recorded the trees."""
        return self.recording.facts

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation, by which a recorded request is recognised."""
        return self.tokenizer.encode_chat(messages)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids."""
        return self.tokenizer.decode(ids)

    def set_cost(self, cost: CostTable | None) -> None:
        """Any table will do: what another machine's costs would choose is a fair question."""
        self.cost = cost

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        """The method's choices on the steps recorded for this request."""
        found = self.recording.find(request)
        _check_input(found, request)
        selector, expectation = self._policy(method, request.temperature)
        steps = [
            self._step(tree, context, selector, expectation(tree))
            for tree, context in zip(found.trees, found.context_lens, strict=True)
        ]
        return RequestTrace(
            output_ids=[],
            text=found.row.text,
            finish_reason="replayed",
            prefill_ms=found.row.prefill_ms or 0.0,
            decode_ms=sum(step.total_ms for step in steps),
            steps=steps,
        )

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """Nothing can be timed here."""
        raise InputError(
            f"no cost table fits the trees of method {method.name}, and a replay measures none",
            seen=repr(method.growth),
            allowed="the growth that was recorded",
            hint="cost_table=path/to/cost_table.json",
        )

    def _policy(self, method: Method, temperature: float) -> tuple[Selector, Expectation]:
        """How k is chosen, and from which S_N."""
        if method.selection is None or method.scores not in EXPECTATIONS:
            raise InputError(
                f"method {method.name} grows trees of its own and cannot be replayed",
                seen=f"drafter {method.drafter}, scores {method.scores}",
                allowed=f"a selection on recorded trees, scores {', '.join(EXPECTATIONS)}",
            )
        if self.cost is None:
            raise InputError("a replay needs a cost table", hint="cost_table=path/to/table.json")
        selector: Selector = method.selection.bind(self.cost, method.draft_tokens)
        return selector, EXPECTATIONS[method.scores](self.cost, temperature)

    def _step(
        self, tree: TreeRecord, context: int, selector: Selector, expected_N: torch.Tensor
    ) -> StepRecord:
        assert self.cost is not None
        k = int(selector(expected_N))
        cost, expected = self.cost, float(expected_N[k - 1])
        stages = {f"{stage}_ms": _at(cost.stage_ms, stage, k) for stage in STAGES}
        return StepRecord(
            step=tree.step,
            drafted=tree.size - 1,
            verified=k,
            accepted=int(tree.accepted()[k - 1]),
            committed=int(tree.tokens_committed()[k - 1]),
            depth_drawn=int(tree.depths.max()),
            expected=expected,
            utility=cost.ar_ms * expected / cost.step_ms[k - 1],
            total_ms=cost.step_ms[k - 1],
            context_len=context,
            expert_union=float(tree.union()[k - 1]),
            **stages,
        )


def _drawn(tree: TreeRecord) -> DraftTree:
    return DraftTree(
        tokens_N=torch.tensor(tree.tokens),
        parents_N=torch.tensor(tree.parents),
        depths_N=torch.tensor(tree.depths),
        scores_N=torch.tensor(tree.scores),
    )


def _from_scores(cost: CostTable, temperature: float) -> Expectation:
    return lambda tree: _drawn(tree).expected()


def _from_map(cost: CostTable, temperature: float) -> Expectation:
    score_map = cost.score_map(temperature)
    return lambda tree: score_map.expected(_drawn(tree))


def _from_verdict(cost: CostTable, temperature: float) -> Expectation:
    return lambda tree: torch.from_numpy(tree.tokens_committed())


EXPECTATIONS: dict[str, Callable[[CostTable, float], Expectation]] = {
    "draft": _from_scores,
    "isotonic": _from_map,
    "verdict": _from_verdict,
}


def _at(stage_ms: dict[str, tuple[float, ...]] | None, stage: str, k: int) -> float:
    return stage_ms[stage][k - 1] if stage_ms and stage in stage_ms else 0.0


def _check_input(found: Recorded, request: Request) -> None:
    """The prompt must be the recorded one, token for token."""
    here = hashlib.sha256(repr(list(request.prompt_ids)).encode()).hexdigest()[:16]
    if here != found.row.input_hash:
        raise InputError(
            f"{request.prompt_id}, turn {request.turn}: not the prompt that was recorded",
            seen=f"input {here}",
            allowed=found.row.input_hash,
            hint="replay with the benchmark and the tokenizer of the recording",
        )

"""The decode loop: draft, select, verify, accept, compact, draft-extend - one record a step."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from evict.acceptance import Accepted, GeneratorChance, greedy, sampling
from evict.calibration import ScoreMap
from evict.cost import CostTable
from evict.selection import Selector
from evict.tree import DraftTree
from harness.engines.base import FinishReason, Method, Observer, Request, StepView
from harness.engines.torch.cache import KVCache
from harness.engines.torch.layers import additive, causal
from harness.engines.torch.proposer import Proposer
from harness.engines.torch.qwen3_moe import Qwen3Moe, TargetOutput
from harness.records import StepRecord
from harness.trees import TreeRecord

Clock = Callable[[], float]


def make_clock(device: str) -> Clock:
    """Seconds, read after all queued device work has finished."""
    if not device.startswith("cuda"):
        return time.perf_counter

    def synchronised() -> float:
        torch.cuda.synchronize()
        return time.perf_counter()

    return synchronised


@dataclass
class Output:
    """Committed tokens of one request and the rule that ended it.

    `room` is what the context leaves for output; no rule depends on the method.
    """

    request: Request
    room: int
    eos_ids: frozenset[int]
    decode: Callable[[Sequence[int]], str]
    ids: list[int] = field(default_factory=list)
    finish: FinishReason | None = None

    def commit(self, tokens: Sequence[int]) -> int:
        """Append tokens up to the first stop rule that fires; returns how many were kept."""
        for count, token in enumerate(tokens, start=1):
            self.ids.append(token)
            if token in self.eos_ids and not self.request.ignore_eos:
                self.finish = "eos"
            elif self._stopped():
                self.finish = "stop"
            elif len(self.ids) >= self.request.max_new_tokens:
                self.finish = "length"
            elif len(self.ids) >= self.room:
                self.finish = "context"
            if self.finish:
                return count
        return len(tokens)

    def _stopped(self) -> bool:
        if not self.request.stop:
            return False
        window = max(len(stop.encode()) for stop in self.request.stop) + 1
        tail = self.decode(self.ids[-window:])
        return any(stop in tail for stop in self.request.stop)


@dataclass
class Decoder:
    """One request in flight: target cache, proposer and policy. `run()` yields its steps."""

    model: Qwen3Moe
    proposer: Proposer
    method: Method
    selector: Selector | None
    output: Output
    cache: KVCache
    generator: torch.Generator
    clock: Clock
    cost: CostTable | None = None
    score_map: ScoreMap | None = None
    observer: Observer | None = None
    steps: list[StepRecord] = field(default_factory=list)
    union_layers: list[list[int]] = field(default_factory=list)
    trees: list[TreeRecord] = field(default_factory=list)

    @torch.inference_mode()
    def prefill(self) -> float:
        """Run the prompt, commit the first token, feed the proposer; returns milliseconds."""
        start = self.clock()
        prompt = self.output.request.prompt_ids
        device = self.model.device
        tokens = torch.tensor(prompt, device=device)
        positions = torch.arange(len(prompt), device=device)
        mask = causal(len(prompt), 0, self.model.dtype, device)
        out = self.model.forward(
            tokens, positions, self.cache, mask, self.proposer.aux_layers, last_only=True
        )
        self.cache.length = len(prompt)
        root = DraftTree.single(prompt[-1], device)
        first = self._accept(root, out.logits_TV).next_token
        self.output.commit([first])
        self.proposer.start(prompt)
        self.proposer.extend(out.states_TF, [*prompt[1:], first])
        return (self.clock() - start) * 1e3

    @torch.inference_mode()
    def run(self, max_steps: int | None = None) -> float:
        """Decode until a stop rule fires; returns milliseconds from first to last step."""
        begin = last = self.clock()
        while self.output.finish is None and (max_steps is None or len(self.steps) < max_steps):
            last = self._step(last)
        return (last - begin) * 1e3

    def _step(self, begin: float) -> float:
        tree, k = self._propose()
        drafted = self.clock()
        recording = self.output.request.record_trees
        out = self._verify(tree, tree.size if recording else k)
        whole = self._whole_path(tree, out) if recording else []
        accepted = self._accept(tree, out.logits_TV[:k])
        verified = self.clock()
        path = accepted.path
        tokens = [*tree.tokens_N[path].tolist()[1:], accepted.next_token]
        if self.observer:
            rows = self.proposer.draft_rows(tree, path, accepted.next_token)
            self.observer(StepView(tree, k, path, accepted.next_token, rows))
        context = self.cache.length
        self.cache.keep(path)
        committed = self.output.commit(tokens)
        if recording:
            self.trees.append(self._tree_record(tree, k, whole, committed, out))
        kept = self.clock()
        self.proposer.extend(out.states_TF[path], tokens)
        end = self.clock()
        self._record(
            tree, k, accepted, committed, context, out, (begin, drafted, verified, kept, end)
        )
        return self.clock()

    def _propose(self) -> tuple[DraftTree, int]:
        tree = self.proposer.propose(self.output.ids[-1], self.method)
        if self.selector is None:
            return tree, tree.size
        mapped = self.score_map
        self._expected_N = tree.expected() if mapped is None else mapped.expected(tree)
        return tree, int(self.selector(self._expected_N))

    def _whole_path(self, tree: DraftTree, out: TargetOutput) -> list[int]:
        """What would be accepted if all nodes were offered, by the same chances as the cut tree.

        The generator is put back: both walks draw the same numbers up to where the cut one ends.
        """
        state = self.generator.get_state()
        path = self._accept(tree, out.logits_TV).path
        self.generator.set_state(state)
        return path

    def _tree_record(
        self, tree: DraftTree, k: int, whole: list[int], committed: int, out: TargetOutput
    ) -> TreeRecord:
        experts = torch.stack(out.experts_L, dim=1).to(torch.int16)
        return TreeRecord(
            step=len(self.steps),
            tokens=tree.tokens_N.cpu().numpy(),
            parents=tree.parents_N.cpu().numpy(),
            depths=tree.depths_N.cpu().numpy(),
            scores=tree.scores_N.cpu().numpy().astype(np.float32),
            path=tuple(whole),
            verified=k,
            committed=committed,
            experts=experts.cpu().numpy(),
        )

    def _verify(self, tree: DraftTree, k: int) -> TargetOutput:
        part = tree.prefix(k)
        mask = additive(part.mask(), self.cache.length, self.model.dtype) if k > 1 else None
        positions = part.depths_N + self.cache.length
        return self.model.forward(
            part.tokens_N, positions, self.cache, mask, self.proposer.aux_layers
        )

    def _accept(self, tree: DraftTree, logits_kV: Tensor) -> Accepted:
        temperature = self.output.request.temperature
        if temperature == 0.0:
            return greedy(tree, logits_kV.argmax(dim=-1))
        probs_kV = torch.softmax(logits_kV.double() / temperature, dim=-1)
        return sampling(tree, probs_kV, GeneratorChance(self.generator))

    def _record(
        self,
        tree: DraftTree,
        k: int,
        accepted: Accepted,
        committed: int,
        context: int,
        out: TargetOutput,
        times: tuple[float, float, float, float, float],
    ) -> None:
        begin, drafted, verified, kept, end = times
        union_L = self._union(out, k)
        expected = float(self._expected_N[k - 1]) if self.selector else 1.0
        self.steps.append(
            StepRecord(
                step=len(self.steps),
                drafted=tree.size - 1,
                verified=k,
                accepted=len(accepted.path) - 1,
                committed=committed,
                depth_drawn=int(tree.depths_N.max()) if tree.size > 1 else 0,
                expected=expected,
                utility=self._utility(expected, k),
                draft_ms=(drafted - begin) * 1e3,
                verify_ms=(verified - drafted) * 1e3,
                extend_ms=(end - kept) * 1e3,
                other_ms=(kept - verified) * 1e3,
                total_ms=(end - begin) * 1e3,
                context_len=context,
                expert_union=sum(union_L) / len(union_L),
            )
        )
        self.union_layers.append(union_L)

    def _union(self, out: TargetOutput, k: int) -> list[int]:
        """Distinct experts per layer of the k verified nodes."""
        if not self.output.request.record_trees:
            return out.union_L
        return [len(experts_TK[:k].unique()) for experts_TK in out.experts_L]

    def _utility(self, expected: float, k: int) -> float | None:
        """U(k) = C_AR * S_k / C(k) (paper, eq. 9); None without a cost table."""
        if self.selector is None or self.cost is None or k > self.cost.draft_tokens:
            return None
        return self.cost.ar_ms * expected / self.cost.step_ms[k - 1]

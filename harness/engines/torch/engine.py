"""The embedded engine behind `engine=torch`: one model, one draft head, one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from evict.calibration import ScoreMap
from evict.cost import CostTable
from evict.errors import InputError
from harness.engines.base import (
    EngineFacts,
    Message,
    Method,
    Observer,
    Request,
    RequestTrace,
)
from harness.engines.in_process import InProcess
from harness.engines.locate import locate
from harness.engines.tokenizer import ChatTokenizer
from harness.engines.torch.decode import Decoder, Output, make_clock
from harness.engines.torch.eagle3 import Eagle3Head
from harness.engines.torch.gap import top_gap
from harness.engines.torch.proposers import Proposers
from harness.engines.torch.qwen3_moe import Qwen3Moe
from harness.engines.torch.requests import check_request
from harness.equality import NextTokens
from harness.hardware.cpu import cpu_model
from harness.hardware.software import package_version
from harness.identity import folder_hash
from harness.records import StepRecord

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WARMUP_STEPS = 2


class TorchEngine(InProcess):
    """Loads a Hugging Face target and a SpecForge head; fp32 or bf16, CPU or CUDA, batch 1."""

    timed = True
    observable = True
    own_costs: Sequence[CostTable] = ()

    def __init__(
        self,
        model: Mapping[str, Any],
        device: str = "auto",
        dtype: str = "float32",
        threads: int = 1,
        **_: Any,
    ) -> None:
        if dtype not in DTYPES:
            raise InputError("unknown dtype", seen=dtype, allowed=sorted(DTYPES))
        torch.set_num_threads(threads)
        self.threads = threads
        self.device = (
            ("cuda" if torch.cuda.is_available() else "cpu") if device == "auto" else device
        )
        self.name = str(model["name"])
        folders = [locate(model["target"], model.get("revision"))]
        self.tokenizer = ChatTokenizer.of(model, folders[0])
        self.target = Qwen3Moe(folders[0], DTYPES[dtype], self.device)
        self.head: Eagle3Head | None = None
        if model.get("draft"):
            folders.append(locate(model["draft"], model.get("draft_revision")))
            self.head = Eagle3Head(
                folders[1], self.target.config, self.target.embedding, DTYPES[dtype], self.device
            )
        self.dtype, self.weights_hash = dtype, folder_hash(*folders)[:16]
        self.context_length = int(model.get("context_length") or self.target.config.context_length)
        self.cost: CostTable | None = None
        self.clock = make_clock(self.device)
        self._facts = self._read_facts()
        self.proposers = Proposers(self.head, self.name, self.device)

    def describe(self) -> EngineFacts:
        """Resolved facts, read from the loaded networks."""
        return self._facts

    def _read_facts(self) -> EngineFacts:
        c = self.target.config
        return EngineFacts(
            engine="torch",
            model=self.name,
            dtype=self.dtype,
            device=self._device_name(),
            threads=torch.get_num_threads(),
            layers=c.layers,
            experts=c.experts,
            experts_per_token=c.experts_per_token,
            context_length=self.context_length,
            draft_vocab=self.head.config.draft_vocab_size if self.head else 0,
            weights_hash=self.weights_hash,
            versions={
                "torch": torch.__version__,
                "evict-bench": package_version("evict-bench") or "source",
            },
        )

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation with the generation prompt."""
        return self.tokenizer.encode_chat(messages)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return self.tokenizer.decode(ids)

    def set_cost(self, cost: CostTable | None) -> None:
        """Use this table from now on; one measured elsewhere is refused, naming the fields.

        The growth it was measured with is compared when a method asks for it.
        """
        if cost is not None:
            growth = {"growth": cost.fingerprint.get("growth", "")}
            cost.check({**self.describe().fingerprint(), **growth})
        self.cost = cost

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        """Decode one request with `method`; the same seed gives the same tokens."""
        decoder = self._decoder(request, method, seed, observer)
        try:
            prefill_ms = decoder.prefill()
            decode_ms = decoder.run()
        finally:
            decoder.proposer.finish()
        output = decoder.output
        return RequestTrace(
            output_ids=output.ids,
            text=self.decode(output.ids),
            finish_reason=output.finish or "length",
            prefill_ms=prefill_ms,
            decode_ms=decode_ms,
            steps=decoder.steps,
            expert_union_layers=decoder.union_layers,
            trees=decoder.trees,
            cached_tokens=0,
        )

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """`steps` records of `method`, spread over the prompts.

        The first steps after each prefill warm the caches and are dropped; EOS is ignored.
        """
        share, records = -(-steps // len(prompts)), []
        budget = (share + WARMUP_STEPS) * method.draft_tokens + 1
        for index, prompt in enumerate(prompts):
            request = Request(f"forced-{index}", tuple(prompt), budget, ignore_eos=True)
            decoder = self._decoder(request, method, 0, None)
            decoder.prefill()
            decoder.run(share + WARMUP_STEPS)
            decoder.proposer.finish()
            records += decoder.steps[WARMUP_STEPS:]
        return records

    def top_gap(self, ids: Sequence[int]) -> NextTokens:
        """The target's likeliest next tokens after `ids`."""
        check_request(Request("gap", tuple(ids), max_new_tokens=1), self.context_length)
        return top_gap(self.target, ids)

    def forget(self) -> None:
        """Drop the tries that live across requests."""
        self.proposers.forget()

    def _decoder(
        self, request: Request, method: Method, seed: int, observer: Observer | None
    ) -> Decoder:
        check_request(request, self.context_length)
        self._check_growth(method)
        room = self.context_length - len(request.prompt_ids)
        longest = len(request.prompt_ids) + min(request.max_new_tokens, room)
        slots = longest + method.draft_tokens
        scratch = method.growth.capacity if method.growth else 0
        selector = None
        if method.selection is not None:
            bound = method.selection.bind(self.cost, method.draft_tokens)
            selector = bound.to(self.device)
        return Decoder(
            model=self.target,
            proposer=self.proposers.make(method, slots + scratch, self.cost),
            method=method,
            selector=selector,
            output=Output(request, room, self._eos_ids(), self.decode),
            cache=self.target.new_cache(slots),
            generator=torch.Generator().manual_seed(seed),
            clock=self.clock,
            cost=self.cost,
            score_map=self._score_map(method, request.temperature),
            observer=observer,
        )

    def _score_map(self, method: Method, temperature: float) -> ScoreMap | None:
        if method.scores == "verdict":
            raise InputError(
                f"method {method.name} selects by the target's verdict, known in hindsight only",
                seen="engine=torch",
                allowed="engine=replay",
                hint="python run.py engine=replay engine.recording=RESULTS_DIR",
            )
        if method.scores != "isotonic":
            return None
        if self.cost is None:
            raise InputError("isotonic scores without a cost table", hint="profile=auto")
        return self.cost.score_map(temperature)

    def _check_growth(self, method: Method) -> None:
        """Refuse to price this method's steps with a table of another drafting configuration."""
        if self.cost is not None and method.needs_cost:
            facts = {**self.describe().fingerprint(), "growth": repr(method.growth)}
            self.cost.check(facts)

    def _eos_ids(self) -> frozenset[int]:
        return frozenset(self.target.config.eos_ids) | frozenset(self.tokenizer.eos_ids)

    def _device_name(self) -> str:
        if self.device.startswith("cuda"):
            return torch.cuda.get_device_name(self.device)
        return f"cpu ({cpu_model()})"

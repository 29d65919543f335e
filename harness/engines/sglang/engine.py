"""The engine behind `engine=sglang`: a server per kind of method, one request at a time."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.sglang.policies import describe_growth, policy_of
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
from harness.engines.sglang.arguments import Kind, server_arguments, server_kind
from harness.engines.sglang.batch import plain_steps_of_batch, together, worker_steps_of_batch
from harness.engines.sglang.checkpoint import check_checkpoint
from harness.engines.sglang.effective import flattened
from harness.engines.sglang.facts import engine_facts
from harness.engines.sglang.fleet import Fleet
from harness.engines.sglang.gap import top_gap
from harness.engines.sglang.launch import Launch, context_length, settings_of
from harness.engines.sglang.running import Running
from harness.engines.sglang.sampling import Sampling
from harness.engines.sglang.support import check_version
from harness.engines.sglang.trace import Arm, MergedPrefill, stock_trace, worker_trace
from harness.engines.tokenizer import ChatTokenizer
from harness.equality import NextTokens
from harness.hardware.software import package_version
from harness.records import StepRecord

# Positions that a server keeps for drafts: the same room for every arm, whatever its tree.
RESERVED = 128
WARMUP_STEPS = 4
# A reply whose prefill cannot be told from its decoding is asked for again.
ATTEMPTS = 3
POLICY = "EVICT"


class SGLangEngine(InProcess):
    """Starts servers as methods ask for them and measures them from the outside, over HTTP.

    model: target, draft, revisions, tensor_parallel. settings: those of `arguments.Settings`.
    worker: the EVICT worker's own (`evict.sglang.config.EvictConfig`). batch: requests at once
    while step costs are measured. process: how servers are kept, no part of a run's identity:
    live_servers, log_dir, ready_timeout_s, request_timeout_s, stop_timeout_s, environment. A
    server that fails or does not answer is EngineLost, and the next request starts another.
    """

    timed = True
    observable = False
    own_costs: Sequence[CostTable] = ()

    def __init__(
        self,
        model: Mapping[str, Any],
        process: Mapping[str, Any],
        worker: Mapping[str, Any] | None = None,
        batch: int = 1,
        **settings: Any,
    ) -> None:
        check_version(package_version("sglang"))
        self.model = model
        self.settings = settings_of(settings)
        self.target = locate(model["target"], model.get("revision"))
        self.draft = self._draft_folder()
        self.tokenizer = ChatTokenizer.of(model, self.target)
        self.process = process
        self.batch = batch
        self.cost: CostTable | None = None
        launch = Launch.of(model, process, worker, self.settings, (self.target, self.draft))
        self.weights = launch.weights
        self.fleet = Fleet(
            lambda kind, growth: Running.start(kind, launch, growth), int(process["live_servers"])
        )

    @cached_property
    def _facts(self) -> EngineFacts:
        threads = int(self._environment().get("OMP_NUM_THREADS", 0))
        facts = engine_facts(self.model, self.settings, self.target, self.draft, threads)
        return replace(
            facts,
            context_length=context_length(self.model, self.settings) - RESERVED,
            draft_vocab=self.sizes.draft_vocab_size if self.sizes else 0,
            settings={**facts.settings, "batch": str(self.batch)},
        )

    def describe(self) -> EngineFacts:
        """The pinned configuration; every server is refused that does not run with it."""
        return self._facts

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation with the generation prompt."""
        return self.tokenizer.encode_chat(messages)

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        return self.tokenizer.decode(ids)

    def set_cost(self, cost: CostTable | None) -> None:
        """Use this table from now on; one measured elsewhere is refused, naming the fields."""
        if cost is not None:
            growth = {"growth": cost.fingerprint.get("growth", "")}
            cost.check({**self.describe().fingerprint(), **growth})
        self.cost = cost

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        """Positions of methods that can take turns without a server being stopped for another.

        InputError for a method that no server serves, or not with these settings: asked before any
        server is started.
        """
        kinds = [server_kind(method) for method in methods]
        distinct, live = list(dict.fromkeys(kinds)), self.fleet.live
        for kind in distinct:
            server_arguments(kind, self.settings, self.weights)
        parts = [distinct[first : first + live] for first in range(0, len(distinct), live)]
        return [[i for i, kind in enumerate(kinds) if kind in part] for part in parts]

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        """One generation on the method's server, its caches flushed before and after."""
        if observer is not None or request.record_trees:
            raise InputError(
                "trees are recorded in process only", seen="sglang", hint="engine=torch"
            )
        if self.batch > 1:
            raise InputError(
                "requests are measured one at a time; a batch is for step costs",
                seen=f"engine.batch={self.batch}",
                hint="profile=only, or engine.batch=1",
            )
        with self._serving(method) as running:
            for _ in range(ATTEMPTS - 1):
                with suppress(MergedPrefill):
                    return self._once(running, request, method, seed)
            return self._once(running, request, method, seed)

    def _once(self, running: Running, request: Request, method: Method, seed: int) -> RequestTrace:
        sampling = Sampling.of(request, seed, self._room(request))
        rid = f"{request.prompt_id}-{secrets.token_hex(4)}"
        reply = running.client.generate(request.prompt_ids, sampling, rid)
        arm = Arm(method.draft_tokens, getattr(method.growth, "steps", 0))
        if running.session is None:
            if _lifetime(method) == "request":
                running.client.flush_cache()
            return stock_trace(reply, request, arm, self.decode).trace
        return worker_trace(reply, request, arm, self.decode, running.records()).trace

    def forget(self) -> None:
        """Empty prefix caches and tries of all servers."""
        self.fleet.flush()

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """At least `steps` records of `method`, spread over the prompts; EOS is ignored.

        The first steps after each prefill are dropped, and the last, which has no interval. With
        `batch` above 1 that many copies of a prompt run at once.
        """
        share, records = -(-steps // len(prompts)), list[StepRecord]()
        depth = 1 + getattr(method.growth, "steps", 0)
        budget = (share + WARMUP_STEPS + 1) * min(method.draft_tokens, depth) + 1
        for index, prompt in enumerate(prompts):
            request = Request(f"forced-{index}", tuple(prompt), budget, ignore_eos=True)
            records += self._batch_steps(request, method)[WARMUP_STEPS:-1]
        return records

    def _batch_steps(self, request: Request, method: Method) -> list[StepRecord]:
        if self.batch == 1:
            return self.generate(request, method, 0).steps
        sampling = Sampling.of(request, 0, self._room(request))
        with self._serving(method) as running:
            replies = together(running, [request.prompt_ids] * self.batch, sampling)
            if running.session is None:
                return plain_steps_of_batch(replies)
            return worker_steps_of_batch(running.records(), self.batch)

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        """The target's two likeliest next tokens after `ids`, asked of a plain server."""
        with self.fleet.serving(Kind(), None) as running:
            return top_gap(running.client, ids)

    def read_back(self, method: Method) -> dict[str, str]:
        """The configuration that the method's server has resolved; {} unless it is up."""
        running = self.fleet.up(server_kind(method))
        return {} if running is None else flattened(running.document)

    def close(self) -> None:
        """Stop every server and all that it started."""
        self.fleet.close()

    @contextmanager
    def _serving(self, method: Method) -> Iterator[Running]:
        """The method's server, made to follow the method; EngineLost where it fails."""
        kind = server_kind(method)
        growth = describe_growth(method.growth) if kind.algorithm == POLICY else None
        with self.fleet.serving(kind, growth) as running:
            if growth is not None:
                self._order(running, method, growth)
            yield running

    def _order(self, running: Running, method: Method, growth: dict[str, Any]) -> None:
        cost = self.cost if method.needs_cost else None
        if cost is None:
            method.selection.bind(None, method.draft_tokens)
        running.order(policy_of(method.selection), growth, cost)

    def _room(self, request: Request) -> int:
        return context_length(self.model, self.settings) - RESERVED - len(request.prompt_ids)

    def _draft_folder(self) -> Path | None:
        self.sizes = None
        if not self.model.get("draft"):
            return None
        folder = locate(self.model["draft"], self.model.get("draft_revision"))
        self.sizes = check_checkpoint(self.target, folder)
        return folder

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **dict(self.process.get("environment") or {})}


def _lifetime(method: Method) -> str:
    return str(getattr(method.growth, "lifetime", "request"))

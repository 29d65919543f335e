"""SGLang's EAGLE-3 worker with a verify length of its own for every step."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth
from evict.sglang import compat, version
from evict.sglang.agreement import agreement
from evict.sglang.config import EvictConfig
from evict.sglang.depth_gate import DepthGatedDraftWorker
from evict.sglang.draft_worker import Drafted, EvictDraftWorker
from evict.sglang.expert_probe import ExpertProbe, check_layers
from evict.sglang.policies import growth_of
from evict.sglang.recorder import Recorder
from evict.sglang.session import Orders, Session
from evict.sglang.steering import Steering
from evict.sglang.step_ring import StepFacts
from evict.sglang.verify_pool import VerifyPool, VerifyState

logger = logging.getLogger(__name__)
DRAFT_WORKERS = {FixedDepth: EvictDraftWorker, DynamicDepth: DepthGatedDraftWorker}
# Rows by which a captured graph may pad a batch beyond the request pool.
PADDING = 128


class EvictWorker(compat.EAGLEWorkerV2):  # type: ignore[misc]
    """Draft as EAGLE-3, verify the k nodes that the policy chooses, draft-extend as EAGLE-3.

    Outside a step everything stands as SGLang left it: the target's attention backend, graphs and
    widths are put back even when a step fails.
    """

    def __init__(self, *args: Any, **keywords: Any) -> None:
        self.first_rank = compat.ranks()[0] == 0
        self.config = compat.broadcast_object(EvictConfig.load())
        steps, topk, self.full_width = compat.tree_shape()
        growth = growth_of(self.config.growth, steps, topk)
        with compat.swapped(EagleDraftWorker=DRAFT_WORKERS[type(growth)]):
            super().__init__(*args, **keywords)
        self._draft_worker.growth = growth
        self.session = Session(self.config.session) if self.config.session else None
        self.steps_run = {"graph": 0, "eager": 0}
        self.captured: dict[int, dict[str, float]] = {}
        self.last_rids: tuple[str, ...] = ()

    def alloc_memory_pool(self, **keywords: Any) -> None:
        """The parent's pools, then what must stand before any graph is captured."""
        super().alloc_memory_pool(**keywords)
        most = self.req_to_token_pool.size + PADDING
        self._draft_worker.prepare_selection(most)
        probe = self._probe(most) if self.config.count_experts else None
        alone = compat.ranks()[1] == 1
        gather = {} if alone else {"gather": compat.gather_objects}
        self.recorder = Recorder(self.device, self.topk, probe, **gather)

    def init_cuda_graphs(self) -> None:
        """The parent's graphs, one verify state per tier beside them, then the policy."""
        super().init_cuda_graphs()
        runner = self.target_worker.model_runner
        check_batches(self.config.graph_batches, compat.captured_batches(runner))
        pool = VerifyPool(runner, self.full_width)
        tiers = self.config.tiers or range(1, self.full_width + 1)
        pool.build({*tiers, *self._draft_worker.tree_sizes()}, self._verify_state)
        self.pool = self._draft_worker.pool = pool
        self._draft_worker.agree = agreement(self.config.agreement)
        self.facts = compat.resolved(runner)
        self.graph_widths = self._graph_widths()
        widths = self.graph_widths or {1: pool.widths}
        drafter = self._draft_worker
        self.steering = Steering(drafter.selector, widths, self.facts, drafter.growth)
        costs = self.config.cost_tables() if self.first_rank else {}
        costs = compat.broadcast_object(costs)
        self.steering.begin(self.config.policy, costs)
        self._report()

    def forward_batch_generation(self, batch: Any, *args: Any, **keywords: Any) -> Any:
        """One prefill, as the parent does it, or one decode step."""
        if batch.forward_mode.is_extend() or batch.is_extend_in_batch:
            self.recorder.break_run()
            return super().forward_batch_generation(batch, *args, **keywords)
        rids, context = _requests(batch)
        if rids != self.last_rids:
            self.recorder.break_run()
        self.last_rids = rids
        self.recorder.start()
        try:
            result = super().forward_batch_generation(batch, *args, **keywords)
        except BaseException:
            self.recorder.break_run()
            raise
        finally:
            self.pool.restore()
        self._record(rids, context, result)
        return result

    def verify(self, batch: Any, *args: Any, **keywords: Any) -> Any:
        """The parent's verification at the width of the verify input, and its width reported."""
        self.recorder.after_draft()
        width = batch.spec_info.draft_token_num
        self.speculative_num_draft_tokens = width
        try:
            result = super().verify(batch, *args, **keywords)
        finally:
            self.speculative_num_draft_tokens = self.full_width
        size = len(batch.seq_lens)
        result.cap_lens = compat.host_lengths(width, size)
        self._check_regime(width, size, bool(result.can_run_cuda_graph))
        self.recorder.after_verify()
        return result

    def clear_cache_pool(self) -> None:
        """SGLang flushed its caches, so nothing runs: hand out step records, take orders."""
        super().clear_cache_pool()
        self.recorder.break_run()
        if self.session is None:
            return
        records = self.recorder.drain()
        if self.first_rank:
            self.session.append(records)
            if self.recorder.note:
                logger.warning(self.recorder.note)
        self._take_orders(self.session)
        self._report()

    def _take_orders(self, session: Session) -> None:
        """Follow rank 0's orders; spoilt ones change nothing and are named in the report."""
        found: Orders | str | None = None
        try:
            found = session.orders() if self.first_rank else None
        except InputError as error:
            found = str(error)
        orders = compat.broadcast_object(found)
        if isinstance(orders, str):
            self.steering.error = orders
        elif orders is not None and orders.epoch != self.steering.epoch:
            self.steering.obey(orders, self.speculative_num_steps, self.topk)
            self._draft_worker.growth = self.steering.growth
            self.recorder.active = orders.record_steps
            self.recorder.record_trees = orders.record_trees
            self._draft_worker.keep_nodes = orders.record_trees

    def _record(self, rids: tuple[str, ...], context: tuple[int, ...], result: Any) -> None:
        drafted: Drafted | None = self._draft_worker.drafted
        if drafted is None:
            self.recorder.break_run()
            return
        facts = StepFacts(
            epoch=self.steering.epoch,
            rids=rids,
            context=context,
            k=drafted.k,
            drafted=drafted.nodes.tokens_Bn.shape[1],
            depth=drafted.levels,
            graph=bool(result.can_run_cuda_graph),
        )
        expected_N = self._draft_worker.selector.expected_N
        self.recorder.finish(facts, expected_N, result.accept_lens, drafted.root_B, drafted.nodes)

    def _check_regime(self, width: int, batch: int, graph: bool) -> None:
        """A step that was to replay a graph and ran eagerly is an error, never a slow success."""
        self.steps_run["graph" if graph else "eager"] += 1
        if not graph and batch <= max(self.graph_widths, default=0):
            raise RuntimeError(
                f"verify of width {width}, batch {batch} fell back to eager although its batch "
                f"size has CUDA graphs; widths by batch size: {self.graph_widths}"
            )

    def _graph_widths(self) -> dict[int, tuple[int, ...]]:
        """Captured widths by largest batch size; empty in the eager regime."""
        captured = compat.captured_batches(self.target_worker.model_runner)
        if not captured:
            return {}
        whole = tuple(sorted(self._draft_worker.tree_sizes()))
        return {max(captured): whole, max(self.config.graph_batches): self.pool.widths}

    def _verify_state(self, width: int) -> VerifyState:
        runner, began = self.target_worker.model_runner, time.perf_counter()
        attention = compat.attention_backend(runner, width)
        graphs = runner.decode_cuda_graph_runner
        if compat.uses_graphs(runner):
            batches = {*self.config.graph_batches}
            if width in self._draft_worker.tree_sizes():
                batches |= {*compat.captured_batches(runner)}
            steps, free = self.speculative_num_steps, compat.free_memory(runner)
            graphs = compat.verify_graphs(runner, attention, width, steps, sorted(batches))
            spent = {
                "seconds": time.perf_counter() - began,
                "gib": free - compat.free_memory(runner),
            }
            self.captured[width] = spent
            logger.info("verify width %d captured in %.1f s, %.3f GB", width, *spent.values())
        return VerifyState(width, attention, graphs)

    def _probe(self, batches: int) -> ExpertProbe:
        runner = self.target_worker.model_runner
        layers, experts, topk, target_layers = compat.routing(runner)
        check_layers(layers, target_layers)
        probe = ExpertProbe(layers, experts, topk, batches * self.full_width, self.device)
        compat.install_expert_probe(probe)
        return probe

    def _report(self) -> None:
        if self.session is None or not self.first_rank:
            return
        self.session.report(
            {
                "epoch": self.steering.epoch,
                "error": self.steering.error,
                "experts": self.recorder.note,
                "policy": self.steering.policy,
                "sglang": version.installed(),
                "resolved": self.facts,
                "tiers": list(self.pool.widths),
                "captured": self.captured,
                "graph_steps": self.steps_run["graph"],
                "eager_steps": self.steps_run["eager"],
            }
        )


def check_batches(wanted: Sequence[int], captured: Sequence[int]) -> None:
    """InputError for tiers at batch sizes above those that SGLang captures at all."""
    if captured and max(wanted) > max(captured):
        raise InputError(
            "graph_batches above SGLang's own largest",
            seen=max(wanted),
            allowed=f"1..{max(captured)}",
            hint="raise --cuda-graph-bs-decode as well",
        )


def _requests(batch: Any) -> tuple[tuple[str, ...], tuple[int, ...]]:
    """Ids of the batch's requests and their committed lengths; a step late under overlap."""
    lengths = batch.seq_lens_cpu
    if lengths is None:
        lengths = [request.kv.kv_committed_len for request in batch.reqs]
    return (
        tuple(request.rid for request in batch.reqs),
        tuple(int(length) for length in lengths),
    )

"""SGLang's CUDA graph regime on a CPU: its own graph runners, with capture emulated by `Tape`.

For tests. `install` must be called before the scheduler is opened, in a process of its own. Stock
on a GPU and replaced here: the capture itself, the buffers that an attention backend keeps for
graphs, the gates by device, and one kernel (experts), which as SGLang's CPU code waits for values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, ClassVar

import torch
from sglang.srt.layers.attention import intel_amx_backend
from sglang.srt.layers.attention.verify_mask import maybe_create_verify_mask
from sglang.srt.layers.moe import fused_moe_native
from sglang.srt.layers.moe.topk import StandardTopKOutput
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.model_executor.model_runner_components import cuda_graph_setup
from sglang.srt.model_executor.runner_backend import utils as backend_choice
from sglang.srt.model_executor.runner_backend.base_cuda_graph_backend import BaseCudaGraphBackend
from sglang.srt.speculative import eagle_worker_v2
from sglang.srt.speculative.eagle_draft_extend_cuda_graph_runner import (
    EAGLEDraftExtendCudaGraphRunner,
)
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map_only

from tests.sglang.tape import Tape

ARGUMENTS: dict[str, Any] = {
    "attention_backend": "triton",
    "disable_cuda_graph": False,
    "disable_prefill_cuda_graph": True,
    "cuda_graph_bs_decode": [1, 2, 4],
}


def install() -> None:
    """Let SGLang capture and replay on a CPU, in this process."""
    backend_choice.FullCudaGraphBackend = TapeBackend
    cuda_graph_setup.capture_decode_graph = _capture_decode_graph
    eagle_worker_v2._is_cpu = False
    eagle_worker_v2._select_spec_graph_runner_cls = _draft_runner_class
    eagle_worker_v2.current_platform = SimpleNamespace(
        get_speculative_graph_runner_cls=lambda algorithm, phase: _DRAFT_RUNNERS[phase]()
    )
    ForwardMode.is_cpu_graph = ForwardMode.is_cuda_graph
    torch.cpu.is_current_stream_capturing = lambda: False  # type: ignore[attr-defined]
    _install_attention()
    _install_experts()


class TapeBackend(BaseCudaGraphBackend):
    """One tape per shape. All runners share memory, as SGLang's graphs share one pool.

    A replay may overwrite what any other runner's graphs left, and, of its own runner's, what was
    captured after it: both are poisoned before it runs.
    """

    instances: ClassVar[list[TapeBackend]] = []

    def __init__(self, cuda_graph_runner: Any, **_: Any) -> None:
        self.runner = cuda_graph_runner
        self.tapes: dict[Any, Tape] = {}
        self.replays = 0
        TapeBackend.instances.append(self)

    @contextmanager
    def capture_session(self, stream: Any) -> Iterator[None]:
        yield

    def capture_one(
        self,
        shape_key: Any,
        forward_fn: Callable[[], Any],
        capture_inputs: Any = None,
        post_warmup_hook: Callable[[], None] | None = None,
    ) -> None:
        forward_fn()
        if post_warmup_hook is not None:
            post_warmup_hook()
        self.tapes[shape_key] = Tape(forward_fn)

    def can_run(self, forward_batch: Any, shape_key: Any) -> bool:
        return shape_key in self.tapes

    @contextmanager
    def replay_session(self) -> Iterator[None]:
        yield

    def replay(self, shape_key: Any, static_forward_batch: Any, **_: Any) -> Any:
        keys = list(self.tapes)
        own = [self.tapes[key] for key in keys[keys.index(shape_key) + 1 :]]
        others = [tape for one in self.instances if one is not self for tape in one.tapes.values()]
        for tape in [*others, *own]:
            tape.poison()
        self.replays += 1
        return self.tapes[shape_key].replay()

    def cleanup(self) -> None:
        self.tapes.clear()


def _capture_decode_graph(*, model_runner: Any) -> Any:
    runner = model_runner._decode_cuda_graph_runner_cls()(model_runner)
    return cuda_graph_setup.GraphCapture(
        runner=runner, memory_phase="target_verify", memory_usage_gb=0, capture_time=0
    )


_DRAFT_RUNNERS: dict[str, Callable[[], type]] = {
    "draft_decode": lambda: eagle_worker_v2.EAGLEDraftCudaGraphRunner,
    "draft_extend": lambda: EAGLEDraftExtendCudaGraphRunner,
}


def _draft_runner_class(*, builtin_runner_cls: Any, oot_runner_cls: Callable[[], type]) -> type:
    return oot_runner_cls()


def _install_attention() -> None:
    for kind in (
        intel_amx_backend.IntelAMXAttnBackend,
        intel_amx_backend.IntelAMXMultiStepDraftBackend,
    ):
        kind.init_forward_metadata_out_graph = _out_graph
        kind.get_cuda_graph_seq_len_fill_value = lambda self: self.num_draft_tokens
        kind.init_forward_metadata_in_graph = lambda self, forward_batch: None
        kind.init_cuda_graph_state = _graph_state
    intel_amx_backend.IntelAMXAttnBackend.verify_mask = property(
        lambda self: getattr(self, "graph_mask", None)
    )


def _graph_state(backend: Any, max_bs: int, max_num_tokens: int) -> None:
    backend.graph_tables = {}
    backend.graph_mask = maybe_create_verify_mask(
        is_draft_runner=False,
        skip_prefill=False,
        max_bs=max_bs,
        max_context_len=0,
        num_draft_tokens=getattr(backend, "num_draft_tokens", None),
        device="cpu",
        is_read=True,
    )


def _out_graph(backend: Any, forward_batch: Any, in_capture: bool = False) -> None:
    """Tables at fixed addresses, one set per batch size: a capture makes them, a replay fills them.

    As in SGLang's GPU backends another capture of the same batch size replaces them, whatever its
    width, and leaves the earlier graph with tables that nobody fills any more.
    """
    backend.init_forward_metadata(_view(forward_batch))
    parts = getattr(backend, "attn_backends", [backend])
    fresh = [{name: getattr(part, name) for name in _TABLES} for part in parts]
    if in_capture:
        backend.graph_tables[forward_batch.batch_size] = tree_map_only(Tensor, torch.clone, fresh)
    kept = backend.graph_tables[forward_batch.batch_size]
    for old, new in zip(tree_leaves(kept), tree_leaves(fresh), strict=True):
        _refill(old, new)
    for part, tables in zip(parts, kept, strict=True):
        vars(part).update(tables)


_TABLES = ("forward_metadata", "extend_metadata", "draft_decode_metadata")


def _refill(old: Any, new: Any) -> None:
    if not isinstance(old, Tensor):
        if old != new:
            raise RuntimeError(f"{new} at replay, {old} at capture")
    elif old.shape != new.shape:
        raise RuntimeError(f"tables of {tuple(new.shape)} for a graph of {tuple(old.shape)}")
    else:
        old.copy_(new)


def _view(forward_batch: Any) -> SimpleNamespace:
    """What the CPU backend reads, of a batch that may be a runner's whole buffers."""
    size, mode, spec = forward_batch.batch_size, forward_batch.forward_mode, forward_batch.spec_info
    view = SimpleNamespace(
        batch_size=size,
        forward_mode=mode,
        req_pool_indices=forward_batch.req_pool_indices[:size],
        seq_lens=forward_batch.seq_lens[:size],
        out_cache_loc=forward_batch.out_cache_loc,
        spec_info=spec,
    )
    if mode.is_target_verify():
        width = spec.draft_token_num
        mask = torch.ones(size * width * width, dtype=torch.bool)
        given = spec.custom_mask.flatten()[: mask.numel()]
        mask[: given.numel()] = given
        view.spec_info = SimpleNamespace(
            draft_token_num=width, tree_topk=spec.tree_topk, custom_mask=mask
        )
    elif mode.is_draft_extend_v2():
        width = spec.num_tokens_per_req
        view.extend_seq_lens = torch.full((size,), width, dtype=torch.int32)
        view.extend_start_loc = torch.arange(size, dtype=torch.int32) * width
    return view


def _install_experts() -> None:
    """One operation for SGLang's experts on a CPU, as their fused kernel is one on a GPU."""
    original = fused_moe_native.moe_forward_native
    layers: dict[int, tuple[Any, Any]] = {}

    def operation(layer: int, x: Tensor, weights: Tensor, ids: Tensor) -> Tensor:
        module, config = layers[layer]
        routing = StandardTopKOutput(weights, ids, None)
        return original(module, x, routing, config)

    def forward(layer: Any, x: Tensor, routing: Any, config: Any) -> Tensor:
        layers[id(layer)] = (layer, config)
        return torch.ops.emulated.experts(id(layer), x, routing.topk_weights, routing.topk_ids)

    _library.define("experts(int layer, Tensor x, Tensor weights, Tensor ids) -> Tensor")
    _library.impl("experts", operation, "CompositeExplicitAutograd")
    fused_moe_native.moe_forward_native = forward


_library = torch.library.Library("emulated", "DEF")

"""Every private name of SGLang 0.5.23 that the plugin touches; no other file knows one.

Imported inside SGLang's processes only, after `version.check`. `relied_on` lists what is called or
overridden, so that a test can compare each signature with the installed package's.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from sglang.kernels.ops.speculative.cache_locs import assign_extend_cache_locs_uniform_func
from sglang.srt.layers.moe.topk import TopK
from sglang.srt.model_executor.cuda_graph_config import Backend, Phase, check_cuda_graph_backend
from sglang.srt.model_executor.forward_context import ForwardContext, forward_context
from sglang.srt.model_executor.runner import DecodeCudaGraphRunner
from sglang.srt.runtime_context import get_context, get_exec, get_parallel, get_spec
from sglang.srt.speculative import eagle_worker_v2
from sglang.srt.speculative.eagle_draft_cuda_graph_runner import EAGLEDraftCudaGraphRunner
from sglang.srt.speculative.eagle_utils import per_step_draft_out_cache_loc
from sglang.srt.speculative.eagle_worker_v2 import EagleDraftWorker, EAGLEWorkerV2
from sglang.srt.speculative.spec_utils import renorm_draft_probs, select_top_k_tokens
from sglang.srt.state_capturer.routed_experts import set_global_experts_capturer
from sglang.srt.utils.common import fast_topk, get_available_gpu_memory
from torch import Tensor

from evict.sglang.facts import expert_count, settings_facts

__all__ = [
    "EAGLEDraftCudaGraphRunner",
    "EAGLEWorkerV2",
    "EagleDraftWorker",
    "ForwardContext",
    "fast_topk",
    "forward_context",
    "per_step_draft_out_cache_loc",
    "renorm_draft_probs",
    "select_top_k_tokens",
]


@contextmanager
def swapped(**names: Any) -> Iterator[None]:
    """Replace globals of SGLang's EAGLE worker module for the duration of a block.

    The parent looks these up by name at the point where a subclass would want to override them
    and has no method for it. One worker lives in a process, and the block ends with the call.
    """
    saved = {name: getattr(eagle_worker_v2, name) for name in names}
    for name, value in names.items():
        setattr(eagle_worker_v2, name, value)
    try:
        yield
    finally:
        for name, value in saved.items():
            setattr(eagle_worker_v2, name, value)


def stock_verify_input() -> Callable[..., Any]:
    """SGLang's own builder of a verify input."""
    return eagle_worker_v2.build_eagle_verify_input  # type: ignore[no-any-return]


def slots(batch: Any, req_to_token: Tensor, width: int) -> Tensor:
    """Cache slots of the `width` positions after the committed ones, int64 [b * width]."""
    slots_bW: Tensor = assign_extend_cache_locs_uniform_func(
        req_pool_indices=batch.req_pool_indices,
        req_to_token=req_to_token,
        start_offset=batch.seq_lens,
        batch_size=len(batch.seq_lens),
        draft_token_num=width,
        device=batch.device,
    )
    return slots_bW


def uses_graphs(model_runner: Any) -> bool:
    """Whether decode runs from CUDA graphs."""
    disabled = check_cuda_graph_backend(Phase.DECODE, Backend.DISABLED)
    return not disabled and isinstance(model_runner.decode_cuda_graph_runner, DecodeCudaGraphRunner)


def attention_backend(model_runner: Any, width: int) -> Any:
    """A target attention backend for verifying `width` nodes, sharing the first one's workspace.

    Backends read the width when they are constructed. The call leaves a flag on the runner.
    """
    before = model_runner.init_new_workspace
    try:
        with get_spec().override(speculative_num_draft_tokens=width):
            return model_runner._get_attention_backend(init_new_workspace=False)
    finally:
        model_runner.init_new_workspace = before


def verify_graphs(
    model_runner: Any, attention: Any, width: int, steps: int, batches: Sequence[int]
) -> Any:
    """Capture target graphs of one verify width for these batch sizes."""
    graph = get_exec().graph
    decode = dataclasses.replace(
        graph.cuda_graph_config.decode, bs=list(batches), max_bs=max(batches)
    )
    config = dataclasses.replace(graph.cuda_graph_config, decode=decode)
    with (
        get_spec().override(speculative_num_draft_tokens=width),
        graph.override(cuda_graph_config=config),
    ):
        return DecodeCudaGraphRunner(
            model_runner,
            attn_backend=attention,
            speculative_num_steps=steps,
            speculative_num_draft_tokens=width,
        )


def captured_batches(model_runner: Any) -> tuple[int, ...]:
    """Batch sizes of the target's own graphs, ascending; empty without graphs."""
    if not uses_graphs(model_runner):
        return ()
    return tuple(sorted(model_runner.decode_cuda_graph_runner.capture_bs))


def free_memory(model_runner: Any) -> float:
    """Free memory of the target's device in GB, cached blocks of the allocator not freed."""
    return float(
        get_available_gpu_memory(model_runner.device, model_runner.gpu_id, empty_cache=False)
    )


def ranks() -> tuple[int, int]:
    """Rank in the tensor-parallel group, and its size."""
    group = get_parallel().tp_group
    return group.rank_in_group, group.world_size


def broadcast_tensor(tensor: Tensor) -> None:
    """Overwrite with rank 0's, in stream order."""
    get_parallel().tp_group.broadcast(tensor, src=0)


def broadcast_object(value: Any) -> Any:
    """Rank 0's object, on every rank."""
    return get_parallel().tp_group.broadcast_object(value, src=0)


def gather_objects(value: Any) -> list[Any]:
    """Every rank's object, in order of rank."""
    group = get_parallel().tp_group
    found: list[Any] = [None] * group.world_size
    torch.distributed.all_gather_object(found, value, group=group.cpu_group)
    return found


def tree_shape() -> tuple[int, int, int]:
    """Steps, topk and draft tokens of the server."""
    spec = get_spec()
    return (
        spec.speculative_num_steps,
        spec.speculative_eagle_topk,
        spec.speculative_num_draft_tokens,
    )


def host_lengths(width: int, batch: int) -> Tensor:
    """Verified tokens of each request, for SGLang's own statistics; int64 [batch], on the host."""
    return torch.full((batch,), width)


def routing(model_runner: Any) -> tuple[list[int], int, int, int]:
    """Layer ids of the MoE routers, routed experts of a layer, experts per token, all layers."""
    routers = [one for one in model_runner.model.modules() if isinstance(one, TopK)]
    config = model_runner.model_config.hf_text_config.to_dict()
    layers = sorted(one.layer_id for one in routers)
    return (
        layers,
        expert_count(config),
        config["num_experts_per_tok"],
        config["num_hidden_layers"],
    )


def install_expert_probe(probe: Any) -> None:
    """Let `probe` see the routing of every target forward from now on, captured ones included."""
    set_global_experts_capturer(probe)


def resolved(model_runner: Any) -> dict[str, str]:
    """Facts of this server as it runs, read back from SGLang's resolved configuration."""
    leaf = get_context().config_leaf
    cuda = str(model_runner.device).startswith("cuda")
    return settings_facts(
        model_runner.model_config.hf_text_config.to_dict(),
        device=torch.cuda.get_device_name() if cuda else str(model_runner.device),
        dtype=str(model_runner.dtype).removeprefix("torch."),
        attention_backend=str(leaf("decode_attention_backend") or leaf("attention_backend")),
        moe_runner_backend=str(leaf("moe_runner_backend")),
        graphs=uses_graphs(model_runner),
        tensor_parallel=get_parallel().tp_group.world_size,
    )

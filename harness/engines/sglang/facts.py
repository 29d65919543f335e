"""What an SGLang engine says of itself: pinned settings, the target's geometry, versions."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from evict.sglang.facts import expert_count, settings_facts
from harness.engines.base import EngineFacts
from harness.engines.sglang.arguments import Settings
from harness.engines.torch.config import read_config
from harness.hardware.gpu import gpu_name
from harness.hardware.software import package_version
from harness.identity import folder_hash

PACKAGES = ("sglang", "torch", "evict-bench")


def engine_facts(
    model: Mapping[str, Any],
    settings: Settings,
    target: Path,
    draft: Path | None,
    threads: int,
) -> EngineFacts:
    """Facts of servers that run with exactly these settings; others are refused at their start.

    threads: OpenMP threads of the servers, 0 where not set. context_length: the settings'.
    """
    config = read_config(target)
    on_gpu = settings.device == "cuda"
    device = (gpu_name() or "unknown GPU") if on_gpu else settings.device
    pinned = settings_facts(
        config,
        device=device,
        dtype=settings.dtype,
        attention_backend=str(settings.decode_attention_backend or settings.attention_backend),
        moe_runner_backend=settings.moe_runner_backend,
        graphs=not settings.disable_cuda_graph,
        tensor_parallel=int(model.get("tensor_parallel") or 1),
    )
    return EngineFacts(
        engine="sglang",
        model=str(model["name"]),
        dtype=settings.dtype,
        device=device,
        threads=threads,
        layers=int(config["num_hidden_layers"]),
        experts=expert_count(config),
        experts_per_token=int(config.get("num_experts_per_tok") or 0),
        context_length=settings.context_length,
        draft_vocab=0,
        weights_hash=folder_hash(*filter(None, (target, draft)))[:16],
        versions={name: package_version(name) or "source" for name in PACKAGES},
        settings={**pinned, "overlap": str(not settings.disable_overlap_schedule)},
    )

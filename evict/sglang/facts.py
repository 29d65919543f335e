"""Names and values under which a cost table and the server that uses it are held to be alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


def expert_count(config: Mapping[str, Any]) -> int:
    """Routed experts of a layer by a Hugging Face config; 0 for a dense model."""
    return int(next((config[name] for name in EXPERTS if config.get(name)), 0))


def settings_facts(
    config: Mapping[str, Any],
    *,
    device: str,
    dtype: str,
    attention_backend: str,
    moe_runner_backend: str,
    graphs: bool,
    tensor_parallel: int,
) -> dict[str, str]:
    """What step times depend on besides the machine, each as text.

    config: the target's config.json. The target is told by its geometry, not by its path.
    """
    architecture = (config.get("architectures") or ["unknown"])[0]
    target = (
        f"{architecture}, {config['num_hidden_layers']} layers of {config['hidden_size']}, "
        f"{config.get('num_experts_per_tok') or 0} of {expert_count(config)} experts"
    )
    return {
        "device": device,
        "dtype": dtype,
        "attention_backend": attention_backend,
        "moe_runner_backend": moe_runner_backend,
        "regime": "graphs" if graphs else "eager",
        "tensor_parallel": str(tensor_parallel),
        "target": target,
    }

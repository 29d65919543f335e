"""Checkpoints without weights: two config.json that `--load-format dummy` fills at random.

The target has the published geometry of Qwen3-30B-A3B. The draft head has one layer and the
target's vocabulary, so that there is no vocabulary map to be made up. Such weights say what a step
costs and nothing about what is accepted.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

GIB = 2**30


@dataclass(frozen=True)
class Geometry:
    """Sizes of a Qwen3-MoE target; the draft head shares width, heads and vocabulary."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    experts_per_token: int
    expert_size: int
    mlp_size: int
    vocabulary: int
    positions: int

    def parameters(self) -> int:
        """Weights of target and draft head, norms left out."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        experts = self.experts * (3 * self.hidden * self.expert_size + self.hidden)
        target = 2 * self.vocabulary * self.hidden + self.layers * (attention + experts)
        mlp = 3 * self.hidden * self.mlp_size + 3 * self.hidden * self.hidden
        return target + self.vocabulary * self.hidden + 2 * attention + mlp

    def gib(self, bytes_per_weight: int) -> float:
        """Memory of all weights."""
        return self.parameters() * bytes_per_weight / GIB

    def facts(self, load_format: str) -> dict[str, Any]:
        """For the document."""
        return {
            "kind": "random",
            "load_format": load_format,
            "geometry": asdict(self),
            "note": "cost only: random routers load experts unlike trained ones, and what random "
            "weights accept says nothing",
        }


QWEN3_30B = Geometry(
    layers=48,
    hidden=2048,
    heads=32,
    kv_heads=4,
    head_dim=128,
    experts=128,
    experts_per_token=8,
    expert_size=768,
    mlp_size=6144,
    vocabulary=151936,
    positions=40960,
)
TINY = Geometry(
    layers=8,
    hidden=64,
    heads=4,
    kv_heads=2,
    head_dim=32,
    experts=16,
    experts_per_token=4,
    expert_size=32,
    mlp_size=128,
    vocabulary=512,
    positions=2048,
)


@dataclass(frozen=True)
class Pair:
    """Folders of a target and its draft head."""

    target: Path
    draft: Path


def write_pair(folder: Path, geometry: Geometry, dtype: str) -> Pair:
    """Write both config.json below the folder; dtype as Hugging Face names it."""
    pair = Pair(folder / "target", folder / "draft")
    _write(pair.target, {**_shared(geometry, dtype), **_target(geometry)})
    _write(pair.draft, {**_shared(geometry, dtype), **_draft(geometry)})
    return pair


def _shared(geometry: Geometry, dtype: str) -> dict[str, Any]:
    return {
        "hidden_size": geometry.hidden,
        "intermediate_size": geometry.mlp_size,
        "num_attention_heads": geometry.heads,
        "num_key_value_heads": geometry.kv_heads,
        "head_dim": geometry.head_dim,
        "vocab_size": geometry.vocabulary,
        "max_position_embeddings": geometry.positions,
        "rope_theta": 1000000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": dtype,
        "bos_token_id": 0,
        "eos_token_id": 1,
        "pad_token_id": 0,
    }


def _target(geometry: Geometry) -> dict[str, Any]:
    return {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": geometry.layers,
        "num_experts": geometry.experts,
        "num_experts_per_tok": geometry.experts_per_token,
        "moe_intermediate_size": geometry.expert_size,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _draft(geometry: Geometry) -> dict[str, Any]:
    layers = geometry.layers
    return {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": geometry.vocabulary,
        "target_hidden_size": geometry.hidden,
        "mlp_bias": False,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": [1, layers // 2 - 1, layers - 4],
        },
    }


def _write(folder: Path, config: dict[str, Any]) -> None:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))

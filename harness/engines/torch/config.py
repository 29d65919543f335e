"""Geometry of the two networks, read from their `config.json` and checked once."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evict.errors import InputError


def read_config(folder: Path) -> dict[str, Any]:
    """`config.json` of a checkpoint folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(
            f"checkpoint {folder.name} has no config.json",
            seen=str(folder),
            allowed="a folder in Hugging Face layout (config.json and *.safetensors)",
        )
    config: dict[str, Any] = json.loads(path.read_text())
    return config


def _need(config: Mapping[str, Any], key: str) -> Any:
    if config.get(key) is None:
        raise InputError(
            f"config.json lacks {key!r}", seen=sorted(config), allowed=f"a {key} entry"
        )
    return config[key]


def _rope_theta(config: Mapping[str, Any]) -> float:
    nested = config.get("rope_parameters") or {}
    scaling = config.get("rope_scaling") or {}
    kind = (nested or scaling).get("rope_type", "default")
    if kind != "default":
        raise InputError("rope scaling is not supported", seen=kind, allowed="default")
    return float(nested.get("rope_theta") or config.get("rope_theta") or 10_000.0)


@dataclass(frozen=True)
class TargetConfig:
    """A Qwen3-MoE target in which every layer is sparse."""

    hidden_size: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    experts: int
    experts_per_token: int
    expert_size: int
    normalise_top_k: bool
    vocab_size: int
    context_length: int
    rope_theta: float
    eps: float
    tied_embeddings: bool
    eos_ids: tuple[int, ...]

    @classmethod
    def read(cls, folder: Path) -> TargetConfig:
        """Parse and check; an architecture this engine does not implement is an InputError."""
        c = read_config(folder)
        if c.get("model_type") != "qwen3_moe":
            raise InputError(
                "the embedded engine does not implement this architecture",
                seen=c.get("model_type"),
                allowed="qwen3_moe",
                hint="engine=sglang",
            )
        if c.get("mlp_only_layers") or c.get("decoder_sparse_step", 1) != 1:
            raise InputError(
                "dense layers between sparse ones are not implemented",
                seen=c.get("mlp_only_layers"),
                allowed="every layer sparse",
            )
        eos = c.get("eos_token_id")
        eos_ids = tuple(eos) if isinstance(eos, list) else (() if eos is None else (int(eos),))
        heads = int(_need(c, "num_attention_heads"))
        hidden = int(_need(c, "hidden_size"))
        return cls(
            hidden_size=hidden,
            layers=int(_need(c, "num_hidden_layers")),
            heads=heads,
            kv_heads=int(c.get("num_key_value_heads") or heads),
            head_dim=int(c.get("head_dim") or hidden // heads),
            experts=int(_need(c, "num_experts")),
            experts_per_token=int(_need(c, "num_experts_per_tok")),
            expert_size=int(_need(c, "moe_intermediate_size")),
            normalise_top_k=bool(c.get("norm_topk_prob", False)),
            vocab_size=int(_need(c, "vocab_size")),
            context_length=int(_need(c, "max_position_embeddings")),
            rope_theta=_rope_theta(c),
            eps=float(c.get("rms_norm_eps", 1e-6)),
            tied_embeddings=bool(c.get("tie_word_embeddings", False)),
            eos_ids=eos_ids,
        )


@dataclass(frozen=True)
class HeadConfig:
    """An EAGLE-3 head in SpecForge layout (one decoder layer, optional reduced vocabulary)."""

    hidden_size: int
    target_hidden_size: int
    heads: int
    kv_heads: int
    head_dim: int
    mlp_size: int
    vocab_size: int
    draft_vocab_size: int
    rope_theta: float
    eps: float
    aux_layers: tuple[int, int, int]

    @classmethod
    def read(cls, folder: Path, target: TargetConfig) -> HeadConfig:
        """Parse; `aux_layers` are the target layers whose *input* is captured.

        The default is 2, L // 2, L - 3; `eagle_config.eagle_aux_hidden_state_layer_ids` names
        layers by their *output* (one less), as SpecForge writes them.
        """
        c = read_config(folder)
        if int(c.get("num_hidden_layers", 1)) != 1:
            raise InputError(
                "an EAGLE-3 head has exactly one decoder layer",
                seen=c["num_hidden_layers"],
                allowed=1,
            )
        outputs = (c.get("eagle_config") or {}).get("eagle_aux_hidden_state_layer_ids")
        count = target.layers
        aux = [i + 1 for i in outputs] if outputs else [2, count // 2, count - 3]
        if len(aux) != 3 or not all(0 <= i < count for i in aux):
            raise InputError(
                "EAGLE-3 captures three hidden states of the target",
                seen=aux,
                allowed=f"three layers in 0..{count - 1}",
            )
        hidden, heads = int(_need(c, "hidden_size")), int(_need(c, "num_attention_heads"))
        vocab = int(_need(c, "vocab_size"))
        return cls(
            hidden_size=hidden,
            target_hidden_size=int(c.get("target_hidden_size") or target.hidden_size),
            heads=heads,
            kv_heads=int(c.get("num_key_value_heads") or heads),
            head_dim=int(c.get("head_dim") or hidden // heads),
            mlp_size=int(_need(c, "intermediate_size")),
            vocab_size=vocab,
            draft_vocab_size=int(c.get("draft_vocab_size") or vocab),
            rope_theta=_rope_theta(c),
            eps=float(c.get("rms_norm_eps", 1e-6)),
            aux_layers=(aux[0], aux[1], aux[2]),
        )

"""Architecture numbers to geometry: a facts file, or a config.json in any MoE family's spelling."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from evict.errors import InputError
from harness.simulate.geometry import Attention, DraftGeometry, ModelGeometry

FACTS = Path(__file__).parent / "facts"
EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")
TOP_K = ("num_experts_per_tok", "moe_topk", "num_experts_per_token")
EXPERT_SIZE = ("moe_intermediate_size", "intermediate_size")
SHARED_COUNT = ("num_shared_experts", "n_shared_experts", "num_shared_expert")


def load_geometry(source: str | Path) -> ModelGeometry:
    """A model by the name of its facts file, or from a Hugging Face config.json or its folder."""
    known = {file.stem: file for file in sorted(FACTS.glob("*.yaml"))}
    if str(source) in known:
        facts: Any = OmegaConf.to_container(OmegaConf.load(known[str(source)]))
        return from_config(str(source), facts["target"], facts.get("draft"))
    path = Path(source)
    path = path / "config.json" if path.is_dir() else path
    if not path.is_file():
        raise InputError(
            "no architecture numbers for this model",
            seen=str(source),
            allowed=", ".join(known) + ", or the path of a config.json",
            hint="model=qwen3_30b",
        )
    return from_config(path.parent.name, read_object(path))


def from_config(
    name: str, config: Mapping[str, Any], draft: Mapping[str, Any] | None = None
) -> ModelGeometry:
    """Parse a target's config.json, and its EAGLE-3 head's where there is one."""
    target = read_target(name, config)
    if draft is None:
        return target
    return replace(target, draft=read_draft(draft, target.attention.hidden))


def read_target(name: str, config: Mapping[str, Any]) -> ModelGeometry:
    """A target without its draft head; InputError that names a missing or contradictory entry."""
    config = config.get("text_config", config)
    layers = _whole(config, "num_hidden_layers")
    experts = _first(config, EXPERTS, 0)
    dense_layers = _dense_layers(config, layers) if experts else layers
    top_k = _first(config, TOP_K) if experts else 0
    expert_size = _first(config, EXPERT_SIZE) if experts else 0
    if experts and not 1 <= top_k <= experts:
        raise InputError(
            "experts per token", seen=top_k, allowed=f"1..{experts} (experts of this model)"
        )
    return ModelGeometry(
        name=name,
        layers=layers,
        attention=_attention(config, _whole(config, "hidden_size"), 1),
        experts=experts,
        experts_per_token=top_k,
        expert_size=expert_size,
        shared_size=_shared_size(config, expert_size) if experts else 0,
        dense_layers=dense_layers,
        dense_size=_whole(config, "intermediate_size") if dense_layers else 0,
        vocab_size=_whole(config, "vocab_size"),
        tied=bool(config.get("tie_word_embeddings", False)),
    )


def read_draft(config: Mapping[str, Any], target_hidden: int) -> DraftGeometry:
    """An EAGLE-3 head in SpecForge layout; its attention reads embedding and state together."""
    return DraftGeometry(
        attention=_attention(config, _whole(config, "hidden_size"), 2),
        mlp_size=_whole(config, "intermediate_size"),
        vocab_size=_first(config, ("draft_vocab_size", "vocab_size")),
        target_hidden=int(config.get("target_hidden_size") or target_hidden),
    )


def read_object(path: Path) -> Mapping[str, Any]:
    """The JSON object in a file; InputError for anything else."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path} is no JSON", seen=str(error), allowed="a config.json") from error
    if not isinstance(found, dict):
        raise InputError(f"{path}", seen=type(found).__name__, allowed="a JSON object")
    return found


def _attention(config: Mapping[str, Any], hidden: int, inputs: int) -> Attention:
    heads = _whole(config, "num_attention_heads")
    return Attention(
        hidden=hidden,
        inputs=inputs * hidden,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_dim=int(config.get("head_dim") or hidden // heads),
    )


def _dense_layers(config: Mapping[str, Any], layers: int) -> int:
    first = int(config.get("first_k_dense_replace") or 0)
    listed = set(config.get("mlp_only_layers") or [])
    every = int(config.get("decoder_sparse_step") or 1)
    dense = (i for i in range(layers) if i < first or i in listed or (i + 1) % every)
    return sum(1 for _ in dense)


def _shared_size(config: Mapping[str, Any], expert_size: int) -> int:
    given = config.get("shared_expert_intermediate_size")
    return int(given) if given else _first(config, SHARED_COUNT, 0) * expert_size


def _first(config: Mapping[str, Any], names: tuple[str, ...], default: int | None = None) -> int:
    for name in names:
        if config.get(name) is not None:
            return _whole(config, name)
    if default is None:
        raise InputError("config.json lacks an entry", seen=sorted(config), allowed=names[0])
    return default


def _whole(config: Mapping[str, Any], name: str) -> int:
    value = config.get(name)
    value = value[0] if isinstance(value, list) and len(set(value)) == 1 else value
    if type(value) is not int or value < 1:
        raise InputError(f"config.json: {name}", seen=repr(value), allowed="a whole number >= 1")
    return value

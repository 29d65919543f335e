"""Writing the trained networks as the checkpoints that engines load: bf16 safetensors + config."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from harness.lab.head import LabHead
from harness.lab.recipe import HeadRecipe, TargetRecipe
from harness.lab.target import LabTarget

END_ID = 2


def round_weights(model: torch.nn.Module) -> None:
    """Round every weight to bf16 in place: the rounded weights are the canonical ones.

    Done before the head is trained, so that both networks know the target that is shipped.
    """
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.to(torch.bfloat16).to(parameter.dtype))


def target_tensors(model: LabTarget) -> dict[str, Tensor]:
    """State of the target under Hugging Face's Qwen3MoeForCausalLM names."""
    tensors: dict[str, Tensor] = {}
    for name, value in model.state_dict().items():
        if name.endswith(("mlp.gate_up", "mlp.down")):
            stem = "model." + name.rsplit(".", 1)[0]
            for expert, weight in enumerate(value):
                tensors.update(_expert(f"{stem}.experts.{expert}", name, weight))
        else:
            tensors[name if name.startswith("lm_head") else f"model.{name}"] = value
    return tensors


def _expert(stem: str, name: str, weight: Tensor) -> dict[str, Tensor]:
    if name.endswith("down"):
        return {f"{stem}.down_proj.weight": weight}
    gate, up = weight.chunk(2, dim=0)
    return {f"{stem}.gate_proj.weight": gate, f"{stem}.up_proj.weight": up}


def export_target(model: LabTarget, folder: Path) -> None:
    """Write `config.json` and `model.safetensors`."""
    r = model.recipe
    config = {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "vocab_size": model.embed_tokens.num_embeddings,
        "intermediate_size": r.moe_intermediate_size,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "bos_token_id": None,
        "eos_token_id": END_ID,
        "pad_token_id": 0,
        "dtype": "bfloat16",
        **_shared(r),
        "num_hidden_layers": r.num_hidden_layers,
        "num_experts": r.num_experts,
        "num_experts_per_tok": r.num_experts_per_tok,
        "moe_intermediate_size": r.moe_intermediate_size,
    }
    _write(folder, config, target_tensors(model))


def export_head(head: LabHead, target: LabTarget, recipe: HeadRecipe, folder: Path) -> None:
    """Write the head in SpecForge layout, with d2t offsets and the t2d mask."""
    vocab = target.embed_tokens.num_embeddings
    ids_D = head.ids_D
    covered = torch.zeros(vocab, dtype=torch.bool)
    covered[ids_D] = True
    count = target.recipe.num_hidden_layers
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "vocab_size": vocab,
        "draft_vocab_size": len(ids_D),
        "target_hidden_size": target.recipe.hidden_size,
        "intermediate_size": recipe.intermediate_size,
        "hidden_act": "silu",
        "attention_bias": False,
        "num_hidden_layers": 1,
        "tie_word_embeddings": False,
        "bos_token_id": 0,
        "eos_token_id": END_ID,
        "pad_token_id": 0,
        "dtype": "bfloat16",
        "eagle_config": {
            "eagle_aux_hidden_state_layer_ids": [1, count // 2 - 1, count - 4],
            "use_aux_hidden_state": True,
        },
        **_shared(target.recipe),
    }
    tensors: dict[str, Tensor] = dict(head.state_dict())
    _write(folder, config, tensors, {"d2t": ids_D - torch.arange(len(ids_D)), "t2d": covered})


def _shared(r: TargetRecipe) -> dict[str, Any]:
    return {
        "hidden_size": r.hidden_size,
        "num_attention_heads": r.num_attention_heads,
        "num_key_value_heads": r.num_key_value_heads,
        "head_dim": r.head_dim,
        "rms_norm_eps": r.rms_norm_eps,
        "rope_theta": r.rope_theta,
        "max_position_embeddings": r.max_position_embeddings,
    }


def _write(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    maps: Mapping[str, Tensor] | None = None,
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    weights = {
        name: value.detach().to(torch.bfloat16).contiguous() for name, value in tensors.items()
    }
    save_file({**weights, **(maps or {})}, folder / "model.safetensors", {"format": "pt"})

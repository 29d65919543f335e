"""Tiny checkpoints SGLang can serve: a random Qwen3-MoE target and an EAGLE-3 head for it.

Both are float32 and the same in every run. The head is built, not trained: its attention reads
mostly its own position and copies the token's embedding, and it shares rows of the target's output
layer; the target's layers are weak, so that its choice depends mostly on the last token. They
agree often enough that between none and all levels of a tree are accepted.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
HIDDEN, LAYERS, HEADS, KV_HEADS, HEAD_DIM = 64, 4, 4, 2, 32
EXPERTS, EXPERTS_PER_TOKEN, EXPERT_SIZE, MLP_SIZE = 16, 4, 32, 128
VOCAB, UNKNOWN, PAD, EOS = 256, 253, 254, 255
LAYER_STRENGTH = 0.03
AUX_LAYERS = [0, 1, 2]


@dataclass(frozen=True)
class Pair:
    """Folders of a target and of an EAGLE-3 head for it."""

    target: Path
    draft: Path


LAB = Pair(ROOT / "harness/lab/weights/target", ROOT / "harness/lab/weights/eagle3")


def write_tiny(folder: Path) -> Pair:
    """Write both checkpoints with tokenizer files below the folder (about 2.5 MB)."""
    import torch

    source = _Random(torch.Generator().manual_seed(0))
    target = _target_weights(source)
    pair = Pair(folder / "target", folder / "draft")
    _write(pair.target, _target_config(), target)
    _write(pair.draft, _draft_config(), _draft_weights(source, target["lm_head.weight"]))
    return pair


class _Random:
    def __init__(self, generator: torch.Generator) -> None:
        self._generator = generator

    def __call__(self, *shape: int, scale: float) -> torch.Tensor:
        import torch

        return torch.randn(*shape, generator=self._generator) * scale


def _shared_config() -> dict[str, Any]:
    return {
        "hidden_size": HIDDEN,
        "intermediate_size": MLP_SIZE,
        "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS,
        "head_dim": HEAD_DIM,
        "vocab_size": VOCAB,
        "max_position_embeddings": 2048,
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "torch_dtype": "float32",
        "bos_token_id": EOS,
        "eos_token_id": EOS,
        "pad_token_id": PAD,
    }


def _target_config() -> dict[str, Any]:
    return _shared_config() | {
        "architectures": ["Qwen3MoeForCausalLM"],
        "model_type": "qwen3_moe",
        "num_hidden_layers": LAYERS,
        "num_experts": EXPERTS,
        "num_experts_per_tok": EXPERTS_PER_TOKEN,
        "moe_intermediate_size": EXPERT_SIZE,
        "norm_topk_prob": True,
        "decoder_sparse_step": 1,
        "mlp_only_layers": [],
    }


def _draft_config() -> dict[str, Any]:
    """The default layers to read (2, half, last but 3) coincide in a target of 4 layers."""
    return _shared_config() | {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "num_hidden_layers": 1,
        "draft_vocab_size": len(_draft_ids()),
        "target_hidden_size": HIDDEN,
        "mlp_bias": False,
        "eagle_config": {
            "use_aux_hidden_state": True,
            "eagle_aux_hidden_state_layer_ids": AUX_LAYERS,
        },
    }


def _draft_ids() -> list[int]:
    """Tokens the head can draft: three of every four."""
    return [token for token in range(VOCAB) if token % 4 != 3]


def _target_weights(random: _Random) -> dict[str, torch.Tensor]:
    import torch

    weights = {
        "model.embed_tokens.weight": random(VOCAB, HIDDEN, scale=1.0),
        "model.norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": random(VOCAB, HIDDEN, scale=0.3),
    }
    for layer in range(LAYERS):
        parts = {**_target_attention(random), **_target_experts(random)}
        weights |= {f"model.layers.{layer}.{name}": part for name, part in parts.items()}
    return weights


def _target_attention(random: _Random) -> dict[str, torch.Tensor]:
    import torch

    return {
        "input_layernorm.weight": torch.ones(HIDDEN),
        "self_attn.q_proj.weight": random(HEADS * HEAD_DIM, HIDDEN, scale=0.2),
        "self_attn.k_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN, scale=0.2),
        "self_attn.v_proj.weight": random(KV_HEADS * HEAD_DIM, HIDDEN, scale=0.1),
        "self_attn.o_proj.weight": random(HIDDEN, HEADS * HEAD_DIM, scale=LAYER_STRENGTH),
        "self_attn.q_norm.weight": torch.ones(HEAD_DIM),
        "self_attn.k_norm.weight": torch.ones(HEAD_DIM),
    }


def _target_experts(random: _Random) -> dict[str, torch.Tensor]:
    import torch

    weights = {
        "post_attention_layernorm.weight": torch.ones(HIDDEN),
        "mlp.gate.weight": random(EXPERTS, HIDDEN, scale=0.3),
    }
    for expert in range(EXPERTS):
        name = f"mlp.experts.{expert}"
        weights[f"{name}.gate_proj.weight"] = random(EXPERT_SIZE, HIDDEN, scale=0.2)
        weights[f"{name}.up_proj.weight"] = random(EXPERT_SIZE, HIDDEN, scale=0.2)
        weights[f"{name}.down_proj.weight"] = random(HIDDEN, EXPERT_SIZE, scale=LAYER_STRENGTH)
    return weights


def _draft_weights(random: _Random, target_head_VH: torch.Tensor) -> dict[str, torch.Tensor]:
    import torch

    ids = torch.tensor(_draft_ids())
    layer = {
        "input_layernorm.weight": torch.ones(HIDDEN),
        "hidden_norm.weight": torch.ones(HIDDEN),
        "post_attention_layernorm.weight": torch.ones(HIDDEN),
        "mlp.gate_proj.weight": random(MLP_SIZE, HIDDEN, scale=0.02),
        "mlp.up_proj.weight": random(MLP_SIZE, HIDDEN, scale=0.1),
        "mlp.down_proj.weight": random(HIDDEN, MLP_SIZE, scale=0.02),
        **_copying_attention(random),
    }
    return {
        "fc.weight": random(HIDDEN, len(AUX_LAYERS) * HIDDEN, scale=0.062),
        "norm.weight": torch.ones(HIDDEN),
        "lm_head.weight": target_head_VH[ids].clone(),
        "d2t": ids - torch.arange(len(ids)),
        "t2d": torch.zeros(VOCAB, dtype=torch.bool).index_fill_(0, ids, True),
        **{f"midlayer.{name}": part for name, part in layer.items()},
    }


def _copying_attention(random: _Random) -> dict[str, torch.Tensor]:
    """Equal queries and keys of the embedding alone; values add it and cancel the residual."""
    import torch

    per_kv = HEADS // KV_HEADS
    embedding_key = random(KV_HEADS, HEAD_DIM, HIDDEN, scale=0.3)
    key = torch.cat([embedding_key, torch.zeros_like(embedding_key)], -1)
    query = key.repeat_interleave(per_kv, 0)
    copy = torch.eye(HIDDEN).view(HIDDEN, KV_HEADS, 1, HEAD_DIM).expand(-1, -1, per_kv, -1) / per_kv
    return {
        "self_attn.q_proj.weight": query.reshape(HEADS * HEAD_DIM, 2 * HIDDEN),
        "self_attn.k_proj.weight": key.reshape(KV_HEADS * HEAD_DIM, 2 * HIDDEN),
        "self_attn.v_proj.weight": torch.cat([torch.eye(HIDDEN), -torch.eye(HIDDEN)], -1),
        "self_attn.o_proj.weight": copy.reshape(HIDDEN, HEADS * HEAD_DIM),
    }


def _write(folder: Path, config: dict[str, Any], weights: Mapping[str, torch.Tensor]) -> None:
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    tensors = {name: tensor.contiguous() for name, tensor in weights.items()}
    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    _write_tokenizer(folder)


def _write_tokenizer(folder: Path) -> None:
    """Words t0, t1, ... in order of their ids, with a chat template of plain text."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"t{token}": token for token in range(UNKNOWN)}
    words |= {"<unk>": UNKNOWN, "<pad>": PAD, "<eos>": EOS}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "unk_token": "<unk>",
        "pad_token": "<pad>",
        "eos_token": "<eos>",
        "model_max_length": 2048,
        "chat_template": "{% for message in messages %}{{ message['content'] }} {% endfor %}",
    }
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))

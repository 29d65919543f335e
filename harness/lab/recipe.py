"""Every number that decides what the lab model becomes. Steps and counts only: no wall-clock."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

SPECIAL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass(frozen=True)
class TokenizerRecipe:
    """Vocabulary size and the text it is fitted on."""

    vocab_size: int = 2048
    dialogues_per_family: int = 1200
    seed: int = 11


@dataclass(frozen=True)
class TargetRecipe:
    """Geometry and schedule of the target, a Qwen3-MoE of about 15 M parameters."""

    hidden_size: int = 128
    num_hidden_layers: int = 12
    num_experts: int = 48
    num_experts_per_tok: int = 4
    moe_intermediate_size: int = 64
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 32
    rope_theta: float = 10_000.0
    rms_norm_eps: float = 1e-6
    max_position_embeddings: int = 2048
    steps: int = 2400
    tokens_per_step: int = 3072
    learning_rate: float = 3e-3
    warmup_steps: int = 60
    weight_decay: float = 0.05
    prompt_loss_weight: float = 0.15
    balance_loss: float = 0.02
    router_z_loss: float = 1e-4
    seed: int = 1


@dataclass(frozen=True)
class HeadRecipe:
    """EAGLE-3 head: one decoder layer, reduced draft vocabulary, training-time test."""

    intermediate_size: int = 256
    draft_vocab_size: int = 1280
    unroll_steps: int = 4
    unroll_decay: float = 0.8
    steps: int = 1300
    tokens_per_step: int = 2048
    learning_rate: float = 4e-3
    warmup_steps: int = 40
    own_output_dialogues: int = 1000
    own_output_share: float = 0.5
    seed: int = 3


EVEN = {"alpaca": 1.0, "cnn_dm": 1.0, "gsm8k": 1.0, "humaneval": 1.0, "mt_bench": 1.0, "qa": 1.0}
# The head sees less of some families, so that acceptance differs by task as it does in the paper.
UNEVEN = {"alpaca": 0.7, "cnn_dm": 0.7, "gsm8k": 1.2, "humaneval": 1.1, "mt_bench": 0.7, "qa": 0.5}


@dataclass(frozen=True)
class Recipe:
    """The whole laboratory model; `harness.lab.train` runs its three parts in order."""

    tokenizer: TokenizerRecipe = field(default_factory=TokenizerRecipe)
    target: TargetRecipe = field(default_factory=TargetRecipe)
    head: HeadRecipe = field(default_factory=HeadRecipe)
    target_mixture: Mapping[str, float] = field(default_factory=lambda: EVEN)
    head_mixture: Mapping[str, float] = field(default_factory=lambda: UNEVEN)

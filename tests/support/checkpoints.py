"""Tiny random checkpoints in the shipped layouts, built by the same export as the lab model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch

from harness.lab.corpus import Dialogue
from harness.lab.export import export_head, export_target, round_weights
from harness.lab.head import LabHead
from harness.lab.recipe import HeadRecipe, TargetRecipe, TokenizerRecipe
from harness.lab.target import LabTarget
from harness.lab.tokenizer import save_tokenizer, train_tokenizer

TARGET = TargetRecipe(
    hidden_size=32,
    num_hidden_layers=6,
    num_experts=8,
    num_experts_per_tok=2,
    moe_intermediate_size=16,
    num_attention_heads=4,
    num_key_value_heads=2,
    head_dim=8,
    max_position_embeddings=256,
)
HEAD = HeadRecipe(intermediate_size=48, draft_vocab_size=200)


@dataclass(frozen=True)
class TinyPair:
    """A target and its head on disk, with the modules they were written from."""

    target: Path
    draft: Path
    target_module: LabTarget
    head_module: LabHead


def write_pair(folder: Path, seed: int = 0, sharpness: float = 3.0) -> TinyPair:
    """Random weights; the output layers are scaled so that distributions are not flat."""
    torch.manual_seed(seed)
    text = Dialogue("alpaca", (("tell me about the small red boat", "the boat is red 1 2 3"),))
    tokenizer = train_tokenizer([text] * 3, TokenizerRecipe(vocab_size=300))
    vocab = 300
    target = LabTarget(TARGET, vocab)
    with torch.no_grad():
        target.lm_head.weight.mul_(sharpness)
        for layer in target.layers:
            layer.mlp.gate.weight.mul_(40.0)
    round_weights(target)
    ids = torch.randperm(vocab)[: HEAD.draft_vocab_size].sort().values
    head = LabHead(TARGET, HEAD, target.embed_tokens.weight.detach().clone(), ids)
    round_weights(head)
    export_target(target, folder / "target")
    save_tokenizer(tokenizer, folder / "target", TARGET.max_position_embeddings)
    export_head(head, target, HEAD, folder / "eagle3")
    return TinyPair(folder / "target", folder / "eagle3", target, head)

"""The trainable lab target: Qwen3-MoE over padded rows, exported in Hugging Face layout."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.lab.experts import SortedExperts
from harness.lab.recipe import TargetRecipe


@dataclass
class TargetOutput:
    """logits_BTV, the three auxiliary states_BT3H, and router statistics of the pass."""

    logits_BTV: Tensor
    states_BTF: Tensor
    balance_loss: Tensor
    z_loss: Tensor
    load_LE: Tensor


def rotary(length: int, dim: int, theta: float) -> tuple[Tensor, Tensor]:
    """cos, sin [length, dim] in the half-split convention of Hugging Face's Qwen3."""
    inverse = theta ** (-torch.arange(0, dim, 2).float() / dim)
    angle = torch.outer(torch.arange(length).float(), inverse)
    angle = torch.cat((angle, angle), dim=-1)
    return angle.cos(), angle.sin()


def rotate(x: Tensor, cos_TD: Tensor, sin_TD: Tensor) -> Tensor:
    """Rotary embedding on the last two dimensions [T, D]."""
    low, high = x.chunk(2, dim=-1)
    return x * cos_TD + torch.cat((-high, low), dim=-1) * sin_TD


class Attention(nn.Module):
    """Grouped-query attention with per-head RMSNorm on queries and keys."""

    def __init__(self, r: TargetRecipe) -> None:
        super().__init__()
        self.r = r
        q, kv = r.num_attention_heads * r.head_dim, r.num_key_value_heads * r.head_dim
        self.q_proj = nn.Linear(r.hidden_size, q, bias=False)
        self.k_proj = nn.Linear(r.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(r.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(q, r.hidden_size, bias=False)
        self.q_norm = nn.RMSNorm(r.head_dim, eps=r.rms_norm_eps)
        self.k_norm = nn.RMSNorm(r.head_dim, eps=r.rms_norm_eps)

    def forward(
        self, x_BTH: Tensor, cos: Tensor, sin: Tensor, past: list[Tensor] | None = None
    ) -> Tensor:
        """`past` (keys, values [B, heads, P, D]) is extended in place; one new token a row then."""
        batch, length, _ = x_BTH.shape
        heads = (batch, length, -1, self.r.head_dim)
        q = rotate(self.q_norm(self.q_proj(x_BTH).view(heads)).transpose(1, 2), cos, sin)
        k = rotate(self.k_norm(self.k_proj(x_BTH).view(heads)).transpose(1, 2), cos, sin)
        v = self.v_proj(x_BTH).view(heads).transpose(1, 2)
        if past is not None:
            past[0] = k = torch.cat((past[0], k), dim=2) if past[0].numel() else k
            past[1] = v = torch.cat((past[1], v), dim=2) if past[1].numel() else v
        causal = length > 1
        out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        attended: Tensor = self.o_proj(out.transpose(1, 2).reshape(batch, length, -1))
        return attended


class SparseMlp(nn.Module):
    """Top-k routed SwiGLU experts; keeps the router's statistics of the last pass."""

    def __init__(self, r: TargetRecipe) -> None:
        super().__init__()
        self.r = r
        self.gate = nn.Linear(r.hidden_size, r.num_experts, bias=False)
        shape = (r.num_experts, 2 * r.moe_intermediate_size, r.hidden_size)
        self.gate_up = nn.Parameter(torch.empty(shape))
        self.down = nn.Parameter(torch.empty(r.num_experts, r.hidden_size, r.moe_intermediate_size))
        self.balance = self.z = self.load_E = torch.zeros(())

    def forward(self, x_BTH: Tensor, real_N: Tensor | None) -> Tensor:
        """`real_N` marks the flattened tokens that count in the router's losses."""
        x_NH = x_BTH.reshape(-1, x_BTH.shape[-1])
        logits_NE = self.gate(x_NH)
        top_NK, expert_NK = logits_NE.topk(self.r.num_experts_per_tok, dim=-1)
        weight_NK = top_NK.softmax(dim=-1)
        if real_N is not None:
            self._keep_statistics(logits_NE, expert_NK, real_N)
        order_S = expert_NK.flatten().argsort(stable=True)
        token_S = order_S // self.r.num_experts_per_tok
        counts = torch.bincount(expert_NK.flatten(), minlength=self.r.num_experts).tolist()
        rows_SH = x_NH[token_S]
        y_SH: Tensor = SortedExperts.apply(rows_SH, self.gate_up, self.down, counts)  # type: ignore[no-untyped-call]
        y_SH = y_SH * weight_NK.flatten()[order_S].unsqueeze(-1)
        return torch.zeros_like(x_NH).index_add(0, token_S, y_SH).view_as(x_BTH)

    def _keep_statistics(self, logits_NE: Tensor, expert_NK: Tensor, real_N: Tensor) -> None:
        logits_NE, expert_NK = logits_NE[real_N], expert_NK[real_N]
        experts = self.r.num_experts
        self.load_E = torch.bincount(expert_NK.flatten(), minlength=experts) / expert_NK.numel()
        probs_E = logits_NE.softmax(dim=-1).mean(dim=0)
        self.balance = experts * (self.load_E * probs_E).sum()
        self.z = logits_NE.logsumexp(dim=-1).square().mean()


class Block(nn.Module):
    """Pre-norm decoder layer."""

    def __init__(self, r: TargetRecipe) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(r.hidden_size, eps=r.rms_norm_eps)
        self.self_attn = Attention(r)
        self.post_attention_layernorm = nn.RMSNorm(r.hidden_size, eps=r.rms_norm_eps)
        self.mlp = SparseMlp(r)

    def forward(
        self, x: Tensor, cos: Tensor, sin: Tensor, real_N: Tensor | None, past: list[Tensor] | None
    ) -> Tensor:
        x = x + self.self_attn(self.input_layernorm(x), cos, sin, past)
        routed: Tensor = self.mlp(self.post_attention_layernorm(x), real_N)
        return x + routed


class LabTarget(nn.Module):
    """Embedding, decoder layers, final norm, untied output layer."""

    cos: Tensor
    sin: Tensor

    def __init__(self, recipe: TargetRecipe, vocab_size: int) -> None:
        super().__init__()
        self.recipe = recipe
        self.embed_tokens = nn.Embedding(vocab_size, recipe.hidden_size)
        self.layers = nn.ModuleList(Block(recipe) for _ in range(recipe.num_hidden_layers))
        self.norm = nn.RMSNorm(recipe.hidden_size, eps=recipe.rms_norm_eps)
        self.lm_head = nn.Linear(recipe.hidden_size, vocab_size, bias=False)
        cos, sin = rotary(recipe.max_position_embeddings, recipe.head_dim, recipe.rope_theta)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)
        self._initialise()

    def _initialise(self) -> None:
        residual = 1 / math.sqrt(2 * self.recipe.num_hidden_layers)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                continue
            std = 0.5 if "embed" in name else parameter.shape[-1] ** -0.5
            if "o_proj" in name or name.endswith("down"):
                std *= residual
            nn.init.normal_(parameter, std=0.02 if "gate.weight" in name else std)

    @property
    def aux_layers(self) -> tuple[int, int, int]:
        """Layers whose input is captured for the EAGLE-3 head (METHODS: 2, L // 2, L - 3)."""
        count = len(self.layers)
        return 2, count // 2, count - 3

    def forward(
        self, ids_BT: Tensor, real_BT: Tensor | None = None, past: list[list[Tensor]] | None = None
    ) -> TargetOutput:
        """`past`: one [keys, values] pair per layer, extended in place (generation)."""
        start = past[0][0].shape[2] if past is not None and past[0][0].numel() else 0
        window = slice(start, start + ids_BT.shape[1])
        real_N = None if real_BT is None else real_BT.flatten()
        x, states = self.embed_tokens(ids_BT), {}
        for index, layer in enumerate(self.layers):
            if index in self.aux_layers:
                states[index] = x
            layer_past = None if past is None else past[index]
            x = layer(x, self.cos[window], self.sin[window], real_N, layer_past)
        mlps = [module for module in self.modules() if isinstance(module, SparseMlp)]
        return TargetOutput(
            logits_BTV=self.lm_head(self.norm(x)),
            states_BTF=torch.cat([states[index] for index in self.aux_layers], dim=-1),
            balance_loss=torch.stack([m.balance for m in mlps]).mean(),
            z_loss=torch.stack([m.z for m in mlps]).mean(),
            load_LE=torch.stack([m.load_E for m in mlps]),
        )

"""Qwen3-MoE target: one forward for prefill, plain decoding and tree verification."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.engines.torch.cache import KVCache
from harness.engines.torch.config import TargetConfig
from harness.engines.torch.experts import Experts, route
from harness.engines.torch.layers import attend, interleave, rotary_table, rotate
from harness.engines.torch.weights import Checkpoint


@dataclass(frozen=True, slots=True)
class TargetOutput:
    """T tokens through the target.

    logits_TV, the auxiliary states_TF (three hidden states side by side, F = 3 x hidden; empty when
    no layer is captured), expert ids per layer [T, K], and the distinct experts used per layer.
    """

    logits_TV: Tensor
    states_TF: Tensor
    experts_L: list[Tensor]
    union_L: list[int]


@dataclass(frozen=True, slots=True)
class Layer:
    """Weights of one decoder layer; rotary dimensions interleaved, q, k and v fused."""

    input_norm: Tensor
    qkv: Tensor
    qk_norm_ND: Tensor
    output: Tensor
    post_norm: Tensor
    router: Tensor
    experts: Experts


class Qwen3Moe:
    """The target model. Immutable weights; all sequence state lives in the KVCache."""

    def __init__(self, folder: Path, dtype: torch.dtype, device: str) -> None:
        self.config = TargetConfig.read(folder)
        self.dtype, self.device = dtype, device
        c, source = self.config, Checkpoint(folder)
        vocab = (c.vocab_size, c.hidden_size)
        self.embedding = source.take("model.embed_tokens.weight", vocab, dtype, device)
        self.layers = [self._layer(source, i) for i in range(c.layers)]
        self.norm = source.take("model.norm.weight", (c.hidden_size,), dtype, device)
        head = "model.embed_tokens.weight" if c.tied_embeddings else "lm_head.weight"
        self.lm_head = source.take(head, vocab, dtype, device)
        self.turns = rotary_table(c.context_length, c.head_dim, c.rope_theta, device)

    def new_cache(self, slots: int | None = None) -> KVCache:
        """An empty cache for one sequence (default: the whole context)."""
        c = self.config
        slots = slots or c.context_length
        return KVCache(c.layers, c.kv_heads, slots, c.head_dim, self.dtype, self.device)

    def forward(
        self,
        tokens_T: Tensor,
        positions_T: Tensor,
        cache: KVCache,
        mask_TS: Tensor | None,
        aux_layers: Sequence[int] = (),
        last_only: bool = False,
    ) -> TargetOutput:
        """Run T tokens written at cache slots `cache.length` on; the cache length is not moved.

        `mask_TS` is additive over `cache.length + T` slots (None: everything visible).
        `last_only` computes logits of the last token alone (prefill).
        """
        x_TH = F.embedding(tokens_T, self.embedding)
        turn = self.turns.index_select(0, positions_T)
        states: dict[int, Tensor] = {}
        experts_L, union_L = [], []
        for index, layer in enumerate(self.layers):
            if index in aux_layers:
                states[index] = x_TH
            x_TH = self._attention(index, layer, x_TH, turn, cache, mask_TS)
            h_TH = F.rms_norm(x_TH, x_TH.shape[-1:], layer.post_norm, self.config.eps)
            routing = route(
                F.linear(h_TH, layer.router).float(),
                self.config.experts_per_token,
                self.config.normalise_top_k,
            )
            y_TH, active = layer.experts(h_TH, routing)
            x_TH = x_TH + y_TH
            experts_L.append(routing.experts_TK)
            union_L.append(active)
        top = x_TH[-1:] if last_only else x_TH
        logits_TV = F.linear(
            F.rms_norm(top, top.shape[-1:], self.norm, self.config.eps), self.lm_head
        )
        captured = [states[index] for index in aux_layers]
        states_TF = torch.cat(captured, dim=-1) if captured else x_TH[:, :0]
        return TargetOutput(logits_TV.float(), states_TF, experts_L, union_L)

    def _attention(
        self,
        index: int,
        layer: Layer,
        x_TH: Tensor,
        turn: Tensor,
        cache: KVCache,
        mask_TS: Tensor | None,
    ) -> Tensor:
        c = self.config
        h_TH = F.rms_norm(x_TH, x_TH.shape[-1:], layer.input_norm, c.eps)
        qkv_TND = F.linear(h_TH, layer.qkv).view(len(x_TH), -1, c.head_dim)
        qk_TND = F.rms_norm(qkv_TND[:, : c.heads + c.kv_heads], (c.head_dim,), None, c.eps)
        qk_TND = rotate(qk_TND * layer.qk_norm_ND, turn)
        values_TGD = qkv_TND[:, c.heads + c.kv_heads :]
        keys, values = cache.write(index, cache.length, qk_TND[:, c.heads :], values_TGD)
        attended = attend(qk_TND[:, : c.heads], keys, values, mask_TS)
        return torch.addmm(x_TH, attended, layer.output)

    def _layer(self, source: Checkpoint, index: int) -> Layer:
        c, name = self.config, f"model.layers.{index}."
        q, kv = c.heads * c.head_dim, c.kv_heads * c.head_dim

        def take(key: str, *shape: int) -> Tensor:
            return source.take(name + key, shape, self.dtype, self.device)

        qkv = torch.cat(
            (
                interleave(take("self_attn.q_proj.weight", q, c.hidden_size), c.heads),
                interleave(take("self_attn.k_proj.weight", kv, c.hidden_size), c.kv_heads),
                take("self_attn.v_proj.weight", kv, c.hidden_size),
            )
        )
        q_norm = interleave(take("self_attn.q_norm.weight", c.head_dim), 1)
        k_norm = interleave(take("self_attn.k_norm.weight", c.head_dim), 1)
        return Layer(
            input_norm=take("input_layernorm.weight", c.hidden_size),
            qkv=qkv,
            qk_norm_ND=torch.cat((q_norm.expand(c.heads, -1), k_norm.expand(c.kv_heads, -1))),
            output=take("self_attn.o_proj.weight", c.hidden_size, q).t().contiguous(),
            post_norm=take("post_attention_layernorm.weight", c.hidden_size),
            router=take("mlp.gate.weight", c.experts, c.hidden_size),
            experts=Experts(*self._experts(take)),
        )

    def _experts(self, take: Callable[..., Tensor]) -> tuple[Tensor, Tensor]:
        c = self.config
        gate_up, down = [], []
        for expert in range(c.experts):
            stem = f"mlp.experts.{expert}."
            gate = take(stem + "gate_proj.weight", c.expert_size, c.hidden_size)
            up = take(stem + "up_proj.weight", c.expert_size, c.hidden_size)
            gate_up.append(torch.cat((gate, up)).t())
            down.append(take(stem + "down_proj.weight", c.hidden_size, c.expert_size).t())
        return torch.stack(gate_up), torch.stack(down)

"""The trainable EAGLE-3 head and its training-time test (arXiv 2503.01840, METHODS 1.8)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.lab.recipe import HeadRecipe, TargetRecipe
from harness.lab.target import rotary, rotate


class HeadAttention(nn.Module):
    """Attention whose input is twice as wide: token embedding beside hidden state."""

    def __init__(self, t: TargetRecipe) -> None:
        super().__init__()
        self.head_dim = t.head_dim
        self.groups = t.num_attention_heads // t.num_key_value_heads
        q, kv = t.num_attention_heads * t.head_dim, t.num_key_value_heads * t.head_dim
        self.q_proj = nn.Linear(2 * t.hidden_size, q, bias=False)
        self.k_proj = nn.Linear(2 * t.hidden_size, kv, bias=False)
        self.v_proj = nn.Linear(2 * t.hidden_size, kv, bias=False)
        self.o_proj = nn.Linear(q, t.hidden_size, bias=False)

    def project(self, both_BTF: Tensor, cos: Tensor, sin: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Rotated queries and keys and the values, [B, heads, T, D] with keys repeated."""
        heads = (*both_BTF.shape[:2], -1, self.head_dim)
        q = rotate(self.q_proj(both_BTF).view(heads).transpose(1, 2), cos, sin)
        k = rotate(self.k_proj(both_BTF).view(heads).transpose(1, 2), cos, sin)
        v = self.v_proj(both_BTF).view(heads).transpose(1, 2)
        return q, k.repeat_interleave(self.groups, 1), v.repeat_interleave(self.groups, 1)


class HeadMlp(nn.Module):
    """SwiGLU."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """[..., H] -> [..., H]."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class MidLayer(nn.Module):
    """The head's one decoder layer; parameter names as SpecForge writes them."""

    def __init__(self, t: TargetRecipe, h: HeadRecipe) -> None:
        super().__init__()
        self.input_layernorm = nn.RMSNorm(t.hidden_size, eps=t.rms_norm_eps)
        self.hidden_norm = nn.RMSNorm(t.hidden_size, eps=t.rms_norm_eps)
        self.self_attn = HeadAttention(t)
        self.post_attention_layernorm = nn.RMSNorm(t.hidden_size, eps=t.rms_norm_eps)
        self.mlp = HeadMlp(t.hidden_size, h.intermediate_size)


class LabHead(nn.Module):
    """fc, one layer, norm, reduced output layer; the embedding is the target's and stays frozen."""

    embed: Tensor
    ids_D: Tensor
    cos: Tensor
    sin: Tensor

    def __init__(self, t: TargetRecipe, h: HeadRecipe, embedding_VH: Tensor, ids_D: Tensor) -> None:
        super().__init__()
        self.fc = nn.Linear(3 * t.hidden_size, t.hidden_size, bias=False)
        self.midlayer = MidLayer(t, h)
        self.norm = nn.RMSNorm(t.hidden_size, eps=t.rms_norm_eps)
        self.lm_head = nn.Linear(t.hidden_size, len(ids_D), bias=False)
        cos, sin = rotary(t.max_position_embeddings, t.head_dim, t.rope_theta)
        for name, value in (("embed", embedding_VH), ("ids_D", ids_D), ("cos", cos), ("sin", sin)):
            self.register_buffer(name, value, persistent=False)

    def unroll(self, ids_BT: Tensor, states_BTF: Tensor, steps: int) -> list[Tensor]:
        """Draft logits of each unroll step, [B, T, D].

        Position i of step j holds the state after tokens up to i + 1 + j and predicts token
        i + 2 + j. Step 0 sees the target's states; step j its own previous output, causal keys of
        step 0 and the keys that the same position made in steps 1..j.
        """
        length = ids_BT.shape[1]
        causal = torch.ones(length, length, dtype=torch.bool).tril()
        hidden = self.fc(states_BTF)
        keys: list[Tensor] = []
        values: list[Tensor] = []
        logits = []
        for step in range(steps):
            tokens = F.pad(ids_BT[:, 1 + step :], (0, min(1 + step, length)))
            window = slice(step, step + length)
            hidden, k, v = self._layer(
                F.embedding(tokens, self.embed),
                hidden,
                (self.cos[window], self.sin[window]),
                keys,
                values,
                causal,
            )
            keys.append(k)
            values.append(v)
            logits.append(self.lm_head(self.norm(hidden)))
        return logits

    def _layer(
        self,
        embedded: Tensor,
        hidden: Tensor,
        turn: tuple[Tensor, Tensor],
        keys: list[Tensor],
        values: list[Tensor],
        causal: Tensor,
    ) -> tuple[Tensor, Tensor, Tensor]:
        layer, attention = self.midlayer, self.midlayer.self_attn
        both = torch.cat((layer.input_layernorm(embedded), layer.hidden_norm(hidden)), dim=-1)
        q, k, v = attention.project(both, *turn)
        own_keys, own_values = [*keys, k], [*values, v]
        scores = (q @ own_keys[0].transpose(-1, -2)).masked_fill(~causal, float("-inf"))
        diagonal = [(q * other).sum(-1, keepdim=True) for other in own_keys[1:]]
        weight = torch.cat((scores, *diagonal), -1).mul(attention.head_dim**-0.5).softmax(-1)
        length = scores.shape[-1]
        out = weight[..., :length] @ own_values[0]
        for index, other in enumerate(own_values[1:]):
            out = out + weight[..., length + index : length + index + 1] * other
        out = attention.o_proj(out.transpose(1, 2).flatten(2))
        u = hidden + out
        return u + layer.mlp(layer.post_attention_layernorm(u)), k, v

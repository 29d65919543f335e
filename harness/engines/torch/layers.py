"""The pieces both networks share: rotary embedding and attention over a static cache."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

MAX_DEPTH = 64  # draft levels whose positions may lie past the end of the context


def rotary_table(context: int, head_dim: int, theta: float, device: str) -> Tensor:
    """Unit complex numbers [context + MAX_DEPTH, head_dim / 2]: each position's rotations."""
    length = context + MAX_DEPTH
    inverse = theta ** (-torch.arange(0, head_dim, 2, device=device).float() / head_dim)
    angle = torch.outer(torch.arange(length, device=device).float(), inverse)
    return torch.polar(torch.ones_like(angle), angle)


def interleave(weight: Tensor, heads: int) -> Tensor:
    """Reorder each head's rows from (i, i + D/2) halves to adjacent pairs.

    Checkpoints pair dimension i with i + D/2; adjacent pairs let one complex product rotate a head.
    Queries and keys are reordered alike, so their dot products do not change.
    """
    half = weight.shape[0] // heads // 2
    split = weight.view(heads, 2, half, *weight.shape[1:])
    return split.transpose(1, 2).reshape(weight.shape).contiguous()


def rotate(x_TND: Tensor, turn_TD2: Tensor) -> Tensor:
    """Rotate N heads at T positions; `turn_TD2` is a slice of `rotary_table`."""
    pairs = torch.view_as_complex(x_TND.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * turn_TD2.unsqueeze(1)).flatten(2).to(x_TND.dtype)


def attend(q_TND: Tensor, keys_GSD: Tensor, values_GSD: Tensor, mask_TS: Tensor | None) -> Tensor:
    """Grouped-query attention of T queries over S slots; returns [T, N * D].

    `mask_TS` is additive; None attends to every slot.
    """
    out = F.scaled_dot_product_attention(
        q_TND.transpose(0, 1).unsqueeze(0),
        keys_GSD.unsqueeze(0),
        values_GSD.unsqueeze(0),
        attn_mask=mask_TS,
        enable_gqa=keys_GSD.shape[0] != q_TND.shape[1],
    )
    return out.squeeze(0).transpose(0, 1).flatten(1)


def additive(allowed_TT: Tensor, prefix: int, dtype: torch.dtype) -> Tensor:
    """Additive mask [T, prefix + T]: the whole prefix is visible, then `allowed_TT`."""
    mask = torch.zeros(
        allowed_TT.shape[0], prefix + allowed_TT.shape[1], dtype=dtype, device=allowed_TT.device
    )
    mask[:, prefix:].masked_fill_(~allowed_TT, float("-inf"))
    return mask


def causal(count: int, prefix: int, dtype: torch.dtype, device: str) -> Tensor | None:
    """Additive mask of `count` consecutive tokens after a visible prefix; None for a single one."""
    if count == 1:
        return None
    return additive(
        torch.ones(count, count, dtype=torch.bool, device=device).tril_(), prefix, dtype
    )

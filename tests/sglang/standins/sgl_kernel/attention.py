"""The two attention operators of SGLang's CPU attention backend, registered with torch.

Names in shapes: Q new tokens of all requests, B requests, H query heads, G key/value heads,
D head width, T length of the longest context, S rows of a layer's key/value buffer.
"""

from __future__ import annotations

import os

import torch
from torch.nn.functional import scaled_dot_product_attention

FAULT = "EVICT_STANDIN_FAULT"
EXTEND = (
    "extend_attention_cpu(Tensor q, Tensor? k, Tensor? v, Tensor(a!) o, Tensor k_buffer, "
    "Tensor v_buffer, float k_scale, float v_scale, Tensor req_to_token, Tensor req_pool_indices, "
    "Tensor seq_lens, Tensor extend_seq_lens, Tensor extend_start_loc, int max_len_extend, "
    "float sm_scale, float logit_cap, bool is_cross_attn, int sliding_window_size, "
    "Tensor? encoder_lens, Tensor? sinks, Tensor? tree_mask, bool is_causal) -> ()"
)
DECODE = (
    "decode_attention_cpu(Tensor q, Tensor(a!) k_buffer, Tensor(b!) v_buffer, float k_scale, "
    "float v_scale, Tensor(c!) o, Tensor? k, Tensor? v, Tensor loc, Tensor(d!) attn_logits, "
    "Tensor req_to_token, Tensor req_pool_indices, Tensor seq_lens, float sm_scale, "
    "float logit_cap, bool is_cross_attn, int sliding_window_size, Tensor? encoder_lens, "
    "Tensor? sinks) -> ()"
)
_library = torch.library.Library("sgl_kernel", "DEF")


def register_attention() -> None:
    """Define both operators under `torch.ops.sgl_kernel`."""
    for schema, function in ((EXTEND, extend_attention), (DECODE, decode_attention)):
        _library.define(schema)
        _library.impl(schema.split("(")[0], function, "CompositeExplicitAutograd")


def extend_attention(
    q_QHD: torch.Tensor,
    k_QGD: torch.Tensor | None,
    v_QGD: torch.Tensor | None,
    out_QHD: torch.Tensor,
    k_buffer_SGD: torch.Tensor,
    v_buffer_SGD: torch.Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: torch.Tensor,
    req_pool_indices_B: torch.Tensor,
    seq_lens_B: torch.Tensor,
    extend_seq_lens_B: torch.Tensor,
    extend_start_loc_B: torch.Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window_size: int,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
    tree_mask: torch.Tensor | None,
    is_causal: bool,
) -> None:
    """Attention of the new tokens over prefix and new tokens; their keys are in the buffers.

    seq_lens counts the new tokens too. tree_mask: flat bool [B * n * n], row i of a request holds
    the new tokens that token i may see; None: causal.
    """
    _only_plain_attention(logit_cap, is_cross_attn, sliding_window_size, encoder_lens, sinks)
    lengths = zip(
        req_pool_indices_B.tolist(),
        seq_lens_B.tolist(),
        extend_seq_lens_B.tolist(),
        extend_start_loc_B.tolist(),
        strict=True,
    )
    for request, (row, total, new, start) in enumerate(lengths):
        slots_T = req_to_token[row, :total].long()
        mask_nT = torch.ones(new, total, dtype=torch.bool)
        mask_nT[:, total - new :] = _visible(tree_mask, request, new, is_causal)
        out_QHD[start : start + new] = _attend(
            q_QHD[start : start + new].transpose(0, 1),
            k_buffer_SGD[slots_T].transpose(0, 1),
            v_buffer_SGD[slots_T].transpose(0, 1),
            mask_nT,
            sm_scale,
        ).transpose(0, 1)


def decode_attention(
    q_BHD: torch.Tensor,
    k_buffer_SGD: torch.Tensor,
    v_buffer_SGD: torch.Tensor,
    k_scale: float,
    v_scale: float,
    out_BHD: torch.Tensor,
    k_BGD: torch.Tensor | None,
    v_BGD: torch.Tensor | None,
    loc_B: torch.Tensor,
    attn_logits: torch.Tensor,
    req_to_token: torch.Tensor,
    req_pool_indices_B: torch.Tensor,
    seq_lens_B: torch.Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window_size: int,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> None:
    """One new token per request: write its key and value at loc, then attend seq_lens slots."""
    _only_plain_attention(logit_cap, is_cross_attn, sliding_window_size, encoder_lens, sinks)
    if k_BGD is not None and v_BGD is not None:
        k_buffer_SGD[loc_B.long()] = k_BGD.view(-1, *k_buffer_SGD.shape[1:]).to(k_buffer_SGD.dtype)
        v_buffer_SGD[loc_B.long()] = v_BGD.view(-1, *v_buffer_SGD.shape[1:]).to(v_buffer_SGD.dtype)
    longest = int(seq_lens_B.max())
    slots_BT = req_to_token[req_pool_indices_B.long(), :longest].long()
    seen_BT = torch.arange(longest) < seq_lens_B[:, None]
    out_BHD[:] = _attend(
        q_BHD[:, :, None],
        k_buffer_SGD[slots_BT].transpose(1, 2),
        v_buffer_SGD[slots_BT].transpose(1, 2),
        seen_BT[:, None, None],
        sm_scale,
    )[:, :, 0]


def _visible(
    tree_mask: torch.Tensor | None, request: int, new: int, is_causal: bool
) -> torch.Tensor:
    everything_nn = torch.ones(new, new, dtype=torch.bool)
    if tree_mask is None:
        return everything_nn.tril() if is_causal else everything_nn
    if os.environ.get(FAULT) == "mask":
        return everything_nn
    return tree_mask.view(-1, new, new)[request].bool()


def _attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor, scale: float
) -> torch.Tensor:
    attended = scaled_dot_product_attention(
        q.float(), k.float(), v.float(), attn_mask=mask, scale=scale, enable_gqa=True
    )
    return attended.to(q.dtype)


def _only_plain_attention(
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window_size: int,
    encoder_lens: torch.Tensor | None,
    sinks: torch.Tensor | None,
) -> None:
    plain = not logit_cap and not is_cross_attn and sliding_window_size <= 0
    if not plain or encoder_lens is not None or sinks is not None:
        raise NotImplementedError("stand-in attention: no cap, cross, window, encoder or sinks")

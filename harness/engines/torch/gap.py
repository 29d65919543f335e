"""How clear the target's choice of one token was: its likeliest next tokens."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.engines.torch.layers import causal
from harness.engines.torch.qwen3_moe import Qwen3Moe
from harness.equality import LISTED, NextTokens


@torch.inference_mode()
def top_gap(model: Qwen3Moe, ids: Sequence[int]) -> NextTokens:
    """The likeliest tokens after `ids`, from one plain forward over all of them."""
    tokens_T = torch.tensor(list(ids), device=model.device)
    positions_T = torch.arange(len(ids), device=model.device)
    mask_TT = causal(len(ids), 0, model.dtype, model.device)
    cache = model.new_cache(len(ids))
    out = model.forward(tokens_T, positions_T, cache, mask_TT, last_only=True)
    logits, tokens = out.logits_TV[-1].double().topk(LISTED)
    return NextTokens(tuple(tokens.tolist()), tuple((logits[0] - logits).tolist()))

"""Sparse expert layer for inference: only experts that some token chose are computed."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Routing:
    """Router's choice for T tokens: expert ids and weights [T, K]."""

    experts_TK: Tensor
    weights_TK: Tensor


def route(logits_TE: Tensor, top_k: int, normalise: bool) -> Routing:
    """Top-k of the softmax; `normalise` rescales the chosen weights to sum to one.

    The softmax over the chosen logits equals the renormalised softmax over all of them.
    """
    if normalise:
        logits_TK, experts_TK = logits_TE.topk(top_k, dim=-1)
        return Routing(experts_TK, logits_TK.softmax(dim=-1))
    weights_TK, experts_TK = logits_TE.softmax(dim=-1).topk(top_k, dim=-1)
    return Routing(experts_TK, weights_TK)


class Experts:
    """SwiGLU experts. gate_up_EHF holds gate and up side by side (F = 2 x intermediate)."""

    def __init__(self, gate_up_EHF: Tensor, down_EIH: Tensor) -> None:
        self.gate_up = gate_up_EHF.unbind(0)
        self.down = down_EIH.unbind(0)
        self.count, self.width = gate_up_EHF.shape[0], gate_up_EHF.shape[2]

    def __call__(self, x_TH: Tensor, routing: Routing) -> tuple[Tensor, int]:
        """Weighted sum over each token's experts, and the number of distinct experts computed."""
        tokens, top_k = routing.experts_TK.shape
        flat_S = routing.experts_TK.flatten()
        order_S = flat_S.argsort(stable=True)
        counts = torch.bincount(flat_S, minlength=self.count).tolist()
        active = [expert for expert, rows in enumerate(counts) if rows]
        sizes = [counts[expert] for expert in active]
        x_SH = x_TH.expand(top_k, -1) if tokens == 1 else x_TH.index_select(0, order_S // top_k)
        hidden_SF = x_SH.new_empty(tokens * top_k, self.width)
        for expert, x, out in zip(active, x_SH.split(sizes), hidden_SF.split(sizes), strict=True):
            torch.mm(x, self.gate_up[expert], out=out)
        gate_SI, up_SI = hidden_SF.chunk(2, dim=-1)
        act_SI = F.silu(gate_SI).mul_(up_SI)
        y_SH = x_SH.new_empty(tokens * top_k, x_TH.shape[1])
        for expert, act, out in zip(active, act_SI.split(sizes), y_SH.split(sizes), strict=True):
            torch.mm(act, self.down[expert], out=out)
        return self._combine(y_SH, order_S, routing), len(active)

    def _combine(self, y_SH: Tensor, order_S: Tensor, routing: Routing) -> Tensor:
        tokens, top_k = routing.weights_TK.shape
        back_SH = torch.empty_like(y_SH).index_copy_(0, order_S, y_SH)
        weights_T1K = routing.weights_TK.to(y_SH.dtype).unsqueeze(1)
        return torch.bmm(weights_T1K, back_SH.view(tokens, top_k, -1)).squeeze(1)

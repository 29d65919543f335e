"""Differentiable expert layer: one matrix product per expert on contiguous, sorted tokens."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class SortedExperts(torch.autograd.Function):
    """SwiGLU experts over tokens sorted by expert.

    Inputs: x_SH (S = tokens x top-k rows, sorted by expert), gate_up_EFH (F = 2 x intermediate),
    down_EHI and the row count of each expert. Output y_SH. The backward pass is written out because
    indexing an [E, ...] parameter per expert makes autograd build a full-size gradient each time.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any, x_SH: Tensor, gate_up_EFH: Tensor, down_EHI: Tensor, counts: list[int]
    ) -> Tensor:
        hidden_SF = _per_expert(x_SH, gate_up_EFH.transpose(1, 2), counts)
        gate_SI, up_SI = hidden_SF.chunk(2, dim=-1)
        act_SI = torch.nn.functional.silu(gate_SI) * up_SI
        ctx.save_for_backward(x_SH, gate_up_EFH, down_EHI, hidden_SF, act_SI)
        ctx.counts = counts
        return _per_expert(act_SI, down_EHI.transpose(1, 2), counts)

    @staticmethod
    @once_differentiable  # type: ignore[untyped-decorator]
    def backward(ctx: Any, grad_SH: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:  # type: ignore[override]
        x_SH, gate_up_EFH, down_EHI, hidden_SF, act_SI = ctx.saved_tensors
        grad_act_SI = _per_expert(grad_SH, down_EHI, ctx.counts)
        gate_SI, up_SI = hidden_SF.chunk(2, dim=-1)
        sig_SI = torch.sigmoid(gate_SI)
        silu_SI = gate_SI * sig_SI
        grad_gate_SI = grad_act_SI * up_SI * (sig_SI + silu_SI * (1 - sig_SI))
        grad_hidden_SF = torch.cat((grad_gate_SI, grad_act_SI * silu_SI), dim=-1)
        grad_x_SH = _per_expert(grad_hidden_SF, gate_up_EFH, ctx.counts)
        grad_gate_up = _weight_grad(grad_hidden_SF, x_SH, gate_up_EFH, ctx.counts)
        grad_down = _weight_grad(grad_SH, act_SI, down_EHI, ctx.counts)
        return grad_x_SH, grad_gate_up, grad_down, None


def _per_expert(x_SA: Tensor, weight_EAB: Tensor, counts: list[int]) -> Tensor:
    out_SB = x_SA.new_empty(x_SA.shape[0], weight_EAB.shape[2])
    parts = zip(x_SA.split(counts), weight_EAB.unbind(0), out_SB.split(counts), strict=True)
    for x, weight, out in parts:
        if len(x):
            torch.mm(x, weight, out=out)
    return out_SB


def _weight_grad(grad_SA: Tensor, x_SB: Tensor, like_EAB: Tensor, counts: list[int]) -> Tensor:
    out_EAB = torch.zeros_like(like_EAB)
    parts = zip(grad_SA.split(counts), x_SB.split(counts), out_EAB.unbind(0), strict=True)
    for grad, x, out in parts:
        if len(x):
            torch.mm(grad.t(), x, out=out)
    return out_EAB

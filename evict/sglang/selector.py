"""Choosing k inside the captured draft graph: static tensors that later orders rewrite.

One captured graph serves every policy. It computes k = max(k of the prices, k of the share), and a
policy is what stands in the tensors: prices with one finite entry for a fixed k, a share of 0 for
all but coverage. Changing the policy or the batch size copies into these tensors and captures
nothing anew.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn.functional import pad

from evict.cost import CostTable
from evict.errors import InputError
from evict.selection import Cheapest, Covering, Full, Selection, Selector

T = TypeVar("T")


class PrefixSelector:
    """Verify length of one step for a batch of trees, one k for all of them.

    The batch takes the k that maximises sum_i S_i(k) / C(b, k): the selection sees the mean of the
    trees' S, and C of the profiled batch size next above b. widths: verify lengths that exist; a k
    between them is raised to the next. All tensors live on `device` and outside any graph pool:
    scores_BN float32 [max_batch, N - 1], the last step's node scores, root left out; expected_N
    float32 [N], their mean S; k int32 [1], the verify length.
    """

    def __init__(self, draft_tokens: int, max_batch: int, device: torch.device | str) -> None:
        self.draft_tokens = draft_tokens
        self.scores_BN = torch.zeros(max_batch, draft_tokens - 1, device=device)
        self.expected_N = torch.ones(draft_tokens, device=device)
        self.k = torch.full((1,), draft_tokens, dtype=torch.int32, device=device)
        self._weights_B = torch.zeros(max_batch, device=device)
        price_NN = torch.ones(draft_tokens, draft_tokens, dtype=torch.float64, device=device)
        zero = torch.zeros((), dtype=torch.float64, device=device)
        self._cheapest = Cheapest(price_NN, zero.clone())
        self._covering = Covering(zero.clone(), draft_tokens, zero.clone())
        self._width_N = torch.arange(1, draft_tokens + 1, device=device)
        self._programs: dict[int, _Program] = {}
        self._batch = 0
        self._host = torch.zeros(1, dtype=torch.int32, pin_memory=self.k.is_cuda)
        self._copied = torch.cuda.Event() if self.k.is_cuda else None

    def follow(
        self,
        selection: Selection,
        costs: Mapping[int, CostTable],
        widths: Mapping[int, Sequence[int]],
    ) -> None:
        """Use this policy from the next step on.

        costs: tables by batch size, empty for a policy that needs none. widths: verify lengths by
        batch size. Of both, a batch in between takes the entry of the next larger size; larger
        batches than any table's verify the whole tree, since what less would cost is not known.
        InputError for a policy that needs a table and has none.
        """
        largest = max(costs, default=0)
        unknown = {self._weights_B.shape[0]} if costs else set()
        self._programs = {
            batch: _Program.of(
                (Full() if costs and batch > largest else selection).bind(
                    _serving(costs, batch), self.draft_tokens
                ),
                _serving(widths, batch),
                self.draft_tokens,
                self.k.device,
            )
            for batch in sorted({1, *costs, *widths, *unknown})
        }
        self._batch = 0

    def prepare(self, batch: int) -> None:
        """Tell how many trees the next step has; copies only when that changed."""
        if batch == self._batch:
            return
        program = _serving(self._programs, batch)
        if program is None:
            raise RuntimeError("PrefixSelector.follow was not called")
        self._weights_B.zero_()
        self._weights_B[:batch] = 1.0 / batch
        self._cheapest.price_NN.copy_(program.price_NN)
        _fill(self._cheapest.offset, program.price_offset)
        _fill(self._covering.rho, program.rho)
        _fill(self._covering.offset, program.share_offset)
        self._width_N.copy_(program.width_N)
        self._batch = batch

    def select(self, scores_Bn: Tensor) -> None:
        """Write k and the expected tokens of trees with these scores, best first, root left out.

        float32 [B, n - 1]; rows past the prepared batch (padding of a captured graph) weigh
        nothing. Tensor operations only: no sync, no data-dependent shape (captured in a graph).
        """
        weights_B = self._weights_B[: scores_Bn.shape[0]]
        weighted_Bn = pad(scores_Bn, (1, 0), value=1.0) * weights_B.unsqueeze(1)
        # A padding row may hold anything, NaN included: it is left out, not multiplied by 0.
        mean_n = torch.where(weights_B.unsqueeze(1) > 0, weighted_Bn, 0.0).sum(0)
        expected_n = mean_n.cumsum(0)
        size = expected_n.shape[0]
        k = torch.maximum(self._cheapest(expected_n), self._covering(expected_n))
        width = self._width_N.index_select(0, (k - 1).reshape(1)).clamp(max=size)
        self.scores_BN[: scores_Bn.shape[0], : size - 1].copy_(scores_Bn)
        self.expected_N[:size].copy_(expected_n)
        self.k.copy_(width)

    def start_read(self) -> None:
        """Begin to copy k to the host; what does not depend on k may be launched meanwhile."""
        if self._copied is not None:
            self._host.copy_(self.k, non_blocking=True)
            self._copied.record()

    def read(self) -> int:
        """Verify length of the last step: the one wait of a step."""
        if self._copied is None:
            return int(self.k)
        self._copied.synchronize()
        return int(self._host)


class _Program:
    """What stands in the selector's tensors for one policy at one batch size."""

    def __init__(self, price_NN: Tensor, width_N: Tensor) -> None:
        self.price_NN, self.width_N = price_NN, width_N
        self.price_offset = self.rho = self.share_offset = 0.0

    @classmethod
    def of(
        cls,
        selector: Selector,
        widths: Sequence[int] | None,
        draft_tokens: int,
        device: torch.device,
    ) -> _Program:
        width_N = torch.tensor(_raised(widths, draft_tokens), device=device)
        match selector:
            case Cheapest(price_NN, offset):
                program = cls(_existing(price_NN, widths).to(device), width_N)
                program.price_offset = float(offset)
            case Covering(rho, _, offset):
                program = cls(_only_root(draft_tokens).to(device), width_N)
                program.rho, program.share_offset = float(rho), float(offset)
            case _:
                raise InputError(
                    "SGLang's plugin cannot capture this selection", seen=type(selector).__name__
                )
        return program


def _serving(entries: Mapping[int, T], batch: int) -> T | None:
    """The entry of the next larger batch size, or of the largest where none is larger."""
    larger = [size for size in entries if size >= batch]
    return entries[min(larger)] if larger else entries[max(entries)] if entries else None


def _raised(widths: Sequence[int] | None, draft_tokens: int) -> list[int]:
    """The smallest existing width for each k = 1..N; the whole tree always exists."""
    existing = sorted({*(widths or range(1, draft_tokens + 1)), draft_tokens})
    return [next(width for width in existing if width >= k) for k in range(1, draft_tokens + 1)]


def _existing(price_NN: Tensor, widths: Sequence[int] | None) -> Tensor:
    """Prices of widths that do not exist are infinite, unless a row would have no finite one.

    A row without any finite price keeps its own: a fixed k between two widths is raised later.
    """
    if widths is None:
        return price_NN
    size = price_NN.shape[0]
    missing_N = torch.ones(size, dtype=torch.bool)
    missing_N[[width - 1 for width in {*widths, size}]] = False
    masked_NN = price_NN.masked_fill(missing_N, math.inf)
    masked_NN = torch.where(torch.eye(size, dtype=torch.bool), price_NN, masked_NN)
    lost_N = masked_NN.isinf().all(1)
    return torch.where(lost_N.unsqueeze(1), price_NN, masked_NN)


def _only_root(draft_tokens: int) -> Tensor:
    price_NN = torch.full((draft_tokens, draft_tokens), math.inf, dtype=torch.float64)
    price_NN[:, 0] = 1.0
    return price_NN


def _fill(target: float | Tensor, value: float) -> None:
    if isinstance(target, Tensor):
        target.fill_(value)

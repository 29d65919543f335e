"""How much of a draft tree is verified: all of it, a fixed prefix, or what its cost is worth.

Every policy is one rule, k = argmax_j S_j / price_j (smallest k on ties), with its own prices:
the measured step times for EVICT (arXiv 2605.00342, U(k) = C_AR * S_k / C(k); the constant C_AR
does not move the maximum), infinite everywhere but at one k for the fixed policies.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Protocol

import torch
from torch import Tensor

from evict.cost import CostTable
from evict.errors import InputError


class Selection(Protocol):
    """A policy, independent of the machine; `bind` joins it with a cost table."""

    needs_cost: ClassVar[bool]

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        """The policy for trees of at most `draft_tokens` nodes, root included."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Selector:
    """S[..., n] -> k[...], int64, 1 <= k <= n <= N. Tensor operations only, no sync.

    price_NN: float64 [N, N]; row n - 1 holds the prices for a tree of n nodes.
    offset: expected tokens not counted, taken off every S.
    """

    price_NN: Tensor
    offset: float = 0.0

    def to(self, device: torch.device | str) -> Selector:
        """The same policy with its prices on `device`: then a call copies nothing."""
        return Selector(self.price_NN.to(device), self.offset)

    def __call__(self, expected: Tensor) -> Tensor:
        """Verify length for each tree; `expected` [..., n] is S_k with the root's 1 included."""
        size = expected.shape[-1]
        if not 1 <= size <= self.price_NN.shape[0]:
            allowed = f"1..{self.price_NN.shape[0]}"
            raise InputError("tree size outside the bound policy", seen=size, allowed=allowed)
        price_n = self.price_NN.to(expected.device)[size - 1, :size]
        return ((expected - self.offset) / price_n).argmax(-1) + 1


@dataclass(frozen=True, slots=True)
class Full:
    """Verify every node (EAGLE-3)."""

    needs_cost: ClassVar[bool] = False

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        return Selector(_prices(draft_tokens, lambda n: _only(n, n)))


@dataclass(frozen=True, slots=True)
class FixedPrefix:
    """Verify the best `k` nodes, root included, or the whole tree where it is smaller."""

    k: int
    needs_cost: ClassVar[bool] = False

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        if not 1 <= self.k <= draft_tokens:
            raise InputError("fixed verify length k", seen=self.k, allowed=f"1..{draft_tokens}")
        return Selector(_prices(draft_tokens, lambda n: _only(min(self.k, n), n)))


@dataclass(frozen=True, slots=True)
class CostAware:
    """EVICT: the smallest k that maximises expected tokens per millisecond, S_k / C(k).

    count_root=False is the paper's literal sum over drafted nodes, without the token that the
    target yields by itself.
    """

    count_root: bool = True
    needs_cost: ClassVar[bool] = True

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        if cost is None:
            raise InputError(
                "cost-aware selection without a cost table",
                allowed=f"a table with C(1)..C({draft_tokens})",
                hint="profile this model on this machine first",
            )
        if cost.draft_tokens < draft_tokens:
            raise InputError(
                "cost table shorter than the draft tree",
                seen=f"C(1)..C({cost.draft_tokens})",
                allowed=f"C(1)..C({draft_tokens})",
                hint=f"profile again with draft_tokens={draft_tokens}",
            )
        prices = _prices(draft_tokens, lambda n: list(cost.step_ms[:n]))
        return Selector(prices, offset=0.0 if self.count_root else 1.0)


def _only(k: int, size: int) -> list[float]:
    return [1.0 if j == k else math.inf for j in range(1, size + 1)]


def _prices(draft_tokens: int, row: Callable[[int], list[float]]) -> Tensor:
    if draft_tokens < 1:
        raise InputError("draft_tokens counts the root", seen=draft_tokens, allowed=">= 1")
    rows = [row(n) + [math.inf] * (draft_tokens - n) for n in range(1, draft_tokens + 1)]
    return torch.tensor(rows, dtype=torch.float64)

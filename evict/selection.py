"""How much of a draft tree is verified: all, a fixed prefix, a share, or what its cost is worth.

All policies but the share are one rule, k = argmax_j S_j / price_j (smallest k on ties), with
their own prices: the measured step times for EVICT (arXiv 2605.00342, U(k) = C_AR * S_k / C(k);
the constant C_AR does not move the maximum), the same at every k without a cost, infinite
everywhere but at one k for the fixed policies.
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


class Selector(Protocol):
    """S[..., n] -> k[...], int64, 1 <= k <= n <= N. Tensor operations only, no sync."""

    def to(self, device: torch.device | str) -> Selector:
        """The same rule with its tensors on `device`: then a call copies nothing."""
        ...

    def __call__(self, expected: Tensor) -> Tensor:
        """Verify length for each tree; `expected` [..., n] is S_k with the root's 1 included.

        Raises InputError for a tree larger than the one the policy was bound to.
        """
        ...


@dataclass(frozen=True, slots=True, eq=False)
class Cheapest:
    """The k with the most expected tokens per price.

    price_NN: float64 [N, N]; row n - 1 holds the prices for a tree of n nodes.
    offset: expected tokens not counted, taken off every S; a number, or a tensor of no dimension
    where a captured graph must follow later changes.
    """

    price_NN: Tensor
    offset: float | Tensor = 0.0

    def to(self, device: torch.device | str) -> Cheapest:
        return Cheapest(self.price_NN.to(device), self.offset)

    def __call__(self, expected: Tensor) -> Tensor:
        size = expected.shape[-1]
        _check_tree(size, self.price_NN.shape[0])
        price_n = self.price_NN.to(expected.device)[size - 1, :size]
        return ((expected - self.offset) / price_n).argmax(-1) + 1


@dataclass(frozen=True, slots=True, eq=False)
class Covering:
    """The smallest k with (S_k - offset) / (S_n - offset) >= rho, for trees of n <= N nodes.

    S never falls, so k - 1 is the number of prefixes below rho; where nothing is expected the
    ratio is no number, none is below, and k is 1. float64: a ratio equal to rho counts as rho.
    rho, offset: numbers, or tensors of no dimension (float64) that a captured graph reads.
    """

    rho: float | Tensor
    draft_tokens: int
    offset: float | Tensor = 0.0

    def to(self, device: torch.device | str) -> Covering:
        return self

    def __call__(self, expected: Tensor) -> Tensor:
        _check_tree(expected.shape[-1], self.draft_tokens)
        counted = expected.double() - self.offset
        return (counted / counted[..., -1:] < self.rho).sum(-1) + 1


@dataclass(frozen=True, slots=True)
class Full:
    """Verify every node (EAGLE-3)."""

    needs_cost: ClassVar[bool] = False

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        return Cheapest(_prices(draft_tokens, lambda n: _only(n, n)))


@dataclass(frozen=True, slots=True)
class FixedPrefix:
    """Verify the best `k` nodes, root included, or the whole tree where it is smaller."""

    k: int
    needs_cost: ClassVar[bool] = False

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        if type(self.k) is not int or not 1 <= self.k <= draft_tokens:
            allowed = f"whole numbers in 1..{draft_tokens}"
            raise InputError("fixed verify length k", seen=repr(self.k), allowed=allowed)
        return Cheapest(_prices(draft_tokens, lambda n: _only(min(self.k, n), n)))


@dataclass(frozen=True, slots=True)
class CostAware:
    """EVICT: the smallest k that maximises expected tokens per millisecond, S_k / C(k).

    count_root=False is the paper's literal sum over drafted nodes, without the token that the
    target yields by itself. The paper does not say which it means; counting it is our choice.
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
        return Cheapest(prices, _offset(self.count_root))


@dataclass(frozen=True, slots=True)
class Expected:
    """EVICT's objective without C(k): the smallest k that maximises S_k.

    That is the whole tree but for last nodes whose score vanishes in the sum. `count_root` moves
    every S by the same 1 and so never the choice; it is here to ablate a CostAware as it stands.
    """

    count_root: bool = True
    needs_cost: ClassVar[bool] = False

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        prices = _prices(draft_tokens, lambda n: [1.0] * n)
        return Cheapest(prices, _offset(self.count_root))


@dataclass(frozen=True, slots=True)
class Coverage:
    """The smallest k whose S_k reaches the share `rho` of the whole tree's (paper, 4.4.2).

    rho = 1 is the whole tree by definition, as in the paper: sums in floating point stop growing
    before the last node. count_root as in CostAware; without it k = 1 covers nothing. Raises
    InputError for a rho outside (0, 1].
    """

    rho: float
    count_root: bool = True
    needs_cost: ClassVar[bool] = False

    def __post_init__(self) -> None:
        number = isinstance(self.rho, int | float) and not isinstance(self.rho, bool)
        if not (number and 0 < self.rho <= 1):
            raise InputError(
                "coverage rho: share of the expected tokens to keep",
                seen=repr(self.rho),
                allowed="0 < rho <= 1",
                hint="method.selection.rho=0.7",
            )

    def bind(self, cost: CostTable | None, draft_tokens: int) -> Selector:
        if self.rho == 1:
            return Full().bind(cost, draft_tokens)
        _check_root(draft_tokens)
        return Covering(self.rho, draft_tokens, _offset(self.count_root))


def _offset(count_root: bool) -> float:
    return 0.0 if count_root else 1.0


def _check_tree(size: int, draft_tokens: int) -> None:
    if not 1 <= size <= draft_tokens:
        allowed = f"1..{draft_tokens}"
        raise InputError("tree size outside the bound policy", seen=size, allowed=allowed)


def _check_root(draft_tokens: int) -> None:
    if draft_tokens < 1:
        raise InputError("draft_tokens counts the root", seen=draft_tokens, allowed=">= 1")


def _only(k: int, size: int) -> list[float]:
    return [1.0 if j == k else math.inf for j in range(1, size + 1)]


def _prices(draft_tokens: int, row: Callable[[int], list[float]]) -> Tensor:
    _check_root(draft_tokens)
    rows = [row(n) + [math.inf] * (draft_tokens - n) for n in range(1, draft_tokens + 1)]
    return torch.tensor(rows, dtype=torch.float64)

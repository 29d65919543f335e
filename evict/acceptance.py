"""Lossless verification of a draft tree: which path the target accepts and what it adds.

Draft tokens are a deterministic function of the context and a tree is cut by draft scores alone,
so each child is a proposal made with certainty: accepting it with the target's probability and
renormalising after a rejection leaves the target's distribution unchanged (EVICT, eq. 3).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from evict.errors import InputError
from evict.tree import DraftTree


@dataclass(frozen=True, slots=True)
class Accepted:
    """path: node indices, root first, then the accepted nodes. next_token: the target's own."""

    path: list[int]
    next_token: int


class Chance(Protocol):
    """The source of randomness of one decoding."""

    def accept(self, p: float) -> bool:
        """True with probability p; never at p = 0, always at p = 1."""
        ...

    def draw(self, p_V: Tensor) -> int:
        """An index of `p_V`, float64 [V], with that probability."""
        ...


@dataclass(frozen=True, slots=True, eq=False)
class GeneratorChance:
    """Chance from a torch generator, in float64; draws happen on the generator's device."""

    generator: torch.Generator

    def accept(self, p: float) -> bool:
        device = self.generator.device
        u = torch.rand((), generator=self.generator, dtype=torch.float64, device=device)
        return u.item() < p

    def draw(self, p_V: Tensor) -> int:
        weights_V = p_V.to(device=self.generator.device, dtype=torch.float64)
        return int(torch.multinomial(weights_V, 1, generator=self.generator).item())


def greedy(tree: DraftTree, argmax_k: Tensor) -> Accepted:
    """Follow the target's argmax down the first k nodes of `tree`.

    argmax_k: int64 [k], the target's best token after each verified node, k <= tree.size.
    """
    best: list[int] = argmax_k.tolist()
    _check_rows(len(best), tree.size)
    tokens: list[int] = tree.tokens_N.tolist()
    parents: list[int] = tree.parents_N.tolist()
    path, node = [0], 0
    # Children come after their parent, so one pass meets the whole path.
    for child in range(1, len(best)):
        if parents[child] == node and tokens[child] == best[node]:
            path.append(child)
            node = child
    return Accepted(path, best[node])


def sampling(tree: DraftTree, probs_kV: Tensor, chance: Chance) -> Accepted:
    """Sample from the target along the first k nodes of `tree` (EVICT, eq. 3).

    probs_kV: [k, V], the target's distribution after each verified node, temperature and
    truncation applied. Children are offered in score order; a rejected one loses its mass and
    the rest is renormalised; where none is accepted the next token comes from what is left.
    """
    _check_rows(probs_kV.shape[0], tree.size)
    tokens: list[int] = tree.tokens_N.tolist()
    children = _children(tree.parents_N[: probs_kV.shape[0]].tolist())
    path = [0]
    while True:
        p_V = _normalised(probs_kV[path[-1]].to(torch.float64))
        for child in children[path[-1]]:
            if chance.accept(float(p_V[tokens[child]])):
                path.append(child)
                break
            p_V[tokens[child]] = 0.0
            p_V = _normalised(p_V)
        else:
            return Accepted(path, chance.draw(p_V))


def _normalised(p_V: Tensor) -> Tensor:
    return p_V / p_V.sum()


def _children(parents: list[int]) -> list[list[int]]:
    children: list[list[int]] = [[] for _ in parents]
    for child, parent in enumerate(parents[1:], start=1):
        children[parent].append(child)
    return children


def _check_rows(rows: int, size: int) -> None:
    if not 1 <= rows <= size:
        raise InputError("target rows that match no node", seen=rows, allowed=f"1..{size}")

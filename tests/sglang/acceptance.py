"""The exact law of what a rule of tree sampling commits, and rules that are known to be wrong.

A rule is a function with the signature of `tests.sglang.sampling.sample_tree`. On probabilities
that are quarters, coins at the centres of equal cells stand for all coins: counting is integrating.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import torch
from torch import Tensor

from tests.sglang.sampling import sample_tree

Rule = Callable[..., None]
Path = tuple[int, ...]
QUARTERS = 4
# What remains of a row is renormalised: cells that thirds and halves of quarters divide.
FINAL_CELLS = 12


@dataclass(frozen=True)
class Tree:
    """A draft tree by slot, root first: token, parent and the target's quarters of each slot."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    quarters: tuple[tuple[int, ...], ...]

    def children(self, slot: int) -> list[int]:
        return [child for child, parent in enumerate(self.parents) if parent == slot]

    def path(self, slot: int) -> Path:
        """Tokens below the root down to this slot."""
        return (*self.path(self.parents[slot]), self.tokens[slot]) if slot else ()

    def prefix(self, k: int) -> Tree:
        return Tree(self.tokens[:k], self.parents[:k], self.quarters[:k])

    def chance(self, slot: int) -> Fraction:
        """The target's probability of the path to this slot."""
        if slot == 0:
            return Fraction(1)
        parent = self.parents[slot]
        return self.chance(parent) * Fraction(self.quarters[parent][self.tokens[slot]], QUARTERS)

    def links(self) -> tuple[list[int], list[int]]:
        """First child and next sibling of each slot, -1 for none."""
        first, following = [-1] * len(self.tokens), [-1] * len(self.tokens)
        for slot in range(len(self.tokens)):
            below = self.children(slot)
            for left, right in pairwise(below):
                following[left] = right
            first[slot] = below[0] if below else -1
        return first, following


def law(rule: Rule, tree: Tree) -> dict[Path, Fraction]:
    """Probability that what one step commits begins with each path of tokens."""
    committed = list(_steps(rule, tree))
    begun = Counter(tokens[:end] for tokens in committed for end in range(1, len(tokens) + 1))
    return {path: Fraction(count, len(committed)) for path, count in begun.items()}


def lossless_law(tree: Tree) -> dict[Path, Fraction]:
    """The same under plain sampling, as far as a step may go: one token past each slot."""
    reached = {
        (*tree.path(slot), token): tree.chance(slot) * Fraction(quarter, QUARTERS)
        for slot in range(len(tree.tokens))
        for token, quarter in enumerate(tree.quarters[slot])
    }
    return {path: chance for path, chance in reached.items() if chance}


def keeps_refused(**parts: Any) -> None:
    """Wrong: the bonus token is drawn from all of the target's mass, refused children included."""
    sample_tree(**parts)
    last_B1 = parts["accept_index"].gather(1, parts["accept_token_num"][:, None].long()).long()
    mass_BV = parts["target_probs"].flatten(0, 1)[last_B1[:, 0]].double().cumsum(1)
    coins_B1 = parts["uniform_samples_for_final_sampling"][:, None].double()
    bonus_B1 = torch.searchsorted(mass_BV, coins_B1 * mass_BV[:, -1:], right=True)
    parts["predicts"][last_B1] = bonus_B1.clamp(max=mass_BV.shape[1] - 1).to(torch.int32)


def lenient(**parts: Any) -> None:
    """Wrong: SGLang's own accept threshold below 1, which takes drafts too often."""
    sample_tree(**{**parts, "threshold_acc": 0.5})


def _steps(rule: Rule, tree: Tree) -> Iterator[Path]:
    """What the rule commits for every combination of coins."""
    slots = len(tree.tokens)
    inner = [slot for slot in range(slots) if tree.children(slot)]
    cells = [*[QUARTERS] * len(inner), FINAL_CELLS]
    centres = [[(cell + 0.5) / count for cell in range(count)] for count in cells]
    coins = torch.tensor(list(product(*centres)))
    rows = coins.shape[0]
    uniform_Bn = torch.full((rows, slots), 0.5)
    uniform_Bn[:, inner] = coins[:, :-1]
    index_Bn = torch.arange(rows * slots).view(rows, slots)
    predicts = torch.zeros(rows * slots, dtype=torch.int32)
    accepted = torch.full((rows, slots), -1, dtype=torch.int32)
    count_B = torch.zeros(rows, dtype=torch.int32)
    first, following = (torch.tensor([link] * rows) for link in tree.links())
    target = (torch.tensor(tree.quarters) / QUARTERS).repeat(rows, 1, 1)
    rule(
        predicts=predicts,
        accept_index=accepted,
        accept_token_num=count_B,
        candidates=torch.tensor([tree.tokens] * rows),
        retrive_index=index_Bn,
        retrive_next_token=first,
        retrive_next_sibling=following,
        uniform_samples=uniform_Bn,
        uniform_samples_for_final_sampling=coins[:, -1].contiguous(),
        target_probs=target,
        draft_probs=torch.zeros_like(target),
    )
    yield from map(tuple, _committed(predicts, accepted, count_B))


def _committed(predicts: Tensor, accepted: Tensor, count_B: Tensor) -> Iterator[list[int]]:
    for row, count in zip(accepted, count_B.tolist(), strict=True):
        yield predicts[row[: count + 1].long()].tolist()

"""Exact distributions of randomised procedures, by following every outcome of every choice."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeVar

from torch import Tensor

Outcome = TypeVar("Outcome")
Tokens = tuple[int, ...]
Distribution = dict[Tokens, float]


@dataclass
class ScriptedChance:
    """A Chance that takes prescribed choices, then first ones, and notes the alternatives."""

    script: tuple[int, ...]
    probability: float = 1.0
    taken: list[int] = field(default_factory=list)
    alternatives: list[list[int]] = field(default_factory=list)

    def accept(self, p: float) -> bool:
        assert -1e-12 <= p <= 1 + 1e-12, f"no probability: {p}"
        return bool(self._choose({1: p, 0: 1.0 - p}))

    def draw(self, p_V: Tensor) -> int:
        weights = p_V.tolist()
        assert abs(sum(weights) - 1.0) < 1e-9, f"not normalised: {weights}"
        return self._choose(dict(enumerate(weights)))

    def _choose(self, weights: dict[int, float]) -> int:
        possible = [choice for choice, weight in weights.items() if weight > 0.0]
        at = len(self.taken)
        choice = self.script[at] if at < len(self.script) else possible[0]
        self.taken.append(choice)
        self.alternatives.append([other for other in possible if other != choice])
        self.probability *= weights[choice]
        return choice


def outcomes(run: Callable[[ScriptedChance], Outcome]) -> Iterator[tuple[Outcome, float]]:
    """Every outcome of `run` with its probability, once per sequence of choices."""
    pending: list[tuple[int, ...]] = [()]
    while pending:
        script = pending.pop()
        chance = ScriptedChance(script)
        result = run(chance)
        yield result, chance.probability
        for at in range(len(script), len(chance.taken)):
            pending += [(*chance.taken[:at], other) for other in chance.alternatives[at]]


def next_tokens(
    step: Callable[[Tokens, ScriptedChance], Tokens], length: int, context: Tokens = ()
) -> Distribution:
    """Distribution of the first `length` tokens that repeated steps commit after `context`.

    step(context, chance) is one decoding step; it returns at least one committed token.
    """
    total: Distribution = defaultdict(float)
    for committed, probability in outcomes(lambda chance: step(context, chance)):
        assert committed, "a step commits at least one token"
        head = committed[:length]
        if len(head) == length:
            total[head] += probability
            continue
        rest = next_tokens(step, length - len(head), context + head)
        for tail, tail_probability in rest.items():
            total[head + tail] += probability * tail_probability
    return dict(total)


def plain_sampling(
    target: Callable[[Tokens], list[float]], length: int, context: Tokens = ()
) -> Distribution:
    """Distribution of `length` tokens sampled one by one from target(context)."""
    total: Distribution = {}
    vocabulary = range(len(target(context)))
    for tokens in itertools.product(vocabulary, repeat=length):
        probability = 1.0
        for at, token in enumerate(tokens):
            probability *= target(context + tokens[:at])[token]
        total[tokens] = probability
    return total


def total_variation(one: Distribution, other: Distribution) -> float:
    """Half the L1 distance between two distributions."""
    keys = one.keys() | other.keys()
    return sum(abs(one.get(key, 0.0) - other.get(key, 0.0)) for key in keys) / 2

"""The same generation with and without something, in turns: what does it cost?"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from harness.stats import geometric_interval

WIDTH = 0.004
ROUNDS = range(7, 48)


@dataclass(frozen=True)
class Paired:
    """Decode time with / without, and its 95 % interval over prompts."""

    ratio: float
    low: float
    high: float
    prompts: int
    rounds: int

    def __str__(self) -> str:
        shape = f"{self.prompts} prompts x {self.rounds} rounds"
        return f"{self.ratio:.4f} [{self.low:.4f}, {self.high:.4f}], {shape}"


def paired(decode_ms: Callable[[list[int], bool], float], prompts: Sequence[list[int]]) -> Paired:
    """Measure each prompt with and without; the order alternates, the median round counts.

    Rounds are added until the interval is narrow, never because of where it lies.
    """
    for prompt in prompts[:3]:
        decode_ms(prompt, False)
    logs: list[list[float]] = [[] for _ in prompts]
    for number in range(ROUNDS.stop):
        for index, prompt in enumerate(prompts):
            first = bool((index + number) % 2)
            taken = {with_it: decode_ms(prompt, with_it) for with_it in (first, not first)}
            logs[index].append(np.log(taken[True] / taken[False]))
        clusters = np.array([statistics.median(values) for values in logs])
        low, high = geometric_interval(clusters, seed=0)
        assert low is not None
        assert high is not None
        if number >= ROUNDS.start and (high - low) / 2 <= WIDTH:
            break
    return Paired(float(np.exp(clusters.mean())), low, high, len(prompts), number + 1)

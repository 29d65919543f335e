"""What the sample runs are run on: benchmarks, prompts, and the trees drafted for them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from harness.identity import digest
from harness.trees import TreeRecord
from tests.support.sample_trees import sample_tree

EASE = {
    "alpaca": 0.55,
    "gsm8k": 0.75,
    "humaneval": 0.72,
    "qa": 0.45,
    "mt_bench": 0.58,
    "cnn_dm": 0.5,
}
POOL, TOKENS = 24, 18


@dataclass(frozen=True)
class Cell:
    """A benchmark at a temperature: its prompts, its pool of trees."""

    benchmark: str
    temperature: float
    prompts: int

    def rng(self, *key: object) -> np.random.Generator:
        seed = digest([self.benchmark, self.temperature, *map(str, key)])
        return np.random.default_rng(int(seed[:12], 16))

    def keys(self, repeats: int) -> list[tuple[str, int, int]]:
        """(prompt, turn, repeat); MT-Bench has two turns."""
        turns = 2 if self.benchmark == "mt_bench" else 1
        return [
            (f"{self.benchmark}-{prompt}", turn, repeat)
            for repeat in range(repeats)
            for prompt in range(self.prompts)
            for turn in range(turns)
        ]

    def pool(self) -> list[TreeRecord]:
        rng, ease = self.rng("pool"), EASE[self.benchmark] - 0.04 * self.temperature
        return [sample_tree(0, ease, rng) for _ in range(POOL)]


def greedy_ids(benchmark: str, key: tuple[str, int, int]) -> list[int]:
    """The answer that every method gives, prefill's token first."""
    seed = int(digest([benchmark, *key])[:8], 16)
    return [int(i) for i in np.random.default_rng(seed).integers(5, 500, TOKENS + 1)]

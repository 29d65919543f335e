"""The methods of the sample collection, with the settings that real ones write down."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch

from evict.cost import CostTable
from evict.selection import CostAware, Coverage, FixedPrefix, Full, Selection
from harness.identity import digest
from harness.trees import TreeRecord

FIXED = {"growth._target_": "evict.growth.FixedDepth", "growth.steps": 4, "growth.topk": 8}
DYNAMIC = {**FIXED, "growth._target_": "evict.growth.DynamicDepth", "growth.threshold": -1.0}


@dataclass(frozen=True, eq=False)
class SampleMethod:
    """depth: levels drafted at most; selection None means plain decoding or hindsight."""

    name: str
    label: str
    rank: int
    selection: Selection | None = None
    parameters: dict[str, Any] = field(default_factory=dict)
    baseline: str | None = None
    tuned: tuple[str, ...] = ()
    scores: str = "draft"
    remark: str = ""
    depth: int = 4
    replica: int = 0
    drafter: str = "eagle3"

    @property
    def method_hash(self) -> str:
        return digest([self.name, self.parameters, self.scores, self.replica])

    @property
    def plain(self) -> bool:
        return self.drafter == "none"

    def verified(self, trees: Sequence[TreeRecord], cost: CostTable) -> list[int]:
        """k of each tree, root included."""
        if self.plain:
            return [1] * len(trees)
        if self.scores == "verdict":
            rates = [tree.tokens_committed() / np.array(cost.step_ms) for tree in trees]
            return [int(rate.argmax()) + 1 for rate in rates]
        assert self.selection is not None
        choose = self.selection.bind(cost, trees[0].size)
        chosen = []
        for tree in trees:
            drawn = int((tree.depths <= self.depth).sum())
            scores = torch.from_numpy(tree.scores[tree.depths <= self.depth])
            chosen.append(min(int(choose(scores.cumsum(0))), drawn))
        return chosen


def fixed_k(k: int, rank: int = 60) -> SampleMethod:
    return SampleMethod(
        f"fixed_k_{k}",
        f"fixed k={k}",
        rank,
        FixedPrefix(k),
        FIXED | {"selection._target_": "evict.selection.FixedPrefix", "selection.k": k},
    )


def coverage(rho: float) -> SampleMethod:
    return SampleMethod(
        f"coverage_{rho:g}",
        f"coverage rho={rho:g}",
        40 + round(10 * rho),
        Coverage(rho),
        FIXED | {"selection._target_": "evict.selection.Coverage", "selection.rho": rho},
    )


VANILLA = SampleMethod("vanilla", "vanilla", 0, baseline="plain", drafter="none")
VANILLA_AA = SampleMethod("vanilla_aa", "vanilla, again", 1, replica=1, drafter="none")
LOOKAHEAD = SampleMethod(
    "lookahead",
    "Lookahead",
    10,
    Full(),
    {
        "growth._target_": "evict.lookahead.Hierarchical",
        "selection._target_": "evict.selection.Full",
    },
    remark="trie kept for one request",
    depth=1,
    drafter="trie",
)
EAGLE3 = SampleMethod(
    "eagle3",
    "EAGLE-3",
    20,
    Full(),
    FIXED | {"selection._target_": "evict.selection.Full"},
    baseline="full",
)
DDD = SampleMethod(
    "ddd",
    "DDD",
    30,
    Full(),
    DYNAMIC | {"selection._target_": "evict.selection.Full"},
    tuned=("growth.threshold",),
    depth=2,
)
BEST_FIXED = SampleMethod(
    "best_fixed",
    "best fixed k",
    70,
    FixedPrefix(8),
    FIXED | {"selection._target_": "evict.selection.FixedPrefix", "selection.k": 8},
    tuned=("selection.k",),
)
EVICT = SampleMethod(
    "evict",
    "EVICT",
    90,
    CostAware(),
    FIXED | {"selection._target_": "evict.selection.CostAware", "selection.count_root": True},
)
HINDSIGHT = SampleMethod(
    "oracle",
    "hindsight",
    99,
    None,
    FIXED | {"selection._target_": "evict.selection.CostAware", "selection.count_root": True},
    scores="verdict",
)
METHODS = (
    VANILLA,
    VANILLA_AA,
    LOOKAHEAD,
    EAGLE3,
    DDD,
    coverage(0.4),
    coverage(0.7),
    coverage(0.9),
    BEST_FIXED,
    EVICT,
)
SWEEP = (VANILLA, *(fixed_k(k) for k in (1, 4, 8, 16, 32)))
REPLAYED = (EAGLE3, coverage(0.7), BEST_FIXED, EVICT, HINDSIGHT)

"""The point on ties: how often scores of real trees are exactly equal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.engines.sglang.gpu_check.arms import FULL, Arms, Record, record_trees


@dataclass(frozen=True)
class ScoredTree:
    """Nodes in score order, root first: float32 scores, and the position of each one's parent."""

    scores: Sequence[float]
    parents: Sequence[int]


def score_ties(arms: Arms, prompts: Sequence[Sequence[int]], tokens: int) -> dict[str, Any]:
    """Trees of all steps of the prompts. The server keeps recording trees afterwards."""
    running = arms.follow(FULL)
    record_trees(running)
    records = []
    for prompt in prompts:
        arms.generate(running, prompt, tokens)
        records += running.records()
    return {"prompts": len(prompts), **count_ties(list(trees(records)))}


def trees(records: Sequence[Record]) -> Iterator[ScoredTree]:
    """The trees in step records; ValueError for records without any."""
    for record in records:
        if record["tree"] is None:
            raise ValueError(f"step {record['step']} has no tree although one was ordered")
        yield from map(ScoredTree, record["tree"]["scores"], record["tree"]["parents"])


def count_ties(found: Sequence[ScoredTree]) -> dict[str, Any]:
    """Neighbours in score order with equal scores, the root left out of the pairs.

    with_parent: nodes that score exactly as their parent, which a sort that is not stable could
    place before it. cuts: trees by the width at which a cut falls between equal scores.
    """
    cuts: Counter[int] = Counter()
    zeros = with_parent = nodes = tied_trees = 0
    for tree in found:
        tied = [k for k, (a, b) in enumerate(pairwise(tree.scores[1:]), start=2) if a == b]
        cuts.update(tied)
        zeros += sum(tree.scores[k] == 0.0 for k in tied)
        with_parent += sum(_as_parent(tree))
        nodes += len(tree.scores) - 1
        tied_trees += bool(tied)
    return {
        "trees": len(found),
        "trees_with_a_tie": tied_trees,
        "pairs": nodes - len(found),
        "tied_pairs": cuts.total(),
        "tied_at_zero": zeros,
        "nodes": nodes,
        "with_parent": with_parent,
        "cuts": {str(k): cuts[k] for k in sorted(cuts)},
    }


def _as_parent(tree: ScoredTree) -> Iterator[bool]:
    own = zip(tree.scores[1:], tree.parents[1:], strict=True)
    return (score == tree.scores[parent] for score, parent in own)

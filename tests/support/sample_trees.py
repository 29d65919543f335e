"""Made-up draft trees with calibrated scores, and a step cost to go with them."""

from __future__ import annotations

import numpy as np

from evict.cost import CostTable
from harness.trees import TreeRecord

NODES, DEPTH, LAYERS, EXPERTS, TOP_K = 32, 4, 3, 48, 2
ENGINE_FACTS = {
    "engine": "torch",
    "model": "sample",
    "dtype": "float32",
    "device": "cpu",
    "threads": 1,
    "layers": LAYERS,
    "experts": EXPERTS,
    "experts_per_token": TOP_K,
    "context_length": 2048,
    "draft_vocab": 500,
    "weights_hash": "0",
    "versions": {"torch": "2.13.0"},
}


def sample_cost() -> CostTable:
    """A concave C(k): 4.5 ms and 0.25 ms per expert of the union; a plain step takes 4 ms."""
    k = np.arange(1, NODES + 1)
    union = EXPERTS * (1 - (1 - TOP_K / EXPERTS) ** k) * 0.9 + 0.1 * TOP_K
    draft, extend, other = np.full(NODES, 1.5), np.full(NODES, 0.4), np.full(NODES, 0.1)
    verify = 2.5 + 0.25 * union
    stages = {"draft": draft, "verify": verify, "extend": extend, "other": other}
    return CostTable(
        step_ms=_floats(sum(stages.values())),
        ar_ms=4.0,
        spread_ms=_floats(0.02 * verify),
        beta=1.1,
        fingerprint={
            name: str(value) for name, value in ENGINE_FACTS.items() if name != "versions"
        },
        stage_ms={name: _floats(series) for name, series in stages.items()},
        expert_union=_floats(union),
    )


def sample_tree(step: int, ease: float, rng: np.random.Generator) -> TreeRecord:
    """A tree of N nodes in score order. ease in (0, 1): how sure the drafter is of its best child.

    A node is accepted with its score's probability, so the scores are calibrated by construction.
    """
    scores, parents, depths = [1.0], [-1], [0]
    open_nodes = {0: _children(ease, rng)}
    while len(scores) < NODES:
        parent = max(open_nodes, key=lambda i: scores[i] * open_nodes[i][0])
        share = open_nodes[parent].pop(0)
        if not open_nodes[parent]:
            del open_nodes[parent]
        scores.append(scores[parent] * share)
        parents.append(parent)
        depths.append(depths[parent] + 1)
        if depths[-1] < DEPTH:
            open_nodes[len(scores) - 1] = _children(ease, rng)
    path = _walk(np.array(parents), np.array(scores), rng)
    return TreeRecord(
        step=step,
        tokens=rng.integers(5, 500, NODES),
        parents=np.array(parents),
        depths=np.array(depths),
        scores=np.array(scores, dtype=np.float32),
        path=path,
        verified=NODES,
        committed=len(path),
        experts=_experts(rng),
    )


def _children(ease: float, rng: np.random.Generator) -> list[float]:
    """Probabilities of a node's children, best first, below 1 in sum."""
    best = float(rng.beta(8 * ease, 8 * (1 - ease)))
    return [best * (1 - best) ** i for i in range(8)]


def _walk(parents: np.ndarray, scores: np.ndarray, rng: np.random.Generator) -> tuple[int, ...]:
    path = [0]
    while True:
        children = np.flatnonzero(parents == path[-1])
        chances = scores[children] / scores[path[-1]]
        drawn = int(np.searchsorted(np.cumsum(chances), rng.random()))
        if drawn >= len(children):
            return tuple(path)
        path.append(int(children[drawn]))


def _experts(rng: np.random.Generator) -> np.ndarray:
    """Distinct expert ids per node and layer, int16 [N, L, K]."""
    order = rng.random((NODES, LAYERS, EXPERTS)).argsort(axis=-1)
    return order[..., :TOP_K].astype(np.int16)


def _floats(series: object) -> tuple[float, ...]:
    return tuple(float(value) for value in np.asarray(series))

"""A calibrated drafter: what it proposes and what the target says, from few parameters.

Every expanded node has a confidence x = difficulty + between * step + within * node, its best child
gets the probability 1 / (1 + exp(-x)), the next ranks share `cover` of the rest by a power law. The
target chooses each child with exactly that probability (the paper's section 3.1: node probability =
draft probability), at both temperatures, unless `sharpness` says that it is surer than its drafter.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.signal import lfilter
from torch import Tensor

from evict.errors import InputError

RANKS_COVERED = 8  # `cover` is the share of the rest that ranks 2 to 8 hold, whatever topk is


@dataclass(frozen=True)
class Spread:
    """How confidences vary; `difficulty` is the mean and comes with each benchmark.

    between, within: standard deviations of x between steps and between the nodes of a step.
    persistence: correlation of consecutive steps' share, 0 <= p < 1. tail: exponent of the ranks.
    cover: share of the rest held by ranks 2 to 8. sharpness: exponent that turns the drafter's
    probabilities into the target's; 1 is a calibrated drafter, more is one that doubts too much.
    """

    between: float
    within: float
    persistence: float
    tail: float
    cover: float
    sharpness: float = 1.0

    def __post_init__(self) -> None:
        for name, high in (("between", 20), ("within", 20), ("tail", 20), ("cover", 1)):
            _check(name, getattr(self, name), f"0..{high}", 0 <= getattr(self, name) <= high)
        _check("sharpness", self.sharpness, "> 0, at most 20", 0 < self.sharpness <= 20)
        _check("persistence", self.persistence, "0 <= p < 1", 0 <= self.persistence < 1)


@dataclass(frozen=True, eq=False)
class Draws:
    """The randomness of S steps, drawn once and shared by everything that is compared.

    steps_S: standard normal, consecutive ones correlated. nodes_SDW: standard normal per expanded
    node, slot w of depth d. targets_SDW: uniform, the target's choice after that node.
    """

    steps_S: Tensor
    nodes_SDW: Tensor
    targets_SDW: Tensor

    @staticmethod
    def make(count: int, levels: int, topk: int, persistence: float, seed: int) -> Draws:
        """Draws of `count` consecutive steps for trees of `levels` levels of `topk` nodes."""
        _check("steps of a simulation", count, ">= 1", count >= 1)
        rng = np.random.default_rng(seed)
        fresh = rng.standard_normal(count)
        fresh[1:] *= np.sqrt(1.0 - persistence**2)
        chain = lfilter([1.0], [1.0, -persistence], fresh)
        nodes = rng.standard_normal((count, levels, topk))
        targets = rng.random((count, levels, topk))
        return Draws(*(torch.from_numpy(np.ascontiguousarray(x)) for x in (chain, nodes, targets)))


@dataclass(frozen=True, eq=False)
class Proposals:
    """What the drafter would say and the target would choose at every node that can be expanded.

    draft_SDWt: float64 [S, D, W, topk], the drafter's probabilities of the children, falling.
    target_SDWt: the target's for the same. choices_SDW: int64, its child there, topk for none.
    """

    draft_SDWt: Tensor
    target_SDWt: Tensor
    choices_SDW: Tensor

    @property
    def log_probs_SDWt(self) -> Tensor:
        """The draft log-probabilities as a drafter returns them, float32."""
        return self.draft_SDWt.log().float()

    @property
    def topk(self) -> int:
        """Children per node."""
        return self.draft_SDWt.shape[-1]


def child_shares(topk: int, spread: Spread) -> Tensor:
    """Shares of the rest (what the best child leaves) of ranks 2..topk, float64 [topk - 1]."""
    ranks = torch.arange(1, max(topk, RANKS_COVERED), dtype=torch.float64)
    law = ranks**-spread.tail
    shares = (spread.cover * law / law[: RANKS_COVERED - 1].sum())[: topk - 1]
    return shares / max(float(shares.sum()), 1.0)


def propose(draws: Draws, spread: Spread, difficulty: float) -> Proposals:
    """The drafter at one mean confidence (larger is easier); same draws, same luck."""
    topk = draws.nodes_SDW.shape[2]
    steps_S11 = draws.steps_S[:, None, None]
    x_SDW = difficulty + spread.between * steps_S11 + spread.within * draws.nodes_SDW
    best = torch.sigmoid(x_SDW).unsqueeze(-1)
    rest = torch.sigmoid(-x_SDW).unsqueeze(-1) * child_shares(topk, spread)
    draft = torch.cat([best, rest], dim=-1).sort(dim=-1, descending=True).values
    target = _sharpened(draft, spread.sharpness)
    reached = target.cumsum(-1) <= draws.targets_SDW.unsqueeze(-1)
    return Proposals(draft, target, reached.sum(-1))


def _sharpened(probs_t: Tensor, sharpness: float) -> Tensor:
    if sharpness == 1.0:
        return probs_t
    others = (1.0 - probs_t.sum(-1, keepdim=True)).clamp(min=0.0)
    powers = probs_t**sharpness
    return powers / (powers.sum(-1, keepdim=True) + others**sharpness)


@dataclass(frozen=True, eq=False)
class DraftBatch:
    """S drafted trees of N nodes in the order of evict.tree.DraftTree, the root first.

    scores_SN: float32. on_path_SN: bool, whether the target accepts the node.
    """

    scores_SN: Tensor
    on_path_SN: Tensor

    def expected_SN(self) -> Tensor:
        """S_k of every tree, as DraftTree.expected."""
        return self.scores_SN.cumsum(1)

    def committed_SN(self) -> Tensor:
        """Tokens that each k commits, int64 [S, N]: the accepted nodes and the target's own."""
        return self.on_path_SN.long().cumsum(1)

    def mat(self) -> float:
        """Mean accepted tokens when whole trees are verified."""
        return float(self.committed_SN()[:, -1].double().mean())


def grow_batch(proposals: Proposals, levels: int, draft_tokens: int) -> DraftBatch:
    """Every step's tree at once, as evict.growth.FixedDepth and DraftTree.build make one.

    Equal to them bit by bit (tests/simulate/test_simulator.py); a tree of fewer candidates than
    draft_tokens - 1 is smaller.
    """
    log_probs, topk = proposals.log_probs_SDWt.clamp(max=0.0), proposals.topk
    children = torch.arange(topk)
    scores, path = log_probs[:, 0, 0], proposals.choices_SDW[:, 0, :1] == children
    all_scores, all_path = [scores], [path]
    for depth in range(1, levels):
        frontier = _best(scores, topk)
        chosen = proposals.choices_SDW[:, depth, :].unsqueeze(-1) == children
        path = (path.gather(1, frontier).unsqueeze(-1) & chosen).flatten(1)
        scores = (scores.gather(1, frontier).unsqueeze(-1) + log_probs[:, depth]).flatten(1)
        all_scores.append(scores)
        all_path.append(path)
    scores, path = torch.cat(all_scores, 1), torch.cat(all_path, 1)
    best = _best(scores, draft_tokens - 1)
    root = torch.ones(len(scores), 1)
    return DraftBatch(
        torch.cat([root, scores.gather(1, best).exp_()], 1),
        torch.cat([root.bool(), path.gather(1, best)], 1),
    )


def _best(scores_SM: Tensor, count: int) -> Tensor:
    return torch.sort(scores_SM, dim=1, descending=True, stable=True).indices[:, :count]


def _check(name: str, value: object, allowed: str, good: bool) -> None:
    if not good:
        raise InputError(f"{name} of the acceptance model", seen=value, allowed=allowed)

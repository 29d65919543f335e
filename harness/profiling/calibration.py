"""How far draft scores hold: the fitted logit factor beta, ECE and Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from evict.selection import Full
from harness.engines.base import Engine, Method, Request, StepView

BETA_RANGE = (0.2, 5.0)
MAX_PROMPTS = 12
MAX_NEW_TOKENS = 96


@dataclass
class ScoreLog:
    """An observer that keeps node scores with the target's verdict, and drafter rows.

    scores and accepted are parallel over all verified nodes but the root; a node counts as
    accepted when it lies on the accepted path. rows hold (draft logits [D], draft id chosen by the
    target).
    """

    scores: list[float] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    rows: list[tuple[Tensor, int]] = field(default_factory=list)

    def __call__(self, view: StepView) -> None:
        kept = set(view.path)
        scores = view.tree.scores_N[: view.verify_length].tolist()
        self.scores += scores[1:]
        self.accepted += [node in kept for node in range(1, view.verify_length)]
        self.rows += [(logits.clone(), token) for logits, token in view.draft_rows]


def fit_beta(engine: Engine, method: Method, prompts: Sequence[Sequence[int]], seed: int) -> float:
    """Factor on the draft logits under which the target's own tokens are most likely.

    Maximum likelihood over every expanded node on the accepted path. Lossless: beta moves the
    tree and the cut, never the verdict. 1.0 when nothing was drafted.
    """
    log = ScoreLog()
    full = replace(method, selection=Full(), calibrate=False)
    for index, prompt in enumerate(prompts[:MAX_PROMPTS]):
        request = Request(f"calibration-{index}", tuple(prompt), MAX_NEW_TOKENS)
        engine.generate(request, full, seed, observer=log)
    if not log.rows:
        return 1.0
    logits = torch.stack([row for row, _ in log.rows]).double()
    chosen = torch.tensor([token for _, token in log.rows], device=logits.device)

    def loss(beta: float) -> float:
        return float(torch.nn.functional.cross_entropy(beta * logits, chosen))

    return float(minimize_scalar(loss, bounds=BETA_RANGE, method="bounded").x)


def expected_calibration_error(
    scores: Sequence[float], accepted: Sequence[bool], bins: int = 10
) -> float:
    """ECE over equal-width bins: sum of |mean score - acceptance rate| weighted by bin size."""
    score, hit = np.asarray(scores), np.asarray(accepted, dtype=float)
    index = np.minimum((score * bins).astype(int), bins - 1)
    total = 0.0
    for b in range(bins):
        chosen = index == b
        if chosen.any():
            total += chosen.mean() * abs(score[chosen].mean() - hit[chosen].mean())
    return float(total)


def brier_score(scores: Sequence[float], accepted: Sequence[bool]) -> float:
    """Mean squared difference of score and outcome."""
    score, hit = np.asarray(scores), np.asarray(accepted, dtype=float)
    return float(np.mean((score - hit) ** 2))

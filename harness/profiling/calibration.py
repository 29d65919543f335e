"""Fitting draft scores on calibration prompts: the logit factor beta and the score maps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch
from scipy.optimize import minimize_scalar
from torch import Tensor

from evict.calibration import ScoreMap
from evict.selection import Full
from harness.engines.base import Engine, Method, Request, StepView

BETA_RANGE = (0.2, 5.0)
MAX_PROMPTS = 12
MAX_NEW_TOKENS = 96
TEMPERATURES = (0.0, 1.0)


@dataclass
class ScoreLog:
    """An observer that keeps node scores with the target's verdict, and drafter rows.

    scores, depths and accepted are parallel over all verified nodes but the root; a node counts as
    accepted when it lies on the accepted path. rows hold (draft logits [D], draft id chosen by the
    target).
    """

    scores: list[float] = field(default_factory=list)
    depths: list[int] = field(default_factory=list)
    accepted: list[bool] = field(default_factory=list)
    rows: list[tuple[Tensor, int]] = field(default_factory=list)

    def __call__(self, view: StepView) -> None:
        kept = set(view.path)
        self.scores += view.tree.scores_N[1 : view.verify_length].tolist()
        self.depths += view.tree.depths_N[1 : view.verify_length].tolist()
        self.accepted += [node in kept for node in range(1, view.verify_length)]
        self.rows += [(logits.clone(), token) for logits, token in view.draft_rows]


def observe(
    engine: Engine,
    method: Method,
    prompts: Sequence[Sequence[int]],
    seed: int,
    temperature: float,
    progress: Callable[[str, float], None] | None = None,
) -> ScoreLog:
    """Generate on the first prompts with the whole tree verified, and log every node."""
    log = ScoreLog()
    full = replace(method, selection=Full(), scores="draft")
    chosen = prompts[:MAX_PROMPTS]
    for index, prompt in enumerate(chosen):
        request = Request(f"calibration-{index}", tuple(prompt), MAX_NEW_TOKENS, temperature)
        engine.generate(request, full, seed + index, observer=log)
        if progress:
            progress(f"observing scores at T={temperature:g}", (index + 1) / len(chosen))
    return log


def fit_beta(log: ScoreLog) -> float:
    """Factor on the draft logits under which the target's own tokens are most likely.

    Maximum likelihood over every expanded node on the accepted path. Lossless: beta moves the
    tree and the cut, never the verdict. 1.0 when nothing was drafted.
    """
    if not log.rows:
        return 1.0
    logits = torch.stack([row for row, _ in log.rows]).double()
    chosen = torch.tensor([token for _, token in log.rows], device=logits.device)

    def loss(beta: float) -> float:
        return float(torch.nn.functional.cross_entropy(beta * logits, chosen))

    return float(minimize_scalar(loss, bounds=BETA_RANGE, method="bounded").x)


def fit_maps(logs: dict[float, ScoreLog]) -> dict[str, ScoreMap]:
    """Draft score to acceptance rate for each temperature; none where nothing was drafted.

    A node is accepted when it is the argmax at temperature 0 and with its probability at 1, so
    the two need maps of their own.
    """
    return {
        f"{temperature:g}": ScoreMap.fit(log.scores, log.depths, log.accepted)
        for temperature, log in logs.items()
        if log.scores
    }

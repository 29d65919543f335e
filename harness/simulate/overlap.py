"""How many experts a layer activates for k tokens: one correlation between uniform and identical.

An expert's chance of being chosen differs from context to context: it is Beta-distributed with mean
K / E, and the tokens of one tree share it. Two tokens then choose the same expert with correlation
rho = 1 / (s + 1), s the Beta's concentration. rho -> 0 is independent uniform routing, the upper
bound E (1 - (1 - K/E)^k); at rho = 1 every token chooses the same K experts.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from evict.errors import InputError

Floats = NDArray[np.float64]
LEAST, MOST = 1e-6, 1.0 - 1e-6


def unions(experts: int, top_k: int, rho: float, tokens: int, contexts: int = 1) -> Floats:
    """Expected distinct experts of one layer for 1..tokens tokens in each context, [tokens].

    E (1 - prod_{j<k} (b + j) / (s + j)) with s = 1/rho - 1 and b = s (1 - K/E); zeros for a dense
    model (experts = 0). Requests of a batch are contexts of their own, independent of each other.
    """
    if experts == 0:
        return np.zeros(tokens)
    if not 1 <= top_k <= experts or min(tokens, contexts) < 1 or not 0 <= rho <= 1:
        raise InputError(
            "no such routing",
            seen=f"top {top_k} of {experts}, {tokens} tokens of {contexts} contexts, rho {rho:g}",
            allowed="1 <= top_k <= experts, tokens >= 1, contexts >= 1, 0 <= rho <= 1",
        )
    rho = min(max(rho, LEAST), MOST)
    s = 1.0 / rho - 1.0
    j = np.arange(tokens)
    spared = np.cumprod((s * (1.0 - top_k / experts) + j) / (s + j))
    return np.asarray(experts * (1.0 - spared**contexts))


def fit_correlation(experts: int, top_k: int, recorded: Sequence[float]) -> float:
    """The correlation whose curve is closest to recorded unions of 1..N tokens (least squares)."""
    measured = np.asarray(recorded, dtype=np.float64)

    def misfit(rho: float) -> float:
        curve = unions(experts, top_k, rho, len(measured))
        return float(np.square(curve / measured - 1.0).sum())

    return float(minimize_scalar(misfit, bounds=(LEAST, MOST), method="bounded").x)

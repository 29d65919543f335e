"""Every method of conf/method as an object, tuned settings at their defaults."""

from __future__ import annotations

from functools import cache

import numpy as np

from evict.calibration import ScoreMap
from evict.cost import CostTable
from harness.compose import build_method
from harness.config import known
from harness.engines.base import Engine, Method
from harness.profiling.cost import fingerprint
from tests.support.bench import composed


@cache
def method(entry: str) -> Method:
    """A method by name, or a variant such as `coverage:selection.rho=0.4`."""
    other = "vanilla" if entry != "vanilla" else "evict"
    _, methods = composed(f"method={other}", f"compare=['{entry}']")
    return build_method(methods[1])


def names() -> list[str]:
    """The methods that can decode: all but those that need the target's verdict."""
    return [name for name in known("method") if method(name).scores != "verdict"]


def priced(engine: Engine) -> CostTable:
    """Plausible costs and score maps under this engine's fingerprint: nothing is timed here."""
    uniform = np.random.default_rng(0)
    scores = uniform.random(4000)
    maps = ScoreMap.fit(scores, uniform.integers(1, 5, 4000), uniform.random(4000) < scores**0.7)
    return CostTable(
        step_ms=tuple(6.0 + 0.35 * k for k in range(1, 33)),
        ar_ms=4.0,
        spread_ms=(0.1,) * 32,
        fingerprint=fingerprint(engine, method("evict")),
        score_maps={"0": maps, "1": maps},
    )

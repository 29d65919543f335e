"""Small simulations that several tests share."""

from __future__ import annotations

import pytest

from harness.simulate.acceptance import Draws, Spread

SPREAD = Spread(between=1.0, within=1.5, persistence=0.4, tail=0.9, cover=0.62)


@pytest.fixture(scope="session")
def spread() -> Spread:
    return SPREAD


@pytest.fixture(scope="session")
def draws() -> Draws:
    return Draws.make(count=2000, levels=4, topk=8, persistence=0.4, seed=3)

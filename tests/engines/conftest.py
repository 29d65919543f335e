"""Shared engines: a tiny random pair, and the shipped lab model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness.engines.torch.engine import TorchEngine
from tests.support.checkpoints import TinyPair, write_pair

ROOT = Path(__file__).resolve().parents[2]
LAB = {
    "name": "lab",
    "target": str(ROOT / "harness/lab/weights/target"),
    "draft": str(ROOT / "harness/lab/weights/eagle3"),
}


@pytest.fixture(scope="session")
def tiny_pair(tmp_path_factory: pytest.TempPathFactory) -> TinyPair:
    return write_pair(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="session")
def tiny(tiny_pair: TinyPair) -> TorchEngine:
    model = {"name": "tiny", "target": str(tiny_pair.target), "draft": str(tiny_pair.draft)}
    return TorchEngine(model, device="cpu")


@pytest.fixture(scope="session")
def lab() -> TorchEngine:
    return TorchEngine(LAB, device="cpu")


@pytest.fixture
def ids() -> list[int]:
    generator = torch.Generator().manual_seed(5)
    return torch.randint(3, 300, (24,), generator=generator).tolist()

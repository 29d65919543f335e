"""A results folder and a fake engine for every test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)

"""A results folder for every test, and the command that writes into it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.again import Command
from tests.support.bench import Bench


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def command(bench: Bench) -> Command:
    """Four prompts through EVICT, every tree kept."""
    return Command.of(bench, "method=evict", "record_trees=true")

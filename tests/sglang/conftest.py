"""Tests on the real sglang 0.5.23: marked, skipped aloud without it, on shared checkpoints.

Nothing here imports SGLang; tests run it in processes of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

import pytest

from tests.sglang.checkpoints import Pair, write_tiny
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import baselines

HERE = Path(__file__).resolve().parent
NEEDED = "0.5.23"
_not_run = pytest.StashKey[int]()


def missing() -> str | None:
    """Why this interpreter cannot run the tests, None where it can."""
    try:
        found = metadata.version("sglang")
    except metadata.PackageNotFoundError:
        return f"sglang {NEEDED} is not installed in this interpreter"
    return None if found == NEEDED else f"sglang {found} is installed, {NEEDED} is needed"


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    ours = [item for item in items if HERE in item.path.parents]
    reason = missing()
    for item in ours:
        item.add_marker("sglang")
        if reason:
            item.add_marker(pytest.mark.skip(reason=f"{reason}: make test-sglang"))
    config.stash[_not_run] = len(ours) if reason else 0


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    count = config.stash.get(_not_run, 0)
    if count:
        terminalreporter.write_line(
            f"NOT RUN: {count} tests on the real SGLang; {missing()}. Run: make test-sglang",
            yellow=True,
        )


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Folders of the tiny target and its EAGLE-3 head."""
    return write_tiny(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def plain(tiny: Pair) -> dict[str, Any]:
    """Plain decoding of the stress workload: what every lossless decoder must give."""
    return run_scenario(baselines.plain, {"target": tiny.target})

"""Tests on the real sglang 0.5.23: marked, skipped aloud without it, on shared checkpoints.

Nothing here imports SGLang; tests run it in processes of their own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.sglang.checkpoints import Pair, write_tiny
from tests.sglang.engines import lab_engine
from tests.sglang.installed import missing
from tests.sglang.process import run_scenario
from tests.sglang.scenarios import baselines

HERE = Path(__file__).resolve().parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: Sequence[pytest.Item]) -> None:
    reason = missing()
    if reason and config.option.markexpr == "sglang":
        raise pytest.UsageError(f"{reason}: make test-sglang")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker("sglang")
            if reason:
                item.add_marker(pytest.mark.skip(reason=f"{reason}: make test-sglang"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """`engine=sglang` on the lab model, at its defaults."""
    found = lab_engine(tmp_path_factory.mktemp("servers"))
    yield found
    found.close()


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    """Folders of the tiny target and its EAGLE-3 head."""
    return write_tiny(tmp_path_factory.mktemp("checkpoints"))


@pytest.fixture(scope="session")
def plain(tiny: Pair) -> dict[str, Any]:
    """Plain decoding of the stress workload: what every lossless decoder must give."""
    return run_scenario(baselines.plain, {"target": tiny.target})

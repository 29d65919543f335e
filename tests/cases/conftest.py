"""The real experiment on a fake engine, and the table that its result files give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.collect import collect
from harness.report.tables import summary
from tests.support.bench import Bench

Table = dict[str, dict[str, Any]]


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


@pytest.fixture
def compared(bench: Bench) -> Callable[[], Table]:
    """A row per method of the bench's single benchmark, from files alone."""

    def read() -> Table:
        frame = summary(collect(bench.results))
        return {str(row["method"]): row for row in frame.to_dict("records")}  # type: ignore[misc]

    return read

"""What the whole suite says at its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.sglang.installed import missing

SGLANG = Path(__file__).resolve().parent / "sglang"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Name the tests on the real SGLang where this interpreter cannot run them."""
    asked = [Path(argument.split("::")[0]).resolve() for argument in config.args]
    if missing() and any(SGLANG.is_relative_to(place) for place in asked):
        terminalreporter.write_line(
            f"NOT RUN: the tests on the real SGLang; {missing()}. Run: make test-sglang",
            yellow=True,
        )

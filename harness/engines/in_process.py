"""What an engine that runs in the harness's own process need not say for itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.engines.base import Method, Result
from harness.equality import NextTokens


class InProcess:
    """Engines whose methods share everything that was loaded; see `harness.engines.base.Engine`."""

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        """All of them: nothing is restarted between methods."""
        return [list(range(len(methods)))]

    def forget(self) -> None:
        """Nothing is remembered."""

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        """None: there is no model to ask."""
        return None

    def read_back(self, method: Method) -> dict[str, str]:
        """Nothing: all methods share what `describe` says."""
        return {}

    def carry_out(
        self,
        procedure: Callable[..., Result],
        *arguments: Any,
        progress: Callable[[str, float], None] | None = None,
    ) -> Result:
        """At once, in this process."""
        return procedure(self, *arguments, progress)

    def close(self) -> None:
        """Nothing outlives the object."""

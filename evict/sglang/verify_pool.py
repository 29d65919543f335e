"""One attention backend, and one set of CUDA graphs, per verify width."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class VerifyState:
    """What the target runs a verify of `width` nodes with; graphs None in the eager regime."""

    width: int
    attention: Any
    graphs: Any


class VerifyPool:
    """Swaps the target's attention backend and graphs around tree build and verify.

    SGLang fixes the verify width when a backend is constructed and a graph captured, and falls
    back to eager without a word when the widths differ. The full width is SGLang's own state; what
    stands on the model runner outside a step is always that one, since prefill runs with it.
    """

    def __init__(self, model_runner: Any, full_width: int) -> None:
        self._runner = model_runner
        self._full = VerifyState(
            full_width, model_runner.attn_backend, model_runner.decode_cuda_graph_runner
        )
        self._states = {full_width: self._full}
        self.active = full_width

    @property
    def widths(self) -> tuple[int, ...]:
        """Verify widths that exist, ascending."""
        return tuple(sorted(self._states))

    def build(self, widths: Iterable[int], make: Callable[[int], VerifyState]) -> None:
        """Add these widths, the widest first, so that shared buffers are made once."""
        for width in sorted({*widths} - self._states.keys(), reverse=True):
            self._states[width] = make(width)

    def activate(self, width: int) -> None:
        """Let the target verify `width` nodes until `restore`. RuntimeError for another width."""
        state = self._states.get(width)
        if state is None:
            raise RuntimeError(f"no verify state of width {width}; built: {self.widths}")
        self._put(state)

    def restore(self) -> None:
        """Back to SGLang's own state; harmless when it is active."""
        self._put(self._full)

    def _put(self, state: VerifyState) -> None:
        self._runner.attn_backend = state.attention
        self._runner.decode_cuda_graph_runner = state.graphs
        self.active = state.width

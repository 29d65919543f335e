"""How tensor-parallel ranks come to the same k: a rank alone with its width would hang the rest."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from evict.sglang import compat

EVERY = 64
Agreement = Callable[[Tensor], None]


def agreement(name: str) -> Agreement:
    """What is done with the device's k each step: "broadcast" rank 0's, "assert", or nothing."""
    _, size = compat.ranks()
    return AGREEMENTS[name]() if size > 1 else _trust


def _broadcast(k: Tensor) -> None:
    compat.broadcast_tensor(k)


def _trust(k: Tensor) -> None:
    """Draft logits and cost tables are the same on every rank, hence k."""


class _Compare:
    """Every 64th step, all ranks' k side by side; waits for the device on that step."""

    def __init__(self) -> None:
        self._steps = 0

    def __call__(self, k: Tensor) -> None:
        self._steps += 1
        if self._steps % EVERY:
            return
        found = compat.gather_objects(int(k))
        if len(set(found)) > 1:
            raise RuntimeError(f"ranks chose different verify lengths: {found}")


AGREEMENTS: dict[str, Callable[[], Agreement]] = {
    "broadcast": lambda: _broadcast,
    "assert": _Compare,
    "none": lambda: _trust,
}

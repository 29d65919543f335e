"""How tensor-parallel ranks come to the same k: a rank alone with its width would hang the rest."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from evict.sglang import compat

Agreement = Callable[[Tensor], None]


def agreement(name: str) -> Agreement:
    """What is done with the device's k each step: "broadcast" rank 0's, "assert", or nothing."""
    _, size = compat.ranks()
    return AGREEMENTS[name] if size > 1 else _trust


def _broadcast(k: Tensor) -> None:
    compat.broadcast_tensor(k)


def _trust(k: Tensor) -> None:
    """Draft logits and cost tables are the same on every rank, hence k."""


def _compare(k: Tensor) -> None:
    """RuntimeError in the step whose k differs, before its verification would hang or abort.

    Sees nothing but k (ranks may draft different trees of one length), and waits in every step for
    the device and for all ranks on the host: to find a fault, not to time decoding. Comparing at
    intervals would come too late, as the first verification with two widths is the last.
    """
    found = compat.gather_objects(int(k))
    if len(set(found)) > 1:
        chosen = ", ".join(f"rank {rank}: {length}" for rank, length in enumerate(found))
        raise RuntimeError(f"tensor-parallel ranks chose different verify lengths ({chosen})")


AGREEMENTS: dict[str, Agreement] = {"broadcast": _broadcast, "assert": _compare, "none": _trust}

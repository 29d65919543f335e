"""A CUDA graph on a CPU: operations recorded once and repeated on the same tensors, without Python.

What a captured graph fixes is fixed here: every address, shape and Python value of the capture.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from tests.support.no_sync import NoSync


@dataclass(frozen=True, slots=True, eq=False)
class _Call:
    """One operation; `fresh` are the results it allocated when it was recorded."""

    function: Any
    args: Sequence[Any]
    kwargs: Mapping[str, Any]
    fresh: list[tuple[int, Tensor]]

    def repeat(self) -> None:
        results = tree_leaves(self.function(*self.args, **self.kwargs))
        for place, kept in self.fresh:
            kept.copy_(results[place])


class Tape:
    """The operations of one function.

    Inputs are tensors that stood before: a replay reads what is in them now. Results and what lies
    between are private memory, which other graphs may overwrite (`poison`). Recording refuses
    waits for the device (`NoSync`).
    """

    def __init__(self, function: Callable[[], Any]) -> None:
        self._calls: list[_Call] = []
        self._private: dict[int, Tensor] = {}
        with NoSync(), _Recorder(self._calls, self._private):
            self.result = function()
        self._written = True
        self.poison()

    def replay(self) -> Any:
        """Repeat the operations; the result is the same object every time."""
        self._written = True
        for call in self._calls:
            call.repeat()
        return self.result

    def poison(self) -> None:
        """Overwrite the private memory with what no reader survives: NaN, or no valid index."""
        if self._written:
            for tensor in self._private.values():
                tensor.fill_(_POISON.get(tensor.dtype, float("nan")))
        self._written = False


_POISON = {
    torch.bool: True,
    torch.uint8: 255,
    torch.int32: -(2**31),
    torch.int64: -(2**62),
}


class _Recorder(TorchDispatchMode):
    def __init__(self, calls: list[_Call], private: dict[int, Tensor]) -> None:
        super().__init__()
        self._calls, self._private = calls, private

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        results = func(*args, **kwargs)
        known = set(_storages(tree_leaves((args, kwargs))))
        fresh = [
            (place, one)
            for place, one in enumerate(tree_leaves(results))
            if isinstance(one, Tensor) and _storage(one) not in known
        ]
        for _, one in fresh:
            self._private[_storage(one)] = one
        if fresh or func._schema.is_mutable:
            self._calls.append(_Call(func, args, kwargs, fresh))
        return results


def _storages(values: Iterable[Any]) -> Iterable[int]:
    return (_storage(one) for one in values if isinstance(one, Tensor))


def _storage(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()

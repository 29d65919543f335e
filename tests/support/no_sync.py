"""Refuses, on any device, what a CUDA graph refuses: waits for a value, shapes that hang on one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

READS = {"cpu", "numpy", "tolist", "item", "__array__", "__repr__"}
MAKERS = {"tensor", "as_tensor"}
TAGS = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
INDEXED = {"aten::index", "aten::index_put", "aten::index_put_", "aten::_index_put_impl_"}
COPIES = {"aten::copy_", "aten::_to_copy"}


class HostSync(AssertionError):
    """An operation that makes the host wait for the device."""


class NoSync:
    """Inside `with NoSync():` an operation that would wait for the device raises HostSync.

    Also refused: tensors out of Python numbers (a copy from pageable memory) and Python lists as
    an index. Works on CPU tensors too; there `x.to(device)` of the same device stays allowed,
    a literal "cpu" does not. Waits on streams and events are not seen.
    """

    def __enter__(self) -> NoSync:
        self._modes = ExitStack()
        self._modes.enter_context(_Calls())
        self._modes.enter_context(_Operations())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._modes.__exit__(kind, error, trace)


class _Calls(TorchFunctionMode):
    """What is only visible in the call: on a CPU tensor it needs no operation."""

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name in READS:
            raise HostSync(f"{name} reads a tensor on the host")
        if name in MAKERS and not isinstance(args[0] if args else kwargs.get("data"), Tensor):
            raise HostSync(f"{name} copies host values to the device")
        if name == "to" and _names_host(args, kwargs):
            raise HostSync("to('cpu') reads a tensor on the host")
        if name in ("__getitem__", "__setitem__") and _has_list(args[1]):
            raise HostSync("a list as an index is copied to the device")
        return func(*args, **kwargs)


class _Operations(TorchDispatchMode):
    """What every path in Python or C++ ends in."""

    def __torch_dispatch__(
        self,
        func: Any,
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name
        if name in INDEXED:
            refused = any(t is not None and t.dtype in (torch.bool, torch.uint8) for t in args[1])
        elif name == "aten::repeat_interleave":
            refused = kwargs.get("output_size") is None
        elif name in COPIES:
            refused = _waiting_copy(args, kwargs)
        else:
            refused = bool(TAGS & set(func.tags))
        if refused:
            raise HostSync(f"{func} waits for values on the device")
        with self:  # in inference mode a composite operation arrives whole: look at its parts
            parts = func.decompose(*args, **kwargs)
        return func(*args, **kwargs) if parts is NotImplemented else parts


def _names_host(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    named = [one for one in [*args[1:], kwargs.get("device")] if isinstance(one, str)]
    return any(one.startswith("cpu") for one in named) and not kwargs.get("non_blocking")


def _has_list(index: Any) -> bool:
    return isinstance(index, list) or (
        isinstance(index, tuple) and any(isinstance(one, list) for one in index)
    )


def _waiting_copy(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    tensors = [one for one in args if isinstance(one, Tensor)]
    devices = {one.device.type for one in tensors} | {
        torch.device(kwargs.get("device") or tensors[0].device).type
    }
    waits = not (kwargs.get("non_blocking") or True in args[2:])
    return len(devices) > 1 and waits

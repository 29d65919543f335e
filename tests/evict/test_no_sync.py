"""The referee of "no host sync": what it refuses, and that honest tensor code passes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from tests.support.no_sync import HostSync, NoSync

REFUSED: dict[str, Callable[[Tensor], object]] = {
    "int": lambda x: int(x[0]),
    "float": lambda x: float(x[0]),
    "bool": lambda x: bool(x[0]),
    "if": lambda x: 1 if x.any() else 0,
    "item": lambda x: x[0].item(),
    "tolist": lambda x: x.tolist(),
    "cpu": lambda x: x.cpu(),
    "to cpu": lambda x: x.to("cpu"),
    "to device=cpu": lambda x: x.to(device="cpu", dtype=torch.float32),
    "numpy": lambda x: x.numpy(),
    "asarray": lambda x: np.asarray(x),
    "repr": repr,
    "format": lambda x: f"{x[0]}",
    "mask": lambda x: x[x > 1],
    "mask in a tuple": lambda x: x.view(2, 2)[0, x[:2] > 1],
    "mask put": lambda x: x.__setitem__(x > 1, x[:2].clone()),
    "masked_select": lambda x: torch.masked_select(x, x > 1),
    "nonzero": lambda x: x.nonzero(),
    "argwhere": torch.argwhere,
    "where of one argument": lambda x: torch.where(x > 1),
    "unique": torch.unique,
    "unique of a dimension": lambda x: torch.unique(x, dim=0),
    "unique_consecutive": torch.unique_consecutive,
    "bincount": torch.bincount,
    "repeat_interleave": lambda x: torch.repeat_interleave(x, x),
    "equal": lambda x: torch.equal(x, x.clone()),
    "allclose": lambda x: torch.allclose(x, x),
    "in": lambda x: 3 in x,
    "slice": lambda x: x[: x[1]],
    "scalar index": lambda x: x[x[1]],
    "range": lambda x: range(x[1]),
    "full": lambda x: torch.full((2,), x[1]),
    "list index": lambda x: x[[0, 2]],
    "list put": lambda x: x.__setitem__([0, 2], 1),
    "tensor": lambda x: torch.tensor([1, 2]),
    "as_tensor": lambda x: torch.as_tensor([1, 2]),
}
ALLOWED: dict[str, Callable[[Tensor], object]] = {
    "arithmetic": lambda x: (x * 2 + x[0]).cumsum(0).clamp(max=x[2]),
    "integer index": lambda x: x[torch.arange(2)],
    "slice": lambda x: x[2:].copy_(x[:2]),
    "put": lambda x: x.__setitem__(slice(0, 2), x[2:]),
    "sort": lambda x: x.sort(descending=True, stable=True),
    "argmax": lambda x: x.argmax().to(torch.int32),
    "where": lambda x: torch.where(x > 1, x, 0).masked_fill(x > 2, 7),
    "scatter": lambda x: x.new_zeros(4).scatter_(0, x, 1),
    "same device": lambda x: x.to(x.device),
    "repeat_interleave of known size": lambda x: torch.repeat_interleave(x, x, output_size=6),
    "queued copy": lambda x: torch.empty_like(x).copy_(x, non_blocking=True),
    "shape": lambda x: (len(x), x.shape, x.numel(), x.dtype),
    "unbind": list,
    "as_tensor of a tensor": torch.as_tensor,
}


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", REFUSED)
def test_waits_and_shapes_that_hang_on_values_are_refused(name: str, inference: bool) -> None:
    x = torch.arange(4)
    REFUSED[name](x.clone())  # it runs where nobody watches
    with torch.inference_mode(inference), pytest.raises(HostSync), NoSync():
        REFUSED[name](x)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ALLOWED)
def test_tensor_code_passes(name: str, inference: bool) -> None:
    with torch.inference_mode(inference), NoSync():
        ALLOWED[name](torch.arange(4))


def test_nothing_is_refused_afterwards() -> None:
    with pytest.raises(HostSync), NoSync():
        torch.arange(3).tolist()
    assert torch.arange(3).tolist() == [0, 1, 2]
    with NoSync():
        total = torch.arange(3).sum()
    assert int(total) == 3


@pytest.mark.gpu
def test_copies_between_devices_on_cuda() -> None:
    x, host = torch.arange(4, device="cuda"), torch.empty(4, dtype=torch.int64, pin_memory=True)
    with NoSync():
        host.copy_(x, non_blocking=True)
    for wait in (lambda: host.copy_(x), lambda: x.to(host.device), lambda: host.to("cuda")):
        with pytest.raises(HostSync), NoSync():
            wait()

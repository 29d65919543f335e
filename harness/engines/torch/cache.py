"""Static key-value cache of one sequence: allocated once, written by slot, compacted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from evict.errors import InputError


class KVCache:
    """kv_L2GSD: keys and values of L layers, G heads, S slots. `length` slots are committed."""

    def __init__(
        self, layers: int, heads: int, slots: int, head_dim: int, dtype: torch.dtype, device: str
    ) -> None:
        self.kv_L2GSD = torch.zeros(layers, 2, heads, slots, head_dim, dtype=dtype, device=device)
        self._layers = [(kv[0], kv[1]) for kv in self.kv_L2GSD]
        self.slots = slots
        self.length = 0

    def write(
        self, layer: int, start: int, keys_TGD: Tensor, values_TGD: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Store T rows from slot `start` on; returns keys and values [G, start + T, D]."""
        end = start + keys_TGD.shape[0]
        if end > self.slots:
            raise InputError(
                "the context is full", seen=end, allowed=f"at most {self.slots} tokens"
            )
        keys, values = self._layers[layer]
        keys[:, start:end].copy_(keys_TGD.transpose(0, 1))
        values[:, start:end].copy_(values_TGD.transpose(0, 1))
        return keys[:, :end], values[:, :end]

    def keep(self, path: Sequence[int]) -> None:
        """Commit the nodes `path` of a tree written at `length`, moved to adjacent slots."""
        start, count = self.length, len(path)
        if list(path) != list(range(count)):
            source = torch.tensor(path, device=self.kv_L2GSD.device) + start
            self.kv_L2GSD[:, :, :, start : start + count] = self.kv_L2GSD.index_select(3, source)
        self.length = start + count

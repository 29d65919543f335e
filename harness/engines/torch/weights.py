"""Reading checkpoints: safetensors only, sharded or not, every tensor checked by name and shape."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from evict.errors import InputError


class Checkpoint:
    """Tensors of one checkpoint folder by name, opened lazily."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files = _index(folder)
        self._open: dict[Path, Any] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def take(
        self, name: str, shape: Sequence[int], dtype: torch.dtype | None, device: str = "cpu"
    ) -> Tensor:
        """The named tensor in `dtype` (None keeps the stored one); wrong or missing: InputError."""
        if name not in self._files:
            raise InputError(
                f"checkpoint {self.folder.name} lacks tensor {name!r}",
                seen=f"{len(self._files)} tensors",
                allowed=f"{name} of shape {tuple(shape)}",
            )
        path = self._files[name]
        if path not in self._open:
            self._open[path] = safe_open(path, framework="pt", device="cpu")
        tensor: Tensor = self._open[path].get_tensor(name)
        if tuple(tensor.shape) != tuple(shape):
            raise InputError(
                f"tensor {name!r} of checkpoint {self.folder.name} has the wrong shape",
                seen=tuple(tensor.shape),
                allowed=tuple(shape),
            )
        return tensor.to(device=device, dtype=dtype or tensor.dtype)


def _index(folder: Path) -> dict[str, Path]:
    """Tensor name -> file, from the shard index or from the files themselves."""
    index = folder / "model.safetensors.index.json"
    if index.is_file():
        weight_map: dict[str, str] = json.loads(index.read_text())["weight_map"]
        return {name: _inside(folder, file) for name, file in weight_map.items()}
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise InputError(
            f"checkpoint {folder.name} has no safetensors file",
            seen=sorted(p.name for p in folder.iterdir())[:8],
            allowed="*.safetensors (pickled weights are never loaded)",
        )
    found: dict[str, Path] = {}
    for path in files:
        try:
            with safe_open(path, framework="pt") as handle:
                found.update(dict.fromkeys(handle.keys(), path))
        except SafetensorError as error:
            raise InputError(f"{path.name} is not a valid safetensors file", seen=error) from error
    return found


def _inside(folder: Path, file: str) -> Path:
    path = folder / file
    if path.parent != folder or not path.is_file():
        raise InputError(
            "the shard index names a file that is not in the checkpoint folder",
            seen=file,
            allowed=f"a file in {folder.name}",
        )
    return path

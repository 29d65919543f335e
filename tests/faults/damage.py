"""Ways in which a file comes to harm."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path


def cut_in_half(file: Path) -> None:
    content = file.read_bytes()
    file.write_bytes(content[: len(content) // 2])


def empty(file: Path) -> None:
    file.write_bytes(b"")


def garble(file: Path) -> None:
    """Bytes in the middle that no text holds."""
    _overwrite(file, bytes(range(128, 192)))


def zero(file: Path) -> None:
    """A run of NUL, as a power cut leaves behind."""
    _overwrite(file, bytes(64))


def delete(file: Path) -> None:
    file.unlink()


def _overwrite(file: Path, harm: bytes) -> None:
    content = bytearray(file.read_bytes())
    start = max(0, len(content) // 2 - len(harm) // 2)
    content[start : start + len(harm)] = harm
    file.write_bytes(content)


WAYS: dict[str, Callable[[Path], None]] = {
    "cut": cut_in_half,
    "empty": empty,
    "garbled": garble,
    "zeroed": zero,
    "deleted": delete,
}

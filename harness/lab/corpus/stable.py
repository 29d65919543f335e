"""Choices that are a fixed function of words, the same on every machine and Python version."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def number(*parts: object) -> int:
    """A 64-bit number fixed by the texts of `parts` (first bytes of their sha256)."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def pick(options: Sequence[T], *parts: object) -> T:
    """The option that `parts` decide."""
    return options[number(*parts) % len(options)]


def source(*parts: object) -> random.Random:
    """A random source seeded by the texts of `parts`."""
    return random.Random(number(*parts))

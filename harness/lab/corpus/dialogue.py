"""One chat of the corpus."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Dialogue:
    """A family name and its turns, each a pair (user text, assistant text)."""

    family: str
    turns: tuple[tuple[str, str], ...]

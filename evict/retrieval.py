"""Drafting from tokens seen before: what a store does, and what every rule for one must say."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any, Protocol

from evict.errors import InputError
from evict.tree import Candidates

LIFETIMES = ("request", "session")


class Store(Protocol):
    """Tokens seen so far. Requests follow each other: start, push and retrieve, finish."""

    def start(self, prompt_ids: Sequence[int]) -> None:
        """Begin a request, ending any other: its prompt can be drafted from."""
        ...

    def push(self, token_ids: Sequence[int]) -> None:
        """Take in committed tokens, in the context of those before them."""
        ...

    def finish(self) -> None:
        """End the request and forget what belongs to it alone."""
        ...

    def retrieve(self) -> Candidates:
        """Nodes that may follow the prompt and the pushed tokens, on the CPU; [0] for none.

        Parents come first, siblings differ, and no node scores above its parent.
        """
        ...


class Retrieval(Protocol):
    """A rule for drafting from a store; plain data, made by configuration."""

    @property
    def capacity(self) -> int:
        """Most candidates that one step can create."""
        ...

    @property
    def lifetime(self) -> str:
        """How long a store is kept by whoever asked for it: one "request", or the "session"."""
        ...

    def new_store(self) -> Store:
        """A store that has seen nothing."""
        ...


def check_rule(rule: Any) -> None:
    """InputError unless the lifetime is known and every `int` field of the dataclass is >= 1."""
    if rule.lifetime not in LIFETIMES:
        raise InputError(
            "lifetime of a trie",
            seen=repr(rule.lifetime),
            allowed=" or ".join(LIFETIMES),
            hint="method.growth.lifetime=request",
        )
    for item in fields(rule):
        value = getattr(rule, item.name)
        if item.type in ("int", int) and (type(value) is not int or value < 1):
            raise InputError(
                f"{item.name} of a trie",
                seen=repr(value),
                allowed="a whole number >= 1",
                hint=f"method.growth.{item.name}={item.default}",
            )

"""The one error that bad input raises."""

from __future__ import annotations


class InputError(ValueError):
    """Input that cannot be used: what was wrong, the value seen, the values allowed, what to do.

    Parts that are None are left out of the message; all four stay readable as attributes.
    """

    def __init__(
        self,
        what: str,
        *,
        seen: object = None,
        allowed: object = None,
        hint: str | None = None,
    ) -> None:
        self.what = what
        self.seen = seen
        self.allowed = allowed
        self.hint = hint
        super().__init__(what)

    def __str__(self) -> str:
        parts = (("seen", self.seen), ("allowed", self.allowed), ("try", self.hint))
        given = (f"{name}: {part}" for name, part in parts if part is not None)
        return "; ".join([self.what, *given])

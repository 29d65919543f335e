"""Any public name of a module as an empty class."""

from __future__ import annotations

from collections.abc import Callable


def empty_classes(module: str) -> Callable[[str], type]:
    """A module's `__getattr__`. Error: AttributeError for names that start with two underscores."""

    def lookup(name: str) -> type:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        return type(name, (), {"__module__": module})

    return lookup

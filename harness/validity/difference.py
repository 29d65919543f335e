"""Settings that two configurations do not share, by dotted name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.validity.allowed import may_differ

ABSENT = "absent"


@dataclass(frozen=True)
class Difference:
    """One setting, by dotted name, that two sides resolved differently."""

    name: str
    first: Any
    second: Any


def differ(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Difference]:
    """Settings outside the allow-list in which two nested configurations differ, by name."""
    one, two = dict(flat(first)), dict(flat(second))
    for name in sorted(one.keys() | two.keys()):
        pair = one.get(name, ABSENT), two.get(name, ABSENT)
        if not same(*pair) and not may_differ(name):
            yield Difference(name, *pair)


def flat(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted names and values of nested mappings; an empty mapping is a value."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def same(first: Any, second: Any) -> bool:
    """Whether two settings are equal; a tuple is the list of its items."""
    pair = [list(v) if isinstance(v, list | tuple) else v for v in (first, second)]
    return bool(pair[0] == pair[1])

"""Every method of conf/method as an object, tuned settings at their defaults."""

from __future__ import annotations

from functools import cache

from harness.compose import build_method
from harness.config import known
from harness.engines.base import Method
from tests.support.bench import composed


@cache
def method(entry: str) -> Method:
    """A method by name, or a variant such as `coverage:selection.rho=0.4`."""
    other = "vanilla" if entry != "vanilla" else "evict"
    _, methods = composed(f"method={other}", f"compare=['{entry}']")
    return build_method(methods[1])


def names() -> list[str]:
    """The methods that can decode: all but those that need the target's verdict."""
    return [name for name in known("method") if method(name).scores != "verdict"]

"""What the harness and an engine's process say to each other."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from evict.cost import CostTable
from harness.engines.base import EngineFacts


@dataclass(frozen=True)
class Call:
    """Do this and answer: a method of the engine with its arguments, or "load" with a loader."""

    name: str
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True)
class Loaded:
    """The answer to "load": what is known of the engine without asking again."""

    timed: bool
    own_costs: Sequence[CostTable]
    facts: EngineFacts


@dataclass(frozen=True)
class Progress:
    """A procedure has come so far; its answer is still to come."""

    what: str
    share: float


@dataclass(frozen=True)
class Value:
    """The answer: what the method returned."""

    value: Any


@dataclass(frozen=True)
class OutOfMemory:
    """The answer of a process that ends now: memory ran out, and what else was lost is unknown."""

    what: str


class Unpicklable(Exception):
    """An error that could not cross between processes; its subclasses bear the class's name."""


@dataclass(frozen=True)
class Failed:
    """The answer: the method raised, and the process goes on.

    pickled: the exception, None where it does not come out of pickling as it went in.
    """

    name: str
    message: str
    trace: str
    pickled: bytes | None

    @classmethod
    def of(cls, error: Exception) -> Failed:
        """From the exception that is being handled."""
        trace = "".join(traceback.format_exception(error))
        return cls(type(error).__name__, str(error), trace, _pickled(error))

    def exception(self) -> Exception:
        """The exception again, the other process's trace in its notes."""
        error = _unpickled(self.pickled)
        if error is None:
            error = type(self.name, (Unpicklable,), {})(self.message)
        error.add_note(f"In the engine's process:\n{self.trace}")
        return error


def _pickled(error: Exception) -> bytes | None:
    try:
        body = pickle.dumps(error)
    except Exception:
        return None
    again = _unpickled(body)
    same = type(again) is type(error) and str(again) == str(error)
    return body if same else None


def _unpickled(body: bytes | None) -> Exception | None:
    if body is None:
        return None
    try:
        error = pickle.loads(body)
    except Exception:
        return None
    return error if isinstance(error, Exception) else None

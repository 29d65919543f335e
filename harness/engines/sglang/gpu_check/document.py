"""The JSON that a check leaves: every point with a value or with the reason why it has none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.engines.sglang.gpu_check.budget import Budget

SCHEMA = 1
REASON_CHARACTERS, NOT_REACHED = 1500, "not reached"


@dataclass(frozen=True)
class Point:
    """One open question. weights: the checkpoint that all numbers of its answer come from."""

    name: str
    question: str
    weights: str


POINTS = (
    Point("full_equals_stock", "Does k = N by the plugin give stock EAGLE-3's tokens?", "lab"),
    Point("match_by_width", "At T=0, how many tokens of a forced k equal plain decoding's?", "lab"),
    Point("score_ties", "How often are scores of a real tree exactly equal?", "lab"),
    Point("captures", "What do the graphs of a further verify width cost?", "dummy"),
    Point("step_cost", "What does a step cost at a few verify widths?", "dummy"),
    Point("exposed_gap", "What does reading k cost a step, against stock EAGLE-3?", "dummy"),
)


class Document:
    """The answers so far, on disk after every change. facts: what holds for all of them."""

    def __init__(self, path: Path, facts: Mapping[str, Any], budget: Budget) -> None:
        self._path, self._budget = path, budget
        self.points: dict[str, dict[str, Any]] = {
            point.name: {
                "question": point.question,
                "weights": point.weights,
                "value": None,
                "reason": NOT_REACHED,
            }
            for point in POINTS
        }
        self._content = {"schema": SCHEMA, **facts, "complete": False, "points": self.points}
        self._write()

    def answered(self, name: str) -> bool:
        """Whether the point has a value."""
        return self.points[name]["value"] is not None

    def settle(self, name: str, value: Any, reason: str | None, seconds: float = 0.0) -> None:
        """Put down an answer, or why there is none; a value may come with a reason (a part)."""
        self.points[name] |= {"value": value, "reason": reason, "seconds": round(seconds, 1)}
        self._write()

    def attempt(self, name: str, answer: Callable[[], Any]) -> None:
        """Settle a point by calling `answer`; an error becomes the reason, and the rest goes on.

        An answer that is no JSON, NaN included, is an error.
        """
        began = self._budget.spent()
        value = reason = None
        try:
            self._budget.need(1.0, name)
            found = answer()
            json.dumps(found, allow_nan=False)
            value = found
        except Exception as error:
            reason = reason_of(error)
        self.settle(name, value, reason, self._budget.spent() - began)

    def give_up(self, error: Exception) -> None:
        """Make this error the reason of every point that was not reached."""
        for name, point in self.points.items():
            if point["reason"] == NOT_REACHED:
                self.settle(name, None, reason_of(error))

    def finish(self) -> None:
        """Nothing follows."""
        self._content["complete"] = True
        self._write()

    def _write(self) -> None:
        self._content["spent_s"] = round(self._budget.spent(), 1)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        temporary = self._path.with_name(f".{self._path.name}.{os.getpid()}")
        temporary.write_text(json.dumps(self._content, indent=1, allow_nan=False) + "\n")
        temporary.replace(self._path)


def reason_of(error: BaseException) -> str:
    """What went wrong, kind first; of a long text the beginning and the end."""
    text = f"{type(error).__name__}: {error}"
    if len(text) <= REASON_CHARACTERS:
        return text
    half = REASON_CHARACTERS // 2
    return f"{text[:half]}\n[...]\n{text[-half:]}"

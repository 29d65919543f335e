"""A few generations of every method that are thrown away: what they were, and when they ended."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.clock import Clock
from harness.engines.base import Engine, EngineLost, Method, Request
from harness.identity import input_hash

PHASE = "warmup"


@dataclass
class WarmUp:
    """rows: one per generation, by method (its repr). lost: whose engine was lost, and how."""

    rows: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    lost: dict[str, str] = field(default_factory=dict)


def spans(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """One entry per warm-up of a run: its part, the inputs, and its span on the part's clock."""
    found: dict[tuple[str, float], dict[str, Any]] = {}
    for row in rows:
        key = (str(row["part"]), float(row["began_ms"]))
        span = found.setdefault(key, {"part": key[0], "started_ms": key[1], "prompts": []})
        span["prompts"].append(row["input_hash"])
        span["ended_ms"] = row["ended_ms"]
    return list(found.values())


@dataclass(frozen=True)
class WarmUpPlan:
    """What is generated before measuring: the same requests for every method."""

    requests: Sequence[Request]
    seed: int
    part: str
    clock: Clock

    def run(
        self, engine: Engine, methods: Iterable[Method], prepare: Callable[[Method], None]
    ) -> WarmUp:
        """Every request once with every method; prepare(method) comes before each.

        A method whose engine is lost is named in `lost`; the others go on.
        """
        done, began_ms = WarmUp(), self.clock.now_ms()
        distinct = {repr(method): method for method in methods}
        for request in self.requests:
            for key, method in distinct.items():
                if key in done.lost:
                    continue
                try:
                    prepare(method)
                    engine.generate(request, method, self.seed)
                except EngineLost as error:
                    done.lost[key] = f"{type(error).__name__} in warm-up: {error}"
                else:
                    row = self._row(request, method, began_ms)
                    done.rows.setdefault(key, []).append(row)
        return done

    def _row(self, request: Request, method: Method, began_ms: float) -> dict[str, Any]:
        return {
            "phase": PHASE,
            "part": self.part,
            "began_ms": began_ms,
            "ended_ms": self.clock.now_ms(),
            "method": method.name,
            "prompt_id": request.prompt_id,
            "input_hash": input_hash(request.prompt_ids),
        }

"""Step costs: found among earlier runs when the fingerprint fits, measured otherwise."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from evict.cost import CostTable
from evict.errors import InputError
from harness.engines.base import Engine, Method
from harness.identity import digest
from harness.profiling.cost import fingerprint, growth_name

log = logging.getLogger(__name__)
FILE = "cost_table.json"


class Profiler(Protocol):
    """Measures C(1)..C(N) of a method's growth on an engine, on prompts that are never measured."""

    def __call__(
        self,
        engine: Engine,
        method: Method,
        prompts: Sequence[Sequence[int]],
        seed: int,
        progress: Callable[[str, float], None] | None = None,
    ) -> CostTable:
        """The table, fingerprinted by the engine's facts and the growth."""
        ...


@dataclass(frozen=True)
class CostSource:
    """Where tables come from: below `results`, or measured on `calibration` texts.

    policy: "auto"; "never" raises InputError instead of measuring; "only" always measures.
    given: a file to use instead, still refused by an engine that it does not fit. Tables that come
    with the engine's own input (a recording's) are preferred to others.
    """

    engine: Engine
    profiler: Profiler
    calibration: Sequence[str]
    results: Path
    seed: int
    policy: str
    given: str | None = None
    progress: Callable[[str, float], None] | None = None

    def provide(self, method: Method) -> CostTable:
        """A table for this method's growth and size; a new one is kept below `results`."""
        if self.given is not None:
            return CostTable.load(self.given)
        found = None if self.policy == "only" else self._find(method)
        if found is not None:
            return found
        if self.policy == "never":
            raise InputError(
                f"no cost table fits method {method.name} on this model, engine and machine",
                seen=str(self.results),
                hint="profile=auto, or profile=only to measure nothing else",
            )
        if not self.calibration:
            raise InputError("no calibration prompts to profile on", hint="calibration=file.jsonl")
        encode = self.engine.encode_chat
        ids = [encode([{"role": "user", "content": text}]) for text in self.calibration]
        table = self.engine.carry_out(self.profiler, method, ids, self.seed, progress=self.progress)
        table.save(folder(self.results, table) / FILE)
        return table

    def _find(self, method: Method) -> CostTable | None:
        facts = fingerprint(self.engine, method)
        for table in self.engine.own_costs:
            if table.fingerprint == facts and table.draft_tokens >= method.draft_tokens:
                return table
        return find(self.results, facts, method.draft_tokens)

    def provide_all(self, methods: Iterable[Method]) -> dict[str, CostTable]:
        """One table per growth, large enough for the largest tree of that growth."""
        largest: dict[str, Method] = {}
        for method in sorted(methods, key=lambda one: one.draft_tokens):
            largest[growth_name(method)] = method
        return {growth: self.provide(method) for growth, method in largest.items()}


def find(results: Path, facts: dict[str, str], draft_tokens: int) -> CostTable | None:
    """The newest table below `results` that was measured here and reaches `draft_tokens`."""
    files = sorted(results.glob(f"**/{FILE}"), key=lambda file: file.stat().st_mtime, reverse=True)
    for file in files:
        try:
            table = CostTable.load(file)
            table.check(facts)
        except InputError as error:
            log.info("%s: %s", file, error)
            continue
        if table.draft_tokens >= draft_tokens:
            return table
    return None


def folder(results: Path, table: CostTable) -> Path:
    """Where a table lies that belongs to no run: one place per fingerprint and size."""
    return results / "cost" / digest([table.fingerprint, table.draft_tokens])[:8]

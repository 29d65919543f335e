"""Any engine in a process of its own: a crash or a hang there costs one request here."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from harness.engines.base import (
    EngineFacts,
    Message,
    Method,
    Observer,
    Request,
    RequestTrace,
    Result,
)
from harness.engines.isolated.child import Child, Limits, Load
from harness.engines.isolated.messages import Call, Loaded
from harness.equality import NextTokens
from harness.records import StepRecord

log = logging.getLogger(__name__)


class IsolatedEngine:
    """Passes every call on to the engine that `load` makes in a child process.

    load must be picklable. Times are those that the engine measures there. Errors of the engine
    arrive as they are; EngineLost says that its process crashed, ran out of memory or hung, and
    the call after it loads another, with the same cost table set.
    """

    observable = False

    def __init__(self, load: Load, limits: Limits | None = None) -> None:
        self._load = load
        self._limits = limits or Limits()
        self._cost: CostTable | None = None
        self._child, self._loaded = self._start()
        self.timed: bool = self._loaded.timed
        self.own_costs: Sequence[CostTable] = self._loaded.own_costs

    def describe(self) -> EngineFacts:
        """What the engine said of itself when it was loaded."""
        return self._loaded.facts

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Token ids of the conversation with the generation prompt."""
        ids: list[int] = self._ask("encode_chat", messages)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text of token ids, special tokens left out."""
        text: str = self._ask("decode", ids)
        return text

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        """One generation; an observer stays on this side and is refused."""
        if observer is not None:
            raise InputError(
                "observers do not cross into the engine's process",
                hint="engine.process.isolated=false, or a procedure given to carry_out",
            )
        trace: RequestTrace = self._ask("generate", request, method, seed)
        return trace

    def set_cost(self, cost: CostTable | None) -> None:
        """Use this table from now on, also in processes to come."""
        self._ask("set_cost", cost)
        self._cost = cost

    def together(self, methods: Sequence[Method]) -> list[list[int]]:
        """Positions of methods that can take turns."""
        parts: list[list[int]] = self._ask("together", methods)
        return parts

    def forget(self) -> None:
        """Drop what earlier requests left behind."""
        self._ask("forget")

    def forced_step_times(
        self, method: Method, prompts: Sequence[Sequence[int]], steps: int
    ) -> list[StepRecord]:
        """Records of at least `steps` steps of `method`."""
        records: list[StepRecord] = self._ask("forced_step_times", method, prompts, steps)
        return records

    def top_gap(self, ids: Sequence[int]) -> NextTokens | None:
        """The target's two likeliest next tokens after `ids`."""
        gap: NextTokens | None = self._ask("top_gap", ids)
        return gap

    def read_back(self, method: Method) -> dict[str, str]:
        """What this method really runs with beyond `describe`."""
        found: dict[str, str] = self._ask("read_back", method)
        return found

    def carry_out(
        self,
        procedure: Callable[..., Result],
        *arguments: Any,
        progress: Callable[[str, float], None] | None = None,
    ) -> Result:
        """`procedure` in the engine's process; it counts as hung when it reports no progress."""
        call = Call("carry_out", (procedure, *arguments))
        result: Result = self._running().ask(call, progress)
        return result

    def close(self) -> None:
        """Close the engine and end its process."""
        self._child.close()

    def _ask(self, name: str, *arguments: Any) -> Any:
        return self._running().ask(Call(name, arguments))

    def _running(self) -> Child:
        """The process, a new one after the last was lost: with the same engine in it, and costs."""
        if self._child.over:
            log.info("the engine is loaded again")
            self._child, loaded = self._start()
            if loaded.facts != self._loaded.facts:
                self._child.kill()
                raise InputError(
                    "the engine that was loaded again is another",
                    seen=loaded.facts,
                    allowed=self._loaded.facts,
                )
            if self._cost is not None:
                self._child.ask(Call("set_cost", (self._cost,)))
        return self._child

    def _start(self) -> tuple[Child, Loaded]:
        child = Child(self._limits)
        try:
            return child, child.load(self._load)
        except BaseException:
            child.kill()
            raise

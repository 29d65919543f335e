"""The servers of a check: plain, stock EAGLE-3 and EVICT on one pair of checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from evict.sglang.session import Orders
from harness.engines.sglang.arguments import ALGORITHMS, Kind
from harness.engines.sglang.fleet import Fleet
from harness.engines.sglang.gpu_check.budget import Budget
from harness.engines.sglang.launch import Launch
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.running import Running
from harness.engines.sglang.sampling import Sampling

STEPS, TOPK, DRAFT_TOKENS = 4, 8, 32
GROWTH = {"name": "fixed_depth"}
FULL = {"name": "full"}
PLAIN = Kind()
STOCK = Kind(ALGORITHMS["stock"], STEPS, TOPK, DRAFT_TOKENS)
POLICY = Kind(ALGORITHMS["policy"], STEPS, TOPK, DRAFT_TOKENS)
Record = Mapping[str, Any]


@dataclass
class Starts:
    """Starts of all servers of a check, in order, and the time that the next may take."""

    budget: Budget
    guess_s: float
    seen: list[dict[str, Any]] = field(default_factory=list)

    @contextmanager
    def one(self, name: str) -> Iterator[float]:
        """Start a server within the time that is yielded; OutOfBudget if there is too little."""
        began = self.budget.spent()
        with self.budget.timed("the start of a server", self.guess_s):
            yield max(1.0, self.budget.left())
        self.seen.append({"server": name, "seconds": round(self.budget.spent() - began, 1)})


class Arms:
    """Servers by kind, started when first asked for, at most `live` of them; use with `with`."""

    def __init__(self, launch: Launch, live: int, starts: Starts) -> None:
        self._launch, self._starts = launch, starts
        self._fleet = Fleet(self._start, live)
        self._numbers = count()

    def get(self, kind: Kind) -> Running:
        """The server of this kind."""
        return self._fleet.get(kind, GROWTH if kind == POLICY else None)

    def follow(self, policy: Mapping[str, Any]) -> Running:
        """The EVICT server with this policy in force."""
        running = self.get(POLICY)
        running.order(policy, GROWTH, None)
        return running

    def generate(self, running: Running, prompt: Sequence[int], tokens: int) -> Reply:
        """Exactly that many tokens at temperature 0, from empty caches."""
        running.client.flush_cache()
        sampling = Sampling(max_new_tokens=tokens, ignore_eos=True)
        return running.client.generate(prompt, sampling, f"check-{next(self._numbers)}")

    def __enter__(self) -> Arms:
        return self

    def __exit__(self, *error: object) -> None:
        self._fleet.close()

    def _start(self, kind: Kind, growth: Mapping[str, Any] | None) -> Running:
        with self._starts.one(kind.algorithm or "plain") as limit_s:
            return Running.start(kind, replace(self._launch, ready_timeout_s=limit_s), growth)


def record_trees(running: Running) -> None:
    """Order whole trees of a server that follows its last orders for good: `order` comes before."""
    session = running.session
    state = session.state() if session is not None else None
    if session is None or state is None:
        raise RuntimeError("only an EVICT server records trees")
    orders = Orders(state["epoch"] + 1, state["policy"], GROWTH, {}, record_trees=True)
    session.give(orders)
    running.client.flush_cache()
    session.take()

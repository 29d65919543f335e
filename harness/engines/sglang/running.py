"""One started server with everything that belongs to it: client, session with the worker, proof."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.sglang.config import VARIABLE
from evict.sglang.session import Orders, Session
from harness.engines.sglang.arguments import Kind, Settings, Weights, server_arguments
from harness.engines.sglang.client import Client
from harness.engines.sglang.effective import check_applied, check_publishable, comparable, effective
from harness.engines.sglang.server import Server
from harness.engines.sglang.spec import ServerSpec

PLUGIN_HINT = "pip install -e . in the environment that runs sglang; unset SGLANG_PLUGINS"


@dataclass(frozen=True)
class Launch:
    """How servers are started: settings and weights shared by all kinds, places and time limits.

    folder: logs, plugin configuration, session and read-back of each server lie here. worker:
    settings of the EVICT worker (`evict.sglang.config.EvictConfig`) without policy and session.
    vocab: size of the target's vocabulary; prompts with larger ids are refused.
    """

    settings: Settings
    weights: Weights
    folder: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    worker: Mapping[str, Any] = field(default_factory=dict)
    ready_timeout_s: float = 1200.0
    stop_timeout_s: float = 30.0
    vocab: int | None = None


@dataclass
class Running:
    """A server that answers. session: None for SGLang's own algorithms.

    document: its own account of its configuration, read back after the start.
    """

    server: Server
    client: Client
    document: dict[str, Any]
    session: Session | None = None
    _orders: Orders | None = None
    _cost: CostTable | None = None

    @classmethod
    def start(cls, kind: Kind, launch: Launch, growth: Mapping[str, Any] | None) -> Running:
        """Start and check a server; nothing is left running on any error.

        growth: how the EVICT worker grows trees, as plain data; None for SGLang's own algorithms.
        InputError for arguments that were not applied, or a worker that did not report.
        """
        folder = launch.folder / f"{len(list(launch.folder.glob('*')))}-{kind.algorithm or 'plain'}"
        folder.mkdir(parents=True)
        environment = dict(launch.environment)
        session = None
        if growth is not None:
            session = _session(folder, {**launch.worker, "growth": dict(growth)})
            environment[VARIABLE] = str(folder / "evict.json")
        wanted = server_arguments(kind, launch.settings, launch.weights)
        spec = ServerSpec(
            arguments=wanted,
            log=folder / "server.log",
            environment=environment,
            ready_timeout_s=launch.ready_timeout_s,
            stop_timeout_s=launch.stop_timeout_s,
        )
        server = Server.start(spec)
        try:
            return cls._checked(server, wanted, environment, session, folder, launch.vocab)
        except BaseException:
            server.stop()
            raise

    @classmethod
    def _checked(
        cls,
        server: Server,
        wanted: Mapping[str, Any],
        environment: Mapping[str, str],
        session: Session | None,
        folder: Path,
        vocab: int | None,
    ) -> Running:
        client = Client(server.url, server.api_key, vocab=vocab)
        document = effective(client.server_info())
        (folder / "effective.json").write_text(json.dumps(document, indent=1, default=str))
        check_applied(wanted, document)
        check_publishable(environment, document)
        if session is not None and session.state() is None:
            raise InputError(
                "the EVICT worker left no report: another algorithm of that name is running",
                seen=str(folder),
                hint=PLUGIN_HINT,
            )
        return cls(server, client, document, session)

    def order(
        self,
        policy: Mapping[str, Any],
        growth: Mapping[str, Any],
        cost: CostTable | None,
    ) -> None:
        """Make the worker follow this policy from now on; InputError says why it will not."""
        before = self._orders
        given = (dict(policy), dict(growth))
        if before and given == (before.policy, before.growth) and cost is self._cost:
            return
        costs = {} if cost is None else {"1": cost.to_dict()}
        orders = Orders(before.epoch + 1 if before else 1, *given, costs)
        session = self._need_session()
        session.give(orders)
        self.client.flush_cache()
        state = session.state() or {}
        if state.get("error") or state.get("epoch") != orders.epoch:
            why = state.get("error") or f"it follows epoch {state.get('epoch')}"
            raise InputError("the EVICT worker does not follow its orders", seen=why)
        session.take()
        self._orders, self._cost = orders, cost

    def records(self) -> list[dict[str, Any]]:
        """Step records since the last call; flushes the server's caches."""
        self.client.flush_cache()
        return self._need_session().take()

    def close(self) -> None:
        """Stop the server and everything it started."""
        self.client.close()
        self.server.stop()

    def _need_session(self) -> Session:
        if self.session is None:
            raise RuntimeError("only an EVICT server takes orders and keeps step records")
        return self.session


def _session(folder: Path, settings: Mapping[str, Any]) -> Session:
    (folder / "session").mkdir()
    document = {**settings, "policy": {"name": "full"}, "session": "session"}
    (folder / "evict.json").write_text(json.dumps(document, indent=1))
    return Session(folder / "session")


Start = Callable[[Kind, Mapping[str, Any] | None], Running]


class Fleet:
    """The servers that are up, at most `live` of them: the one unused for longest makes room."""

    def __init__(self, start: Start, live: int) -> None:
        if live < 1:
            raise InputError("servers that may run at once", seen=live, allowed=">= 1")
        self._start, self.live = start, live
        self._running: dict[Kind, Running] = {}
        self._first: tuple[str, dict[str, Any]] | None = None

    def get(self, kind: Kind, growth: Mapping[str, Any] | None) -> Running:
        """The server of this kind, started now if it is not up."""
        running = self._running.pop(kind, None)
        if running is not None and not running.server.alive():
            running.close()
            raise running.server.failure()
        if running is None:
            while len(self._running) >= self.live:
                self._running.pop(next(iter(self._running))).close()
            running = self._start(kind, growth)
            self._compare(kind, running)
        self._running[kind] = running
        return running

    def _compare(self, kind: Kind, running: Running) -> None:
        """InputError, and the server stopped, where more than drafting sets it apart."""
        name = kind.algorithm or "plain"
        if self._first is None:
            self._first = (name, running.document)
        reasons = comparable({self._first[0]: self._first[1], f"{name} (new)": running.document})
        if reasons:
            running.close()
            raise InputError("two servers run with different settings", seen="; ".join(reasons))

    def all(self) -> list[Running]:
        """The servers that are up."""
        return list(self._running.values())

    def close(self) -> None:
        """Stop them all."""
        while self._running:
            self._running.popitem()[1].close()

"""One started server with everything that belongs to it: client, session with the worker, proof."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.sglang.config import VARIABLE
from evict.sglang.session import Orders, Session
from harness.engines.sglang.arguments import Kind, server_arguments
from harness.engines.sglang.client import Client
from harness.engines.sglang.effective import check_applied, check_publishable, effective
from harness.engines.sglang.launch import Launch
from harness.engines.sglang.server import Server
from harness.engines.sglang.spec import ServerSpec

PLUGIN_HINT = "pip install -e . in the environment that runs sglang; unset SGLANG_PLUGINS"


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
            return cls._checked(server, wanted, environment, session, folder, launch)
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
        launch: Launch,
    ) -> Running:
        limit_s = launch.request_timeout_s
        client = Client(server.url, server.api_key, limit_s, vocab=launch.vocab)
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

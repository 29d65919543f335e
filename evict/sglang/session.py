"""How a harness and the worker in SGLang's scheduler process talk: files in one folder.

The harness writes orders.json and asks SGLang to flush its cache; the worker is told of the flush
at a moment when no request runs, reads the orders, appends its step records to steps.jsonl and
answers in state.json. No private call of SGLang is involved, and every tensor-parallel rank sees
the same orders.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from evict.errors import InputError

ORDERS, STATE, STEPS = "orders.json", "state.json", "steps.jsonl"


@dataclass(frozen=True)
class Orders:
    """What the worker shall do from the next flush on.

    epoch: grows with every order; the worker repeats the one it follows. policy: selection as
    plain data (`evict.sglang.policies`). growth: how trees are grown, likewise; empty keeps the one
    in use, another class needs another server. costs: cost tables by batch size ("1", "2", ...), as
    `CostTable.to_dict` writes them; empty keeps the ones in use. record_trees: keep the whole
    tree of every step. record_steps: keep step records at all.
    """

    epoch: int
    policy: dict[str, Any]
    growth: dict[str, Any] = field(default_factory=dict)
    costs: dict[str, dict[str, Any]] = field(default_factory=dict)
    record_trees: bool = False
    record_steps: bool = True


class Session:
    """One folder shared by a harness and the worker of one server."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self._read_bytes = 0

    def give(self, orders: Orders) -> None:
        """Harness: leave orders for the next flush."""
        _replace(self.folder / ORDERS, asdict(orders))

    def orders(self) -> Orders | None:
        """Worker: the latest orders, None where there are none; InputError for spoilt ones."""
        document = _read(self.folder / ORDERS)
        if document is None:
            return None
        try:
            return Orders(**document)
        except TypeError as error:
            raise InputError(f"{ORDERS}: not orders", seen=str(error)) from error

    def report(self, state: Mapping[str, Any]) -> None:
        """Worker: what it follows and runs with."""
        _replace(self.folder / STATE, dict(state))

    def state(self) -> dict[str, Any] | None:
        """Harness: the worker's last report, None before the first."""
        return _read(self.folder / STATE)

    def append(self, records: Iterable[Mapping[str, Any]]) -> None:
        """Worker: add step records; on disk when the call returns."""
        lines = "".join(json.dumps(dict(record)) + "\n" for record in records)
        if lines:
            with (self.folder / STEPS).open("a", encoding="utf-8") as file:
                file.write(lines)

    def take(self) -> list[dict[str, Any]]:
        """Harness: the step records appended since the last call."""
        path = self.folder / STEPS
        if not path.exists():
            return []
        with path.open("rb") as file:
            file.seek(self._read_bytes)
            fresh = file.read()
        whole = fresh[: fresh.rfind(b"\n") + 1]
        self._read_bytes += len(whole)
        return [json.loads(line) for line in whole.splitlines()]


def _replace(path: Path, document: dict[str, Any]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(document), encoding="utf-8")
    temporary.replace(path)


def _read(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise InputError(f"{path}: not JSON", seen=str(error)) from error
    if not isinstance(document, dict):
        raise InputError(f"{path}: no JSON object", seen=type(document).__name__)
    return document

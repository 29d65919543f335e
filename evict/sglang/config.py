"""What the plugin is told: one JSON file, named by the environment variable EVICT_CONFIG.

An environment variable reaches every process that SGLang spawns, a command line of its own would
not. A minimal file: {"costs": {"1": "cost_table.json"}}.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.sglang.policies import growth_of, selection_of

VARIABLE = "EVICT_CONFIG"
NONE = type(None)
WORDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", NONE: "null"}
TYPES: dict[str, tuple[type, ...]] = {
    "policy": (dict,),
    "growth": (dict,),
    "costs": (dict,),
    "tiers": (list, NONE),
    "graph_batches": (list,),
    "agreement": (str,),
    "session": (str, NONE),
    "count_experts": (bool,),
}
AGREEMENTS = ("broadcast", "assert", "none")
HINT = f'export {VARIABLE}=evict.json, with {{"costs": {{"1": "cost_table.json"}}}} in it'


@dataclass(frozen=True)
class EvictConfig:
    """The plugin's settings. Paths are relative to the file that names them.

    policy, growth: see `evict.sglang.policies`. costs: cost table by batch size, a path or the
    table itself; the policy "evict" needs at least one. The table of the next larger batch serves
    a batch in between, and a batch larger than all verifies N nodes. tiers: verify lengths that may
    be chosen, None for all 1..N; N always may. graph_batches: batch sizes for which every tier has
    a CUDA graph; larger batches verify N nodes. agreement: how tensor-parallel ranks agree on k.
    session: folder for orders and step records (`evict.sglang.session`). count_experts: record
    expert unions, in runs that are not timed.
    """

    policy: dict[str, Any] = field(default_factory=lambda: {"name": "evict"})
    growth: dict[str, Any] = field(default_factory=lambda: {"name": "fixed_depth"})
    costs: dict[str, Any] = field(default_factory=dict)
    tiers: tuple[int, ...] | None = None
    graph_batches: tuple[int, ...] = (1,)
    agreement: str = "broadcast"
    session: str | None = None
    count_experts: bool = False

    @classmethod
    def load(cls, environment: Mapping[str, str] = os.environ) -> EvictConfig:
        """Read the file that the environment names; without one, the defaults."""
        place = environment.get(VARIABLE)
        if not place:
            return cls()
        path = Path(place)
        try:
            values = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(
                f"{VARIABLE} names no readable JSON file", seen=f"{place} ({error})", hint=HINT
            ) from error
        return cls.from_dict(values, path.parent)

    @classmethod
    def from_dict(cls, values: Any, folder: Path = Path()) -> EvictConfig:
        """The settings as plain data; InputError for unknown keys."""
        known = [item.name for item in fields(cls)]
        if not isinstance(values, dict) or (wrong := sorted(values.keys() - set(known))):
            seen = ", ".join(wrong) if isinstance(values, dict) else type(values).__name__
            raise InputError(f"{VARIABLE}: unknown settings", seen=seen, allowed=", ".join(known))
        _check_types(values)
        lists = {key: tuple(values[key]) for key in ("tiers", "graph_batches") if values.get(key)}
        settings = cls(**{**values, **lists})
        costs = {batch: _resolved(table, folder) for batch, table in settings.costs.items()}
        session = settings.session and str(folder / settings.session)
        return cls(**{**vars(settings), "costs": costs, "session": session})

    def check(self, steps: int, topk: int, draft_tokens: int) -> None:
        """InputError for anything that could only fail later, in another process."""
        selection = selection_of(self.policy)
        growth_of(self.growth, steps, topk)
        if self.agreement not in AGREEMENTS:
            raise InputError("agreement", seen=self.agreement, allowed=", ".join(AGREEMENTS))
        _check_tiers(self.tiers, draft_tokens)
        sizes = self.graph_batches
        if not sizes or any(type(size) is not int or size < 1 for size in sizes):
            raise InputError("graph_batches", seen=sizes, allowed="at least one size, each >= 1")
        tables = self.cost_tables()
        if selection.needs_cost and not tables and self.session is None:
            raise InputError(
                "the policy evict needs a cost table, and none is configured",
                allowed='"costs": a table by batch size',
                hint=f"python run.py model=.. method=evict profile=only writes one; {HINT}",
            )
        for table in tables.values() or [None]:
            if table is not None or not selection.needs_cost:
                selection.bind(table, draft_tokens)
        if self.session is not None and not Path(self.session).is_dir():
            raise InputError("session folder does not exist", seen=self.session)

    def cost_tables(self) -> dict[int, CostTable]:
        """Cost tables by batch size."""
        return read_costs(self.costs)


def read_costs(costs: Mapping[str, Any]) -> dict[int, CostTable]:
    """Tables by batch size, from paths or plain data; InputError for a size that is none."""
    tables = {}
    for batch, table in costs.items():
        if not re.fullmatch("[1-9][0-9]*", str(batch)):
            raise InputError("costs: batch size", seen=repr(batch), allowed='"1", "2", ...')
        if not isinstance(table, str | Mapping):
            raise InputError("costs: a table", seen=repr(table), allowed="a path or a table")
        read: Any = CostTable.from_dict if isinstance(table, Mapping) else CostTable.load
        tables[int(batch)] = read(table)
        measured = tables[int(batch)].fingerprint.get("setting.batch", str(batch))
        if measured != str(batch):
            raise InputError(
                f"the cost table of batch size {batch} was measured at another", seen=measured
            )
    return dict(sorted(tables.items()))


def _check_types(values: Mapping[str, Any]) -> None:
    for name, value in values.items():
        if not isinstance(value, TYPES[name]):
            allowed = " or ".join(WORDS[kind] for kind in TYPES[name])
            raise InputError(f"{VARIABLE}: {name}", seen=repr(value), allowed=allowed)


def _resolved(table: Any, folder: Path) -> Any:
    return str(folder / table) if isinstance(table, str) else table


def _check_tiers(tiers: tuple[int, ...] | None, draft_tokens: int) -> None:
    for tier in tiers or ():
        if type(tier) is not int or not 1 <= tier <= draft_tokens:
            raise InputError("tiers", seen=tier, allowed=f"whole numbers in 1..{draft_tokens}")

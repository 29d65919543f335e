"""Which policy and which prices the selector follows, from the configuration or from orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.selection import Full, Selection
from evict.sglang.config import read_costs
from evict.sglang.policies import policy_of, selection_of
from evict.sglang.selector import PrefixSelector
from evict.sglang.session import Orders


@dataclass
class Steering:
    """Policy and cost tables in force.

    widths: verify lengths that exist, by batch size. facts: what the worker runs with
    (`evict.sglang.facts`), growth: how it drafts; a table measured with others is refused. epoch: number of the orders followed, 0 before the first;
    error: why the latest orders were not followed.
    """

    selector: PrefixSelector
    widths: Mapping[int, Sequence[int]]
    facts: Mapping[str, str]
    growth: str
    costs: dict[int, CostTable] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    error: str | None = None

    def begin(self, policy: Mapping[str, Any], costs: Mapping[int, CostTable]) -> None:
        """Follow the configuration. A policy whose prices only orders will bring starts as Full."""
        selection = selection_of(policy)
        if selection.needs_cost and not costs:
            selection = Full()
        self._follow(selection, costs)

    def obey(self, orders: Orders) -> None:
        """Follow orders, or keep what is in force and say why in `error`."""
        self.epoch = orders.epoch
        try:
            self._follow(selection_of(orders.policy), read_costs(orders.costs) or self.costs)
            self.error = None
        except InputError as error:
            self.error = str(error)

    def _follow(self, selection: Selection, costs: Mapping[int, CostTable]) -> None:
        for table in costs.values():
            check_facts(table, self.facts, self.growth)
        self.selector.follow(selection, costs if selection.needs_cost else {}, self.widths)
        self.costs, self.policy = dict(costs), policy_of(selection)


def check_facts(table: CostTable, facts: Mapping[str, str], growth: str) -> None:
    """InputError for a table measured under other settings, naming those that differ.

    A table's fingerprint holds the worker's facts under "setting.<name>" and the repr of its
    growth under "growth".
    """
    here = {**{f"setting.{name}": value for name, value in facts.items()}, "growth": growth}
    table.check({**table.fingerprint, **here})

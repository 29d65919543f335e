"""Which policy, growth and prices are in force, from the configuration or from orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import DynamicDepth, Growth
from evict.selection import Full, Selection
from evict.sglang.config import read_costs
from evict.sglang.policies import growth_of, policy_of, selection_of
from evict.sglang.selector import PrefixSelector
from evict.sglang.session import Orders


@dataclass
class Steering:
    """Policy, growth and cost tables in force.

    widths: verify lengths that exist, by batch size. facts: what the worker runs with
    (`evict.sglang.facts`); a table measured under others, or with another growth, is refused.
    epoch: number of the orders followed, 0 before the first; error: why the latest were not.
    """

    selector: PrefixSelector
    widths: Mapping[int, Sequence[int]]
    facts: Mapping[str, str]
    growth: Growth
    costs: dict[int, CostTable] = field(default_factory=dict)
    policy: dict[str, Any] = field(default_factory=dict)
    epoch: int = 0
    error: str | None = None

    def begin(self, policy: Mapping[str, Any], costs: Mapping[int, CostTable]) -> None:
        """Follow the configuration. A policy whose prices only orders will bring starts as Full."""
        selection = selection_of(policy)
        if selection.needs_cost and not costs:
            selection = Full()
        self._follow(selection, self.growth, costs)

    def obey(self, orders: Orders, steps: int, topk: int) -> None:
        """Follow orders, or keep what is in force and say why in `error`."""
        self.epoch = orders.epoch
        try:
            growth = self.growth
            if orders.growth:
                growth = growth_of(orders.growth, steps, topk)
                check_growth(self.growth, growth)
            costs = read_costs(orders.costs) or self.costs
            self._follow(selection_of(orders.policy), growth, costs)
            self.error = None
        except (InputError, TypeError, ValueError) as error:
            self.error = f"{type(error).__name__}: {error}"

    def _follow(self, selection: Selection, growth: Growth, costs: Mapping[int, CostTable]) -> None:
        used = costs if selection.needs_cost else {}
        for table in used.values():
            check_facts(table, self.facts, repr(growth))
        self.selector.follow(selection, used, self.widths)
        self.costs, self.growth, self.policy = dict(costs), growth, policy_of(selection)


def check_growth(before: Growth, after: Growth) -> None:
    """InputError unless only the threshold of dynamic depth differs: graphs depend on the rest."""
    alike = before
    if isinstance(before, DynamicDepth) and isinstance(after, DynamicDepth):
        alike = replace(before, threshold=after.threshold)
    if alike != after:
        raise InputError(
            "this server grows its trees in another way",
            seen=repr(after),
            allowed=repr(before),
            hint="start a server with this growth in its configuration",
        )


def check_facts(table: CostTable, facts: Mapping[str, str], growth: str) -> None:
    """InputError for a table measured under other settings, naming those that differ.

    A table's fingerprint holds the worker's facts under "setting.<name>" and the repr of its
    growth under "growth".
    """
    here = {**{f"setting.{name}": value for name, value in facts.items()}, "growth": growth}
    table.check({**table.fingerprint, **here})

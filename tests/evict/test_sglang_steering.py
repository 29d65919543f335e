"""Orders are followed, or refused with a reason while the policy in force goes on."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import pytest
import torch

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth, Growth
from evict.sglang.selector import PrefixSelector
from evict.sglang.session import Orders
from evict.sglang.steering import Steering

STEPS, TOPK, N = 4, 8, 32
FIXED = FixedDepth(STEPS, TOPK)
FACTS = {"model": "tiny", "attention_backend": "Torch"}
OWN = {"growth": repr(FIXED), **{f"setting.{name}": value for name, value in FACTS.items()}}


def table(size: int = N, changed: Mapping[str, str] = MappingProxyType({})) -> CostTable:
    """C(k) = k^2, so that k = 1 pays best; measured here unless `changed`."""
    step_ms = tuple(float(k**2) for k in range(1, size + 1))
    return CostTable(step_ms, 1.0, (0.0,) * size, fingerprint={**OWN, **changed})


def elsewhere(name: str = "setting.model") -> CostTable:
    return table(changed={name: "another"})


def steering(growth: Growth = FIXED) -> Steering:
    widths = {1: range(1, N + 1)}
    return Steering(PrefixSelector(N, 2, "cpu"), widths, facts=FACTS, growth=growth)


def obey(steered: Steering, epoch: int, policy: dict[str, Any], **orders: Any) -> None:
    steered.obey(Orders(epoch, policy, **orders), STEPS, TOPK)


def chosen(steered: Steering) -> int:
    steered.selector.prepare(1)
    steered.selector.select(torch.full((1, N - 1), 0.5))
    return steered.selector.read()


def in_force(steered: Steering) -> tuple[int, int, str | None]:
    return chosen(steered), steered.epoch, steered.error


def test_orders_are_followed() -> None:
    steered = steering()
    steered.begin({"name": "evict"}, {})
    assert (chosen(steered), steered.policy) == (N, {"name": "full"})
    obey(steered, 1, {"name": "fixed_k", "k": 9})
    assert in_force(steered) == (9, 1, None)
    obey(steered, 2, {"name": "evict"}, costs={"1": table().to_dict()})
    assert in_force(steered) == (1, 2, None)
    assert steered.policy == {"name": "evict", "count_root": True}


def test_orders_without_tables_keep_the_ones_in_use() -> None:
    steered = steering()
    steered.begin({"name": "evict"}, {1: table()})
    assert chosen(steered) == 1
    obey(steered, 1, {"name": "full"})
    assert chosen(steered) == N
    obey(steered, 2, {"name": "evict"})
    assert in_force(steered) == (1, 2, None)


def test_a_table_may_hold_facts_the_worker_does_not_know() -> None:
    steered = steering()
    steered.begin({"name": "evict"}, {1: table(changed={"hostname": "a"})})
    assert chosen(steered) == 1


def test_a_table_measured_elsewhere_is_refused_once_it_is_needed() -> None:
    steered = steering()
    steered.begin({"name": "fixed_k", "k": 9}, {})
    obey(steered, 1, {"name": "full"}, costs={"1": elsewhere().to_dict()})
    obey(steered, 2, {"name": "evict"})
    assert steered.error is not None
    assert "measured elsewhere" in steered.error
    assert (chosen(steered), steered.policy) == (N, {"name": "full"})


EVICT = {"name": "evict"}
REFUSED: dict[str, tuple[dict[str, Any], dict[str, CostTable], str]] = {
    "table of another model": (EVICT, {"1": elsewhere()}, "differing in setting.model"),
    "table of another growth": (EVICT, {"1": elsewhere("growth")}, "differing in growth"),
    "one of two tables": (EVICT, {"1": table(), "2": elsewhere()}, "measured elsewhere"),
    "no table": (EVICT, {}, "without a cost table"),
    "short table": (EVICT, {"1": table(3)}, "shorter"),
    "unknown policy": ({"name": "best"}, {}, "unknown policy; seen: 'best'"),
    "unknown parameter": ({"name": "full", "k": 3}, {}, "seen: k"),
    "k above the tree": ({"name": "fixed_k", "k": 40}, {}, "seen: 40"),
    "batch size": ({"name": "full"}, {"x": table()}, "batch size"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_orders_leave_what_is_in_force(name: str) -> None:
    policy, tables, why = REFUSED[name]
    steered = steering()
    steered.begin({"name": "fixed_k", "k": 9}, {})
    obey(steered, 7, policy, costs={batch: one.to_dict() for batch, one in tables.items()})
    assert steered.error is not None
    assert why in steered.error
    assert in_force(steered)[:2] == (9, 7)
    assert steered.policy == {"name": "fixed_k", "k": 9}
    obey(steered, 8, {"name": "fixed_k", "k": 4})
    assert in_force(steered) == (4, 8, None)


def test_refused_tables_do_not_replace_those_in_use() -> None:
    steered = steering()
    steered.begin({"name": "evict"}, {1: table()})
    obey(steered, 1, {"name": "evict"}, costs={"1": elsewhere().to_dict()})
    obey(steered, 2, {"name": "evict"})
    assert in_force(steered) == (1, 2, None)


@pytest.mark.parametrize("name", ["setting.model", "setting.attention_backend", "growth"])
def test_a_configured_table_of_other_facts_stops_the_start(name: str) -> None:
    with pytest.raises(InputError, match=f"differing in {name}; seen: .*another"):
        steering().begin({"name": "evict"}, {1: elsewhere(name)})


DYNAMIC = {"name": "ddd", "threshold": -1.0, "check_depths": [2, 3]}


def test_the_threshold_of_dynamic_depth_may_change() -> None:
    steered = steering(DynamicDepth(STEPS, TOPK, -1.0, [2, 3]))
    steered.begin({"name": "full"}, {})
    obey(steered, 1, {"name": "full"}, growth=DYNAMIC | {"threshold": -2.5})
    assert steered.error is None
    assert steered.growth == DynamicDepth(STEPS, TOPK, -2.5, [2, 3])
    obey(steered, 2, {"name": "full"})
    assert steered.growth == DynamicDepth(STEPS, TOPK, -2.5, [2, 3])


@pytest.mark.parametrize("growth", [{"name": "fixed_depth"}, DYNAMIC | {"check_depths": [2]}])
def test_another_growth_is_refused_as_a_whole(growth: dict[str, Any]) -> None:
    before = DynamicDepth(STEPS, TOPK, -1.0, [2, 3])
    steered = steering(before)
    steered.begin({"name": "fixed_k", "k": 9}, {})
    obey(steered, 1, {"name": "fixed_k", "k": 4}, growth=growth)
    assert steered.error is not None
    assert "grows its trees in another way" in steered.error
    assert steered.growth == before
    assert chosen(steered) == 9


def test_a_new_threshold_needs_prices_of_its_own() -> None:
    growth = DynamicDepth(STEPS, TOPK, -1.0, [2, 3])
    steered = steering(growth)
    steered.begin({"name": "evict"}, {1: table(changed={"growth": repr(growth)})})
    obey(steered, 1, {"name": "evict"}, growth=DYNAMIC | {"threshold": -2.5})
    assert steered.error is not None
    assert "differing in growth" in steered.error
    assert steered.growth == growth

"""Selection and growth as plain data: what a configuration file or an order names.

{"name": "coverage", "rho": 0.7} stands for `evict.selection.Coverage(rho=0.7)`; the classes and
their checks are those of `evict.selection` and `evict.growth`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any, cast

from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth, Growth
from evict.selection import CostAware, Coverage, Expected, FixedPrefix, Full, Selection

SELECTIONS: dict[str, type[Any]] = {
    "evict": CostAware,
    "coverage": Coverage,
    "fixed_k": FixedPrefix,
    "full": Full,
    "expected": Expected,
}
GROWTHS: dict[str, type[Any]] = {"fixed_depth": FixedDepth, "ddd": DynamicDepth}


def selection_of(policy: Mapping[str, Any]) -> Selection:
    """The selection that `policy` names; InputError for unknown names and parameters."""
    return cast(Selection, _build("policy", SELECTIONS, policy))


def policy_of(selection: Selection) -> dict[str, Any]:
    """Inverse of `selection_of`."""
    return _describe("selection", SELECTIONS, selection)


def growth_of(growth: Mapping[str, Any], steps: int, topk: int) -> Growth:
    """The growth that `growth` names, of this shape: SGLang's arguments hold steps and topk."""
    if isinstance(growth, Mapping) and (own := sorted({"steps", "topk"} & growth.keys())):
        raise InputError(
            "growth repeats what SGLang's arguments say",
            seen=", ".join(own),
            hint="--speculative-num-steps, --speculative-eagle-topk",
        )
    _check_named("growth", GROWTHS, growth)
    values = {**growth, "steps": steps, "topk": topk}
    return cast(Growth, _build("growth", GROWTHS, values))


def describe_growth(growth: Growth) -> dict[str, Any]:
    """Inverse of `growth_of`; steps and topk left out, since SGLang's own arguments hold them."""
    values = _describe("growth", GROWTHS, growth)
    return {key: value for key, value in values.items() if key not in ("steps", "topk")}


def _build(what: str, known: Mapping[str, type[Any]], values: Mapping[str, Any]) -> Any:
    _check_named(what, known, values)
    parameters = dict(values)
    name = parameters.pop("name")
    allowed = {item.name for item in fields(known[name])}
    required = {item.name for item in fields(known[name]) if item.default is MISSING}
    wrong = (parameters.keys() - allowed) | (required - parameters.keys())
    if wrong:
        raise InputError(
            f"{what} {name}: unknown or missing parameters",
            seen=", ".join(sorted(wrong)),
            allowed=", ".join(sorted(allowed)) or "none",
        )
    return known[name](**parameters)


def _check_named(what: str, known: Mapping[str, type[Any]], values: Any) -> None:
    named = isinstance(values, Mapping) and isinstance(values.get("name"), str)
    if not named or values["name"] not in known:
        seen = values.get("name") if isinstance(values, Mapping) else values
        hint = '{"name": "' + next(iter(known)) + '"}'
        raise InputError(f"unknown {what}", seen=repr(seen), allowed=", ".join(known), hint=hint)


def _describe(what: str, known: Mapping[str, type[Any]], value: Any) -> dict[str, Any]:
    for name, kind in known.items():
        if type(value) is kind:
            return {"name": name, **asdict(value)}
    raise InputError(
        f"SGLang's plugin does not know this {what}",
        seen=type(value).__name__,
        allowed=", ".join(kind.__name__ for kind in known.values()),
    )

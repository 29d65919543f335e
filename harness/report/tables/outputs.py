"""Greedy outputs against plain decoding's, and beside them plain decoding against itself."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.equality import KINDS
from harness.report.blocks import method_labels, replicas
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD, each_block
from harness.report.tables.summary import OVERALL, in_order, scopes


def outputs(data: Collection) -> pd.DataFrame:
    """A row per engine, method and benchmark (`all` last) whose outputs were compared.

    pairs of equal input, by kind of difference (harness.equality): equal, near_tie, stop_rule,
    fault. first_divergence: the earliest token at which a pair parts, prefill's being 0. floor,
    floor_pairs: how many outputs of the replica differ from plain decoding's, and of how many.
    These are the evidence of a verdict, so they are shown of invalid runs too.
    """
    try:
        return each_block(data, _outputs)
    except Missing as gap:
        raise Missing(
            "no greedy outputs were compared with plain decoding's; "
            "run: python run.py +experiment=table1 temperature=0"
        ) from gap


def _outputs(block: Collection) -> pd.DataFrame:
    known = block.runs.get("outputs", pd.Series(None, index=block.runs.index, dtype=object))
    compared = in_order(block.runs[known.map(lambda one: isinstance(one, dict))])
    labels, rows = method_labels(block.runs), []
    for scope in scopes(compared) if len(compared) else ():
        inside = compared[compared["benchmark"].isin(scope)]
        floor = _counted(inside[replicas(inside)])
        for method, own in inside.groupby("method_hash", sort=False):
            names = {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
            names |= {"method_label": labels[str(method)]}
            names |= {"benchmark": scope[0] if len(scope) == 1 else OVERALL}
            rows.append(names | _counted(own) | _floor(floor))
    return pd.DataFrame(rows)


def _counted(runs: pd.DataFrame) -> dict[str, Any]:
    found = list(runs["outputs"])
    parted = [
        int(one["first_divergence"])
        for outputs in found
        for one in outputs.get("differences", ())
        if one.get("first_divergence") is not None
    ]
    return {
        "pairs": sum(int(one["pairs"]) for one in found),
        **{kind: sum(int(one["counts"].get(kind, 0)) for one in found) for kind in KINDS},
        "first_divergence": min(parted, default=None),
    }


def _floor(replica: dict[str, Any]) -> dict[str, Any]:
    """None where no replica was compared."""
    pairs = replica["pairs"]
    return {"floor": pairs - replica["equal"] if pairs else None, "floor_pairs": pairs or None}

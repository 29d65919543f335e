"""What happens inside a step: acceptance by position, shares, and what truncation saves."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.counting import Shares, acceptance_histogram, position_rates
from harness.report.blocks import drafting, method_labels
from harness.report.doubt import (
    COUNTS,
    ENDING,
    TIME,
    counts_doubt,
    invalid,
    merged,
    time_doubt,
    withheld,
)
from harness.report.published import paper_reductions
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD, each_block
from harness.report.tables.measures import STAGES, own_steps, ratio, step_means
from harness.report.tables.summary import OVERALL, in_order, scopes

# A column of the steps, and what a doubt about it is about.
MEASURES = {
    "verified_tokens": ("verified", counts_doubt),
    "active_experts": ("expert_union", counts_doubt),
    "verify_latency": ("verify_ms", time_doubt),
}
DOUBT = f"saved{ENDING}"


def acceptance(data: Collection) -> pd.DataFrame:
    """A row per engine, temperature, drafting method and number of accepted drafts, 0 included.

    steps, share: steps that accept exactly so many, as far as a stop rule let them reach the user.
    marginal: share that accept at least so many; conditional: share of those accepting one less.
    length: tokens per step, 1 + sum of marginal, hence exactly Mat. An invalid run leaves one row
    without numbers.
    """
    return each_block(data, _acceptance)


def _acceptance(block: Collection) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    for own, names in _drafting(block, [list(set(block.runs["benchmark"]))]):
        doubt = counts_doubt(own)
        found = _positions(block, own)
        if invalid(doubt):
            found = [withheld(doubt, found[0]) | {"accepted": 0}]
        rows += [names | row | {COUNTS: doubt} for row in found]
    return pd.DataFrame(rows)


def _positions(block: Collection, runs: pd.DataFrame) -> list[dict[str, Any]]:
    """A row per number of accepted drafts, from 0 on."""
    kept = own_steps(block, runs)["committed"] - 1  # a stop rule may cut what was accepted
    histogram = acceptance_histogram(int(n) for n in kept)
    rates, steps = position_rates(histogram), sum(histogram.values())
    marginal, conditional = [1.0, *rates.marginal], [None, *rates.conditional]
    return [
        {
            "accepted": accepted,
            "steps": histogram.get(accepted, 0),
            "share": histogram.get(accepted, 0) / steps,
            "marginal": marginal[accepted],
            "conditional": conditional[accepted],
            "length": rates.length,
        }
        for accepted in range(len(marginal))
    ]


def shares(data: Collection) -> pd.DataFrame:
    """Per step means and shares of every drafting method, per benchmark and over all.

    drafted, accepted count draft nodes; verified counts the root as well (k); committed counts
    tokens. accepted_per_drafted, accepted_per_verified and kept_share leave the root out.
    """
    return each_block(data, _shares)


def _shares(block: Collection) -> pd.DataFrame:
    rows = []
    for own, names in _drafting(block, scopes(block.runs)):
        counted = withheld(counts_doubt(own), _counted(own_steps(block, own)))
        means = step_means(block, own)
        kept = ("experts_per_layer", *(f"{stage}_share" for stage in STAGES), COUNTS, TIME)
        rows.append(names | counted | {name: means[name] for name in kept})
    return pd.DataFrame(rows)


def _counted(steps: pd.DataFrame) -> dict[str, Any]:
    found = Shares(
        drafted=int(steps["drafted"].sum()),
        verified=int(steps["verified"].sum()) - len(steps),
        accepted=int(steps["accepted"].sum()),
        steps=len(steps),
        committed=int(steps["committed"].sum()),
    )
    means = {name: float(steps[name].mean()) for name in ("drafted", "verified", "accepted")}
    return means | {
        "committed": found.tau,
        "accepted_per_drafted": found.accepted_per_drafted,
        "accepted_per_verified": found.accepted_per_verified,
        "kept_share": found.kept_share,
    }


def reductions(data: Collection) -> pd.DataFrame:
    """What each method saves per step against the full tree: 1 - its mean / the full tree's mean.

    A row per engine, temperature, method, benchmark and measure (verified tokens, root included;
    active experts per layer; verify latency in ms). paper: the paper's claim for the method. doubt:
    of either side, about times for the latency and about counts for the rest.
    """
    found = each_block(data, _reductions).merge(
        paper_reductions(), on=["method", "measure"], how="left"
    )
    if found.empty:
        raise Missing("no full-tree run to compare with; run: python run.py +experiment=table1")
    return found


def _reductions(block: Collection) -> pd.DataFrame:
    rows = []
    full = block.runs[block.runs["baseline"] == "full"]
    for own, names in _drafting(block, scopes(block.runs)):
        sides = [own, full[full["benchmark"].isin(set(own["benchmark"]))]]
        steps = [own_steps(block, side) for side in sides]
        if names["baseline"] == "full" or steps[1].empty:
            continue
        for measure, (column, about) in MEASURES.items():
            means = [
                withheld(about(side), {"mean": pd.to_numeric(one[column]).mean()})["mean"]
                for side, one in zip(sides, steps, strict=True)
            ]
            doubt = merged(map(about, sides))
            rows.append(names | {"measure": measure} | _saved(*means) | {DOUBT: doubt})
    return pd.DataFrame(rows)


def _saved(mean: float | None, full: float | None) -> dict[str, Any]:
    saved = None if mean is None or full is None else ratio(full - mean, full)
    return {"mean": mean, "full": full, "saved": saved}


def _drafting(
    block: Collection, where: list[list[str]]
) -> list[tuple[pd.DataFrame, dict[str, Any]]]:
    """The runs of every drafting method in each scope of benchmarks, with its identity."""
    runs, labels = in_order(block.runs), method_labels(block.runs)
    runs = runs[drafting(runs)]
    found = []
    for scope in where:
        for method, own in runs[runs["benchmark"].isin(scope)].groupby("method_hash", sort=False):
            if own_steps(block, own).empty:
                continue
            names = {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
            names |= {"method_label": labels[str(method)]}
            names |= {"benchmark": scope[0] if len(scope) == 1 else OVERALL}
            found.append((own, names))
    return found

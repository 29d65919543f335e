"""Figures by name: a new one is a function that makes its frame, one that draws it, a line here."""

from __future__ import annotations

from harness.report.figures import (
    cost,
    regimes,
    reliability,
    selection,
    speedups,
    tree_size,
    utility,
    verification,
)
from harness.report.figures.cost import cost_curve
from harness.report.figures.style import save
from harness.report.spec import FigureSpec

__all__ = ["FIGURES", "cost_curve", "save"]

_SPECS = (
    FigureSpec(
        "speedups",
        "How much faster EVICT decodes",
        "EVICT's speedup over the whole tree and over plain decoding: geometric mean over prompts "
        "of paired decode times per token, whiskers 95 % interval over prompts (as in the table of "
        "paired speedups). At the dashed line both are equally fast.",
        speedups.frame,
        speedups.draw,
    ),
    FigureSpec(
        "fig1",
        "Experts and step latency against tree size",
        "The best k nodes of the same draft tree are verified at every step of whole inference "
        "runs. Above: distinct experts that one layer activates in a step, mean over layers and "
        "steps, beside what uniform routing would activate. Below: mean whole step, band from the "
        "25 % to the 75 % quantile of the steps; dashed: a plain decode step.",
        tree_size.growth_frame,
        tree_size.draw_growth,
    ),
    FigureSpec(
        "fig2",
        "Where a step's time goes, against tree size",
        "Shares of the summed step time by stage, in the runs of figure 1 and in plain decoding; "
        "the number on a bar is the mean whole step in ms.",
        tree_size.share_frame,
        tree_size.draw_shares,
    ),
    FigureSpec(
        "fig5",
        "Verified nodes, experts and verify latency against Mat",
        "Requests are put into bins of width 0.5 by their own Mat (committed tokens per step); a "
        "mark is the mean over a bin's requests, at the bin's middle. Bins with fewer than "
        f"{verification.FEWEST_PROMPTS} distinct prompts are left out; the CSV has them all.",
        verification.frame,
        verification.draw,
    ),
    FigureSpec(
        "fig6",
        "Decode speed by benchmark and engine",
        "Committed decode tokens per second of decoding, pooled over prompts and repeats. Regimes "
        "of the paper that were not measured here are named under the panels.",
        regimes.frame,
        regimes.draw,
    ),
    FigureSpec(
        "fig7",
        "Score coverage, dynamic depth and a fixed k against EVICT",
        "Speedup over plain decoding, all benchmarks: geometric mean over prompts of paired decode "
        "times per token, whiskers 95 % interval over prompts. Coverage verifies "
        "the smallest prefix with a share ρ of the tree's score; ρ = 1 is the whole tree. Line "
        "and band: EVICT and its interval. Dashed: plain decoding.",
        selection.frame,
        selection.draw,
    ),
    FigureSpec(
        "reliability",
        "Do the draft scores hold?",
        "Share of drafted nodes that the target accepts against their draft score, in bins of "
        "width 0.1; whiskers 95 % Wilson interval, ECE over all bins, the number of nodes in "
        f"brackets. Bins with fewer than {reliability.FEWEST_NODES} nodes are not drawn. The "
        "nodes of a tree are not independent, so the intervals are too narrow.",
        reliability.frame,
        reliability.draw,
    ),
    FigureSpec(
        "regret",
        "What each policy leaves on the recorded trees",
        "Predicted, not measured: 1 - the policy's committed tokens per ms / the best that any "
        "choice of verify lengths reaches on the same trees at the same step costs with the "
        "outcome known, over all benchmarks.",
        utility.regret_frame,
        utility.draw_regret,
    ),
    FigureSpec(
        "k_histogram",
        "Verify lengths chosen by EVICT and in hindsight",
        "Share of recorded steps at which k nodes are verified. Hindsight knows how many nodes "
        "the target will accept; both use the same trees and the same step costs.",
        utility.length_frame,
        utility.draw_lengths,
    ),
    FigureSpec(
        "cost",
        "What a step costs",
        "The cost table that the runs used. Above: whole step C(k) by stage, bars its "
        "interquartile range; dashed: a plain decode step. Below: distinct experts of a layer "
        "in a step, mean over layers, beside uniform routing.",
        cost.frame,
        cost.draw,
    ),
)
FIGURES: dict[str, FigureSpec] = {spec.name: spec for spec in _SPECS}

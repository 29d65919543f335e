"""How each table is laid out for reading. A table without an entry shows its frame as it is."""

from __future__ import annotations

import pandas as pd

from harness.report.cells import (
    BENCHMARK,
    ENGINE,
    METHOD,
    PER_METHOD,
    T,
    benchmark_heads,
    beside_paper,
    by_baseline,
    by_block,
    crossed,
    experiment,
    mat,
    overall,
    plain,
    rates,
    regret,
    share,
    speed,
    speedup,
    stages,
    union_columns,
)
from harness.report.doubt import COUNTS, ENDING, TIME
from harness.report.evidence_layouts import EVIDENCE
from harness.report.layout import Column, Heads, Layout, Rows, as_they_are, number, percent
from harness.report.published import PAPER_BASELINES
from harness.report.shared_doubt import shared_notes
from harness.report.words import doubt_notes, marked, ratio_text


def texts(name: str, frame: pd.DataFrame) -> tuple[Heads, Rows]:
    """Heads and rows of the table `name`."""
    return _layout(name, frame).texts(frame)


def reservations(name: str, frame: pd.DataFrame) -> list[str]:
    """What stands below the table `name`: doubts that all its numbers share, marks in its cells."""
    layout = _layout(name, frame)
    cells = (text for row in layout.texts(frame)[1] for text in row)
    return [*shared_notes(layout.shown(frame)), *doubt_notes(cells)]


def _layout(name: str, frame: pd.DataFrame) -> Layout:
    as_it_is = Layout(tuple(plain(str(column), str(column)) for column in frame.columns))
    return LAYOUTS.get(name, as_it_is)


LAYOUTS: dict[str, Layout] = {
    **EVIDENCE,
    "table1": crossed(*PER_METHOD, cell=speed),
    "table1_speedup": Layout(
        (ENGINE, T, plain("over", "against"), METHOD),
        "benchmark",
        lambda row: ratio_text(row["ratio"], row["low"], row["high"]),
        by_baseline,
        benchmark_heads,
        f"ratio{ENDING}",
    ),
    "table1_paper": crossed(
        *PER_METHOD,
        Column("over", lambda row: PAPER_BASELINES[row["against"]]),
        cell=beside_paper,
    ),
    "mat": crossed(*PER_METHOD, cell=mat),
    "reductions": crossed(
        *PER_METHOD,
        Column("measure", lambda row: row["measure"].replace("_", " ")),
        share("paper", "paper", 1),
        cell=lambda row: percent(row["saved"], 1),
        doubt=f"saved{ENDING}",
    ),
    "regret": crossed(
        T, plain("trees of", "recorded_method", dropped=True), METHOD, cell=regret, doubt=COUNTS
    ),
    "shares": Layout(
        (
            *PER_METHOD,
            plain("drafted", "drafted", "{:.1f}", doubt=COUNTS),
            plain("verified", "verified", "{:.1f}", doubt=COUNTS),
            plain("accepted", "accepted", "{:.2f}", doubt=COUNTS),
            plain("committed", "committed", "{:.2f}", doubt=COUNTS),
            share("accepted/drafted", "accepted_per_drafted", 1, COUNTS),
            share("accepted/verified", "accepted_per_verified", 1, COUNTS),
            share("verified/drafted", "kept_share", 1, COUNTS),
            plain("experts", "experts_per_layer", "{:.1f}", doubt=COUNTS),
            Column("d/v/e/o %", stages, doubt=TIME),
        ),
        shown=overall,
    ),
    "acceptance": Layout(
        (
            *PER_METHOD,
            plain("length", "length", "{:.2f}", doubt=COUNTS),
            plain("share of steps, %", "rate"),
        ),
        "accepted",
        lambda row: percent(row["value"], 1),
        rates,
        lambda values: as_they_are(values.sort_values()),
        COUNTS,
    ),
    "calibration": Layout(
        (
            ENGINE,
            T,
            Column("method", marked, dropped=True),
            BENCHMARK,
            plain("trees", "trees", "{:.0f}"),
            plain("nodes", "nodes", "{:.0f}", doubt=COUNTS),
            plain("mean score", "mean_score", "{:.3f}", doubt=COUNTS),
            plain("accepted", "acceptance_rate", "{:.3f}", doubt=COUNTS),
            plain("ECE", "ece", "{:.4f}", doubt=COUNTS),
            plain("Brier", "brier", "{:.4f}", doubt=COUNTS),
            plain("likely nodes", "nodes_likely", "{:.0f}", doubt=COUNTS),
            plain("ECE, likely", "ece_likely", "{:.4f}", doubt=COUNTS),
        )
    ),
    "replay_check": Layout(
        (
            T,
            METHOD,
            BENCHMARK,
            plain("steps", "steps", "{:.0f}", doubt=COUNTS),
            plain("unmatched", "unmatched", "{:.0f}", doubt=COUNTS),
            plain("k differs", "k_differ", "{:.0f}", doubt=COUNTS),
            plain("accepted differs", "accepted_differ", "{:.0f}", doubt=COUNTS),
            plain("committed differs", "committed_differ", "{:.0f}", doubt=COUNTS),
            plain("Mat live", "mat_live", "{:.4f}", doubt=COUNTS),
            plain("Mat replayed", "mat_replayed", "{:.4f}", doubt=COUNTS),
        )
    ),
    "union": Layout(
        (ENGINE, plain("k", "k", "{:.0f}"), plain("uniform", "uniform", "{:.1f}")),
        "column",
        lambda row: number(row["experts_per_layer"], "{:.1f}"),
        union_columns,
        doubt=COUNTS,
    ),
    "summary": Layout(
        (
            Column("experiment", experiment),
            ENGINE,
            T,
            METHOD,
            plain("tok/s", "decode_tokens_per_s", "{:.1f}", doubt=TIME),
            plain("e2e tok/s", "e2e_tokens_per_s", "{:.1f}", doubt=TIME),
            plain("Mat", "mat", "{:.2f}", doubt=COUNTS),
            plain("k", "mean_k", "{:.1f}", doubt=COUNTS),
            plain("experts", "experts_per_layer", "{:.1f}", doubt=COUNTS),
            Column("d/v/e/o %", stages, doubt=TIME),
            Column("over plain", speedup("plain"), doubt=f"vs_plain{ENDING}"),
            Column("over full tree", speedup("full"), doubt=f"vs_full{ENDING}"),
        ),
        shown=by_block,
    ),
}

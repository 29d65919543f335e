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
    by_rank,
    crossed,
    experiment,
    half_width,
    mat,
    overall,
    percentile,
    plain,
    rates,
    regret,
    share,
    speed,
    speedup,
    stages,
    union_columns,
)
from harness.report.layout import Column, Heads, Layout, Rows, as_they_are, number, percent
from harness.report.published import PAPER_BASELINES
from harness.report.words import marked, ratio_text


def texts(name: str, frame: pd.DataFrame) -> tuple[Heads, Rows]:
    """Heads and rows of the table `name`."""
    as_it_is = Layout(tuple(plain(str(column), str(column)) for column in frame.columns))
    return LAYOUTS.get(name, as_it_is).texts(frame)


LAYOUTS: dict[str, Layout] = {
    "table1": crossed(*PER_METHOD, cell=speed),
    "table1_speedup": Layout(
        (ENGINE, T, plain("over", "against"), METHOD),
        "benchmark",
        lambda row: ratio_text(row["ratio"], row["low"], row["high"]),
        by_baseline,
        benchmark_heads,
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
    ),
    "regret": crossed(T, plain("trees of", "recorded_method", dropped=True), METHOD, cell=regret),
    "shares": Layout(
        (
            *PER_METHOD,
            plain("drafted", "drafted", "{:.1f}"),
            plain("verified", "verified", "{:.1f}"),
            plain("accepted", "accepted", "{:.2f}"),
            plain("committed", "committed", "{:.2f}"),
            share("accepted/drafted", "accepted_per_drafted", 1),
            share("accepted/verified", "accepted_per_verified", 1),
            share("verified/drafted", "kept_share", 1),
            plain("experts", "experts_per_layer", "{:.1f}"),
            Column("d/v/e/o %", stages),
        ),
        shown=overall,
    ),
    "acceptance": Layout(
        (*PER_METHOD, plain("length", "length", "{:.2f}"), plain("share of steps, %", "rate")),
        "accepted",
        lambda row: percent(row["value"], 1),
        rates,
        lambda values: as_they_are(values.sort_values()),
    ),
    "calibration": Layout(
        (
            ENGINE,
            T,
            Column("method", marked, dropped=True),
            BENCHMARK,
            plain("trees", "trees", "{:.0f}"),
            plain("nodes", "nodes", "{:.0f}"),
            plain("mean score", "mean_score", "{:.3f}"),
            plain("accepted", "acceptance_rate", "{:.3f}"),
            plain("ECE", "ece", "{:.4f}"),
            plain("Brier", "brier", "{:.4f}"),
            plain("likely nodes", "nodes_likely", "{:.0f}"),
            plain("ECE, likely", "ece_likely", "{:.4f}"),
        )
    ),
    "replay_check": Layout(
        (
            T,
            METHOD,
            BENCHMARK,
            plain("steps", "steps", "{:.0f}"),
            plain("unmatched", "unmatched", "{:.0f}"),
            plain("k differs", "k_differ", "{:.0f}"),
            plain("accepted differs", "accepted_differ", "{:.0f}"),
            plain("committed differs", "committed_differ", "{:.0f}"),
            plain("Mat live", "mat_live", "{:.4f}"),
            plain("Mat replayed", "mat_replayed", "{:.4f}"),
        )
    ),
    "union": Layout(
        (ENGINE, plain("k", "k", "{:.0f}"), plain("uniform", "uniform", "{:.1f}")),
        "column",
        lambda row: number(row["experts_per_layer"], "{:.1f}"),
        union_columns,
    ),
    "tuning": Layout(
        (
            plain("experiment", "experiment"),
            ENGINE,
            T,
            plain("method", "method_label"),
            plain("setting", "parameter"),
            plain("value", "value"),
        )
    ),
    "spread": Layout(
        (
            *PER_METHOD,
            plain("repeats", "repeats", "{:.0f}"),
            Column("tok/s", half_width),
            plain("steps", "steps", "{:.0f}"),
            percentile("p50"),
            percentile("p90"),
            percentile("p99"),
        ),
        shown=by_rank,
    ),
    "summary": Layout(
        (
            Column("experiment", experiment),
            ENGINE,
            T,
            METHOD,
            plain("tok/s", "decode_tokens_per_s", "{:.1f}"),
            plain("e2e tok/s", "e2e_tokens_per_s", "{:.1f}"),
            plain("Mat", "mat", "{:.2f}"),
            plain("k", "mean_k", "{:.1f}"),
            plain("experts", "experts_per_layer", "{:.1f}"),
            Column("d/v/e/o %", stages),
            Column("over plain", speedup("plain")),
            Column("over full tree", speedup("full")),
        ),
        shown=by_block,
    ),
    "runs": Layout(
        (
            plain("run", "run"),
            plain("status", "status"),
            plain("ok", "requests_ok", "{:.0f}"),
            plain("errors", "requests_error", "{:.0f}"),
            plain("truncated", "truncated_requests", "{:.0f}"),
            share("engine time", "engine_share", 1),
            plain("reasons", "reasons"),
        )
    ),
}

"""Columns and cells that the tables share, and which rows of a frame they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from harness.report.doubt import COUNTS, TIME, doubted, invalid
from harness.report.layout import NONE, Column, Layout, Row, missing, number, percent
from harness.report.tables.each import KEY, benchmark_order
from harness.report.words import benchmark, marked, ratio_text

TOO_FEW = "n too small"


def plain(head: str, name: str, form: str = "{}", **given: Any) -> Column:
    """One number or text of the frame. given: what else a Column takes."""
    return Column(head, lambda row: number(row[name], form), **given)


def share(head: str, name: str, digits: int = 0, doubt: str = "") -> Column:
    """A share in %."""
    return Column(f"{head} %", lambda row: percent(row[name], digits), doubt=doubt)


ENGINE = plain("engine", "engine", dropped=True)
T = plain("T", "temperature", "{:g}")
METHOD = Column("method", marked)
BENCHMARK = Column("benchmark", lambda row: benchmark(row["benchmark"]))
PER_METHOD = (ENGINE, T, METHOD)


def benchmark_heads(values: pd.Series) -> dict[Any, str]:
    """Benchmarks in the paper's order, then the pooled columns."""
    return {name: benchmark(name) for name in benchmark_order(values)}


def by_rank(frame: pd.DataFrame) -> pd.DataFrame:
    """Engines, temperatures, then methods in the order of a paper's table."""
    return frame.sort_values([*KEY, "rank", "method_label"], kind="stable")


def overall(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows over all benchmarks, where there is more than one."""
    several = frame["benchmark"].nunique() > 1
    return by_rank(frame[frame["benchmark"] == "all"] if several else frame)


def by_baseline(frame: pd.DataFrame) -> pd.DataFrame:
    """Engines, temperatures, then what is compared with, then methods by rank."""
    place = frame["role"].map({role: i for i, role in enumerate(("plain", "full", "tuned"))})
    order = [*KEY, "_place", "rank", "method_label"]
    return frame.assign(_place=place).sort_values(order, kind="stable")


def crossed(*columns: Column, cell: Callable[[Row], str], doubt: str = "") -> Layout:
    """Benchmarks across."""
    return Layout(columns, "benchmark", cell, by_rank, benchmark_heads, doubt)


def speed(row: Row) -> str:
    """Tokens per second; on the average also the quotient by plain decoding's."""
    ours = doubted(number(row["tokens_per_s"], "{:.1f}"), row[TIME])
    if row["benchmark"] != "average" or invalid(row[TIME]):
        return ours
    return f"{ours} ({doubted(number(row['over_plain'], '{:.2f}x'), row['over_plain_doubt'])})"


def beside_paper(row: Row) -> str:
    """Our quotient / the paper's."""
    ours = doubted(number(row["ratio"], "{:.2f}"), row["ratio_doubt"])
    return f"{ours} / {number(row['paper_ratio'], '{:.2f}')}"


def mat(row: Row) -> str:
    """Mat (share of the full tree's), then the paper's."""
    kept = doubted(f"{percent(row['retention'])} %", row["retention_doubt"])
    ours = doubted(number(row["mat"], "{:.2f}"), row[COUNTS])
    ours = ours if invalid(row[COUNTS]) else f"{ours} ({kept})"
    paper = f"{number(row['paper_mat'], '{:.2f}')} ({percent(row['paper_retention'])} %)"
    return ours if missing(row["paper_mat"]) else f"{ours} / {paper}"


def regret(row: Row) -> str:
    """Regret in % against the exact bound (against the best ratio of each step)."""
    return f"{percent(row['regret'], 1)} ({percent(row['hindsight_regret'], 1)})"


def stages(row: Row) -> str:
    """Shares of the step time in %."""
    names = ("draft", "verify", "extend", "other")
    return "/".join(percent(row[f"{name}_share"]) for name in names)


def speedup(role: str) -> Callable[[Row], str]:
    """The paired speedup over the baseline with this role, with its interval."""
    name = f"vs_{role}"
    return lambda row: ratio_text(row[name], row[f"{name}_low"], row[f"{name}_high"])


def rates(frame: pd.DataFrame) -> pd.DataFrame:
    """The three rates of each number of accepted drafts below one another: rate, value."""
    words = {"share": "exactly", "marginal": "at least", "conditional": "one more"}
    named = by_rank(frame).rename(columns=words)
    kept = [name for name in named.columns if name not in words.values()]
    long = named.melt(kept, list(words.values()), "rate", "value")
    return by_rank(long)


def union_columns(frame: pd.DataFrame) -> pd.DataFrame:
    """A `column` per temperature, and per recorded method where there are several."""
    recorded = frame["method_label"].nunique() > 1
    labels = frame["method_label"] if recorded else ""
    heads = "T=" + frame["temperature"].map("{:g}".format) + " " + labels
    return frame.assign(column=heads.str.strip())


def experiment(row: Row) -> str:
    """The experiment, and what its times are where they are not measured speeds."""
    kind = " (predicted)" if row["predicted"] else " (trees kept)" if row["recorded"] else ""
    return f"{row['experiment']}{kind}"


def by_block(frame: pd.DataFrame) -> pd.DataFrame:
    """Rows over all benchmarks, block by block."""
    found = overall(frame)
    return found.sort_values(["experiment", *KEY, "settings_hash"], kind="stable")


def half_width(row: Row) -> str:
    """Mean over repeats and the half-width of its interval."""
    mean, half = row["mean_tokens_per_s"], row["half_width"]
    return TOO_FEW if missing(mean) else f"{mean:.1f} +- {half:.1f}"


def change(row: Row) -> str:
    """A change in % with its interval; words instead where it does not matter."""
    interval = f"[{row['low']:+.1f}, {row['high']:+.1f}]"
    return f"{row['over_run']:+.1f} {interval}" if row["shown"] else f"no drift shown {interval}"


def per_hour(row: Row) -> str:
    """A drift per hour, where one is shown."""
    return number(row["per_hour"], "{:+.1f}") if row["shown"] else NONE


def equal_arms(row: Row) -> str:
    """Ratio of two equal arms with its interval, and a word where it leaves out 1."""
    if missing(row["ratio"]):
        return NONE
    if missing(row["low"]) or missing(row["high"]):
        return f"{row['ratio']:.3f}x, 1 prompt"
    word = "holds 1" if row["holds_one"] else "leaves out 1"
    return f"{row['ratio']:.3f}x [{row['low']:.3f}, {row['high']:.3f}] {word}"


def itself(row: Row) -> str:
    """How many outputs of the replica differ, of how many."""
    return NONE if missing(row["floor"]) else f"{row['floor']:.0f} of {row['floor_pairs']:.0f}"


def per_token(row: Row) -> str:
    """Joules per token, or why there are none."""
    return (
        number(row["j_per_token"], "{:.3f}") if not row["energy_reason"] else row["energy_reason"]
    )


def percentile(name: str) -> Column:
    """A percentile of the step time in ms, refused below the number of steps it needs."""

    def text(row: Row) -> str:
        found = number(row[f"{name}_ms"], "{:.2f}")
        return TOO_FEW if found == NONE else found

    return Column(f"{name} ms", text, doubt=TIME)


def reasons(row: Row) -> str:
    """Why a run is not whole, and what speaks against it that does not against all of its block."""
    return "; ".join(text for text in (row["reasons"], row["against"] if row[TIME] else "") if text)

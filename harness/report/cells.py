"""Columns and cells that the tables share, and which rows of a frame they show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from harness.report.layout import NONE, Column, Layout, Row, missing, number, percent
from harness.report.tables.each import KEY, benchmark_order
from harness.report.words import benchmark, marked, ratio_text

TOO_FEW = "n too small"


def plain(head: str, name: str, form: str = "{}", dropped: bool = False) -> Column:
    """One number or text of the frame."""
    return Column(head, lambda row: number(row[name], form), dropped)


def share(head: str, name: str, digits: int = 0) -> Column:
    """A share in %."""
    return Column(f"{head} %", lambda row: percent(row[name], digits))


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


def crossed(*columns: Column, cell: Callable[[Row], str]) -> Layout:
    """Benchmarks across."""
    return Layout(columns, "benchmark", cell, by_rank, benchmark_heads)


def speed(row: Row) -> str:
    """Tokens per second; on the average also the quotient by plain decoding's."""
    over = f" ({number(row['over_plain'], '{:.2f}x')})" if row["benchmark"] == "average" else ""
    return number(row["tokens_per_s"], "{:.1f}") + over


def beside_paper(row: Row) -> str:
    """Our quotient / the paper's."""
    return f"{number(row['ratio'], '{:.2f}')} / {number(row['paper_ratio'], '{:.2f}')}"


def mat(row: Row) -> str:
    """Mat (share of the full tree's), then the paper's."""
    ours = f"{number(row['mat'], '{:.2f}')} ({percent(row['retention'])} %)"
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


def percentile(name: str) -> Column:
    """A percentile of the step time in ms, refused below the number of steps it needs."""

    def text(row: Row) -> str:
        found = number(row[f"{name}_ms"], "{:.2f}")
        return TOO_FEW if found == NONE else found

    return Column(f"{name} ms", text)

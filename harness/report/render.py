"""The summary table on the screen, with every reservation that a reader needs beneath it."""

from __future__ import annotations

import shutil
import sys
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from harness.collection import Collection
from harness.report.blocks import BLOCK
from harness.report.doubt import COUNTS, ENDING, TIME, doubted, invalid
from harness.report.layout import NONE, missing, number, percent
from harness.report.notes import notes
from harness.report.shared_doubt import quiet
from harness.report.tables.summary import ROLES
from harness.report.verdict_notes import baseline_label
from harness.report.words import NO_DIFFERENCE, marked, model_text, ratio_text

__all__ = ["NO_DIFFERENCE", "marked", "notes", "print_summary", "speedup_text", "title"]

WIDTH = 190
COLUMNS = (
    ("tok/s", "decode_tokens_per_s", "{:.1f}", TIME),
    ("e2e tok/s", "e2e_tokens_per_s", "{:.1f}", TIME),
    ("Mat", "mat", "{:.2f}", COUNTS),
    ("k", "mean_k", "{:.1f}", COUNTS),
    ("experts", "experts_per_layer", "{:.1f}", COUNTS),
)
LEGEND = (
    "tok/s: committed decode tokens / decode seconds; Mat: committed tokens per step, without "
    "prefill's; k: nodes verified per step;",
    "experts: distinct experts per MoE layer and step; d/v/e: draft, verify, extend share of a "
    "step in %; vs: geometric mean over prompts",
    "of paired speedups, 95 % interval (wider of BCa and Student's t), (total-time ratio).",
)


def print_summary(table: pd.DataFrame, data: Collection) -> None:
    """One table per block, the legend and the notes, on standard output."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    console = Console(width=width, highlight=False, markup=False, soft_wrap=False)
    if table.empty:
        console.print("no finished runs")
    else:
        for _, block in quiet(table).groupby(BLOCK, sort=False):
            console.print(f"\n{title(block)}")
            console.print(_block(block))
        for line in LEGEND:
            console.print(line, soft_wrap=True)
    for line in notes(table, data):
        console.print(line, soft_wrap=True)


def title(block: pd.DataFrame) -> str:
    """Model, engine, temperature and experiment of a block, and what its times are."""
    first = block.iloc[0]
    prompts = "/".join(dict.fromkeys(block["source"]))
    kind = ", predicted" if first["predicted"] else ", trees kept" if first["recorded"] else ""
    return (
        f"{first['experiment']}: {model_text(str(first['model_label']), bool(first['lab']))}, "
        f"engine {first['engine']}, T={first['temperature']:g}, {prompts} prompts{kind}"
    )


def _block(block: pd.DataFrame) -> Table:
    drawn = Table(box=box.SIMPLE, pad_edge=False)
    drawn.add_column("benchmark")
    drawn.add_column("method", no_wrap=True)
    for name, *_ in COLUMNS:
        drawn.add_column(name, justify="right")
    drawn.add_column("d/v/e %", justify="right", no_wrap=True)
    roles = [role for role in ROLES if _compared(block, role)]
    for role in roles:
        drawn.add_column(f"vs {baseline_label(block, role)}", justify="right")
    before = None
    for row in block.to_dict("records"):
        if before is not None and row["benchmark"] != before:
            drawn.add_section()
        numbers = [
            doubted(number(row[column], form), row[doubt]) for _, column, form, doubt in COLUMNS
        ]
        versus = [speedup_text(row, role) for role in roles]
        name = str(row["benchmark"]) if row["benchmark"] != before else ""
        shares = doubted(_shares(row), row[TIME])
        drawn.add_row(name, marked(row), *numbers, shares, *versus)
        before = row["benchmark"]
    return drawn


def _compared(block: pd.DataFrame, role: str) -> bool:
    """Whether any row of the block has a speedup over this baseline, or had an invalid one."""
    name = f"vs_{role}"
    return bool((block[name].notna() | block[f"{name}{ENDING}"].map(invalid)).any())


def speedup_text(row: dict[Any, Any], role: str) -> str:
    """Ratio, interval and total-time ratio; words instead of a ratio when the interval holds 1.

    The doubt about it instead, or a mark behind it, where there is one.
    """
    return doubted(_ratio(row, role), row[f"vs_{role}{ENDING}"])


def _ratio(row: dict[Any, Any], role: str) -> str:
    name = f"vs_{role}"
    ratio, low, high, total = (row[name + end] for end in ("", "_low", "_high", "_time_ratio"))
    if missing(ratio):
        return NONE
    if missing(low) or missing(high):
        return f"{ratio:.2f}x (total {total:.2f}), 1 prompt"
    return f"{ratio_text(ratio, low, high)} ({total:.2f})"


def _shares(row: dict[Any, Any]) -> str:
    return "/".join(percent(row[f"{stage}_share"]) for stage in ("draft", "verify", "extend"))

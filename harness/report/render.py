"""Tables as text for the screen, with every reservation that a reader needs beneath them."""

from __future__ import annotations

import math
import shutil
import sys
from typing import Any

import pandas as pd
from rich import box
from rich.console import Console
from rich.table import Table

from harness.collect import Collection
from harness.report.tables import BLOCK, ROLES

WIDTH = 190
NO_DIFFERENCE = "no difference shown"
COLUMNS = (
    ("tok/s", "decode_tokens_per_s", "{:.1f}"),
    ("e2e tok/s", "e2e_tokens_per_s", "{:.1f}"),
    ("Mat", "mat", "{:.2f}"),
    ("k", "mean_k", "{:.1f}"),
    ("experts", "experts_per_layer", "{:.1f}"),
)
LEGEND = (
    "tok/s: committed decode tokens / decode seconds; Mat: committed tokens per step, without "
    "prefill's; k: nodes verified per step;",
    "experts: distinct experts per MoE layer and step; d/v/e: draft, verify, extend share of a "
    "step in %; vs: geometric mean over prompts",
    "of paired speedups, 95 % BCa interval, (total-time ratio).",
)


def print_summary(table: pd.DataFrame, data: Collection) -> None:
    """One table per block, the legend and the notes, on standard output."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    console = Console(width=width, highlight=False, markup=False, soft_wrap=False)
    if table.empty:
        console.print("no finished runs")
    else:
        for _, block in table.groupby(BLOCK, sort=False):
            console.print(f"\n{title(block)}")
            console.print(_block(block))
        for line in LEGEND:
            console.print(line, soft_wrap=True)
    for line in notes(table, data):
        console.print(line, soft_wrap=True)


def title(block: pd.DataFrame) -> str:
    """Model, engine, temperature and experiment of a block; a lab model is called one."""
    first = block.iloc[0]
    label = str(first["model_label"])
    if first["lab"] and "lab model" not in label:
        label = f"{label} (lab model)"
    prompts = "/".join(dict.fromkeys(block["source"]))
    scores = "calibrated draft scores" if block["calibrated"].any() else "raw draft scores"
    return (
        f"{first['experiment']}: {label}, engine {first['engine']}, T={first['temperature']:g}, "
        f"{prompts} prompts, {scores}"
    )


def _block(block: pd.DataFrame) -> Table:
    drawn = Table(box=box.SIMPLE, pad_edge=False)
    drawn.add_column("benchmark")
    drawn.add_column("method", no_wrap=True)
    for name, _, _ in COLUMNS:
        drawn.add_column(name, justify="right")
    drawn.add_column("d/v/e %", justify="right", no_wrap=True)
    roles = [role for role in ROLES if f"vs_{role}" in block and block[f"vs_{role}"].notna().any()]
    for role in roles:
        drawn.add_column(f"vs {_baseline_label(block, role)}", justify="right")
    before = None
    for row in block.to_dict("records"):
        if before is not None and row["benchmark"] != before:
            drawn.add_section()
        numbers = [_number(row[column], form) for _, column, form in COLUMNS]
        versus = [speedup_text(row, role) for role in roles]
        name = str(row["benchmark"]) if row["benchmark"] != before else ""
        drawn.add_row(name, marked(row), *numbers, _shares(row), *versus)
        before = row["benchmark"]
    return drawn


def marked(row: dict[Any, Any]) -> str:
    """The method's label; * calibrated scores, ! may change the output distribution."""
    flags = ("*" if row["calibrated"] else "") + ("" if row["lossless"] else "!")
    return f"{row['method_label']} {flags}".strip()


def speedup_text(row: dict[Any, Any], role: str) -> str:
    """Ratio, interval and total-time ratio; words instead of a ratio when the interval holds 1."""
    name = f"vs_{role}"
    ratio, low, high, total = (row[name + end] for end in ("", "_low", "_high", "_time_ratio"))
    if _missing(ratio):
        return "-"
    if _missing(low):
        return f"{ratio:.2f}x (total {total:.2f}), 1 prompt"
    shown = NO_DIFFERENCE if low <= 1.0 <= high else f"{ratio:.2f}x"
    return f"{shown} [{low:.2f}, {high:.2f}] ({total:.2f})"


def notes(table: pd.DataFrame, data: Collection) -> list[str]:
    """What qualifies the numbers: lab model, marks, gaps, exclusions, the harness's own time."""
    lines: list[str] = []
    if len(table):
        lines += _method_notes(table) + _pair_notes(table)
        lines += _run_notes(data.runs)
    if data.unfinished:
        lines.append(f"unfinished, left out: {len(data.unfinished)}")
        lines += [f"  {name}" for name in data.unfinished]
    return lines


def _method_notes(table: pd.DataFrame) -> list[str]:
    lines = []
    if table["lab"].any():
        lines.append("lab model: real routing and acceptance, not the paper's models or speeds.")
    if table["calibrated"].any():
        lines.append("*: draft scores calibrated by the factor fitted while profiling.")
    if not table["lossless"].all():
        lines.append("!: not lossless, may change the output distribution.")
    return lines


def _pair_notes(table: pd.DataFrame) -> list[str]:
    lines = []
    for role in ROLES:
        label = _baseline_label(table, role)
        single = table[table["benchmark"] != "all"]
        excluded = int(single[f"vs_{role}_excluded"].sum())
        if excluded:
            lines.append(f"vs {label}: {excluded} generations without a usable partner left out.")
        if (table[f"vs_{role}_interleaved"].dropna() < 1).any():
            lines.append(f"vs {label}: not all pairs were measured interleaved in one process.")
        exact = single[(single["temperature"] == 0) & single["lossless"]]
        different = int(exact[f"vs_{role}_different"].sum())
        if different:
            lines.append(f"vs {label}: {different} greedy outputs differ from the baseline's.")
    return lines


def _run_notes(runs: pd.DataFrame) -> list[str]:
    lines = []
    truncated = int(runs["truncated_requests"].sum())
    if truncated:
        lines.append(f"{truncated} prompts were truncated to fit the context.")
    for row in runs[runs["reasons"].map(len) > 0].to_dict("records"):
        lines.append(f"{row['run']}: {row['status']}: {'; '.join(row['reasons'])}")
    wall = float(runs["wall_ms"].sum())
    if wall:
        outside = 100 * (1 - float(runs["engine_ms"].sum()) / wall)
        lines.append(f"time outside the engine: {outside:.1f} % of the measured part.")
    return lines


def _baseline_label(table: pd.DataFrame, role: str) -> str:
    found = table.loc[table["baseline"] == role, "method_label"]
    return str(found.iloc[0]) if len(found) else role


def _shares(row: dict[Any, Any]) -> str:
    values = [row[f"{stage}_share"] for stage in ("draft", "verify", "extend")]
    return "/".join("-" if _missing(value) else f"{100 * value:.0f}" for value in values)


def _number(value: Any, form: str) -> str:
    return "-" if _missing(value) else form.format(value)


def _missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))

"""How methods, benchmarks, speedups and models are written, on the screen and on paper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.report.doubt import INVALID, MARK
from harness.report.layout import NONE, missing

NO_DIFFERENCE = "no difference shown"
MARKS = {"draft": "", "beta": "*", "isotonic": "*", "verdict": "^"}
BENCHMARK_LABELS = {
    "alpaca": "Alpaca",
    "gsm8k": "GSM8K",
    "humaneval": "HumanEval",
    "qa": "QA",
    "mt_bench": "MT-Bench",
    "cnn_dm": "CNN/DM",
    "average": "average",
    "all": "all",
}
MARK_NOTES = {
    "*": "*: draft scores corrected by what profiling fitted (beta or an isotonic map).",
    "^": "^: chooses with each step's outcome known; an upper bound, no method.",
    "!": "!: not lossless, may change the output distribution.",
}
UNKNOWN_NOTE = f"{MARK}: unknown; nothing shows that the number is right, see the verdicts on runs."
INVALID_NOTE = "invalid: the number is not shown and enters no average; the code says why."


def marked(row: dict[Any, Any]) -> str:
    """The method's label with its marks, see MARK_NOTES."""
    return f"{row['method_label']} {marks(row)}".strip()


def marks(row: dict[Any, Any]) -> str:
    """* corrected scores, ^ hindsight, ! may change the output distribution."""
    return MARKS.get(row["scores"], "*") + ("" if row["lossless"] else "!")


def doubt_notes(cells: Iterable[str]) -> list[str]:
    """What the doubts that stand in these cells mean."""
    shown = list(cells)
    marked_ones = any(f" {MARK}" in text for text in shown)
    invalid_ones = any(f"{INVALID}: " in text for text in shown)
    return [UNKNOWN_NOTE] * marked_ones + [INVALID_NOTE] * invalid_ones


def benchmark(name: Any) -> str:
    """The benchmark's name as people write it."""
    return BENCHMARK_LABELS.get(str(name), str(name))


def ratio_text(ratio: Any, low: Any, high: Any) -> str:
    """Ratio and interval; words instead of a ratio when the interval holds 1."""
    if missing(ratio):
        return NONE
    if missing(low) or missing(high):
        return f"{ratio:.2f}x, 1 prompt"
    shown = NO_DIFFERENCE if low <= 1.0 <= high else f"{ratio:.2f}x"
    return f"{shown} [{low:.2f}, {high:.2f}]"


def model_text(label: str, lab: bool) -> str:
    """The model's label; a lab model is called one."""
    return f"{label} (lab model)" if lab and "lab model" not in label else label

"""A paired comparison as columns, with the doubt about it and about the runs on its two sides."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.doubt import ENDING, VALID, invalid, merged, said, time_doubt, withheld
from harness.report.tables.versus import Generations, Versus, versus

NUMBERS = ("", "_low", "_high", "_time_ratio")
# Says only that a run is invalid: the run's own codes say why.
RUN_INVALID = "run_invalid"


def compared(
    found: Collection | Generations, runs: pd.DataFrame, baselines: pd.DataFrame, name: str
) -> dict[str, Any]:
    """`Versus.row(name)` of the comparison, and `<name>_doubt`; an invalid one has no ratio."""
    result = versus(found, runs, baselines)
    row, doubt = result.row(name), _doubt(result, runs, baselines)
    numbers = withheld(doubt, {f"{name}{end}": row[f"{name}{end}"] for end in NUMBERS})
    return row | numbers | {f"{name}{ENDING}": doubt}


def _doubt(result: Versus, runs: pd.DataFrame, baselines: pd.DataFrame) -> str:
    """Of the comparison, with the codes of an invalid run in place of the word that one is."""
    if not result.made:
        own = time_doubt(runs)
        return VALID if invalid(own) else own
    state, codes = result.verdict.state, result.verdict.codes
    if RUN_INVALID not in codes:
        return said(state, codes)
    sides = [runs, baselines[baselines["benchmark"].isin(set(runs["benchmark"]))]]
    own = merged(doubt for doubt in map(time_doubt, sides) if invalid(doubt))
    rest = [code for code in codes if code != RUN_INVALID or not own]
    return merged([own, said(state, rest)]) if rest else own

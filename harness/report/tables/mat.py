"""Mean accepted tokens (Mat) beside the paper's (its tables 2 to 4)."""

from __future__ import annotations

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import drafting
from harness.report.doubt import COUNTS
from harness.report.published import paper_mat
from harness.report.tables.each import each_block, same_average, with_average
from harness.report.tables.speed import over
from harness.report.tables.summary import summary


def mat(data: Collection) -> pd.DataFrame:
    """mat of every drafting method per engine, temperature and benchmark, `average` the mean.

    Committed decode tokens / steps. retention: share of the full tree's mat, in doubt where either
    is. paper_mat, paper_retention: the paper's, where it has the method and the temperature.
    """
    ours = each_block(data, _mats)
    theirs = paper_mat(str(data.runs["model"].iloc[0]))
    found = ours.merge(theirs, on=["temperature", "method", "benchmark"], how="left")
    paper = ["paper_mat", "paper_retention"]
    found[paper] = found[paper].where(same_average(found), axis=0)
    return found


def _mats(block: Collection) -> pd.DataFrame:
    found = summary(block, speedups=False)
    rows = with_average(found[drafting(found)], "mat", COUNTS)
    return rows.join(over(rows, "mat", COUNTS, "full", "retention"))

"""A table over the main blocks of a model: one per engine and temperature, below one another."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import engines, main_block, temperatures
from harness.report.doubt import merged
from harness.report.spec import Missing

KEY = ["engine", "temperature"]
METHOD = ["rank", "method", "method_label", "scores", "lossless", "baseline"]
AVERAGE = "average"
BENCHMARKS = ("alpaca", "gsm8k", "humaneval", "qa", "mt_bench", "cnn_dm")


def main_blocks(data: Collection) -> list[Collection]:
    """The main block of every engine and temperature that has one; Missing where none has."""
    found: list[Collection] = []
    reason = "no timing run; run: python run.py +experiment=table1"
    for engine in engines(data):
        for temperature in temperatures(data, engine):
            try:
                found.append(main_block(data, engine, temperature))
            except Missing as gap:
                reason = str(gap)
    if not found:
        raise Missing(reason)
    return found


def each_block(data: Collection, build: Callable[[Collection], pd.DataFrame]) -> pd.DataFrame:
    """`build` of every main block; Missing where nothing comes out."""
    frames = [frame for frame in map(build, main_blocks(data)) if len(frame)]
    if not frames:
        raise Missing("no drafting method in it; run: python run.py +experiment=table1")
    return pd.concat(frames, ignore_index=True)


def benchmark_order(names: Iterable[str]) -> list[str]:
    """The paper's order, then others by name, then the pooled columns."""
    last = ("all", AVERAGE)
    found = set(names)
    known = [name for name in BENCHMARKS if name in found]
    others = sorted(found - set(known) - set(last))
    return known + others + [name for name in last if name in found]


def with_average(rows: pd.DataFrame, value: str, doubt: str) -> pd.DataFrame:
    """Single benchmarks and, as in the paper, their unweighted mean as benchmark `average`.

    A method that lacks a value on some benchmark of its block has no average, and one with an
    invalid value an invalid one. doubt: the column that qualifies `value`.
    """
    single = rows[rows["benchmark"] != "all"]
    single = single.assign(**{value: pd.to_numeric(single[value])})
    keep, averages = [*KEY, *METHOD, "benchmark", value, doubt], []
    for _, block in single.groupby(KEY, sort=False):
        benchmarks = block["benchmark"].nunique()
        for _, own in block.groupby("method_label", sort=False):
            found = merged(own[doubt])
            whole = own[value].count() == benchmarks  # an invalid one is missing
            average = {"benchmark": AVERAGE, value: own[value].mean() if whole else None}
            averages.append(own.iloc[0].to_dict() | average | {doubt: found})
    return pd.concat([single[keep], pd.DataFrame(averages)[keep]], ignore_index=True)


def same_average(rows: pd.DataFrame) -> pd.Series:
    """Whether a row may stand beside the paper's: its average is over the same six benchmarks."""
    single = rows[rows["benchmark"] != AVERAGE]
    found = single.groupby(KEY)["benchmark"].agg(lambda names: set(names) == set(BENCHMARKS))
    whole = rows[KEY].merge(found.rename("whole"), on=KEY, how="left")["whole"].to_numpy()
    return (rows["benchmark"] != AVERAGE) | whole.astype(bool)

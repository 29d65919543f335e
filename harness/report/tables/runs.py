"""About the runs themselves: what was tuned, how far repeats spread, which run to trust."""

from __future__ import annotations

from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import method_labels
from harness.report.doubt import TIME, invalid, time_doubt, withheld
from harness.report.spec import Missing
from harness.report.tables.each import KEY, METHOD, each_block
from harness.report.tables.measures import good_requests, is_speed, own_steps, ratio
from harness.report.tables.rates import peak_speed
from harness.report.tables.summary import in_order
from harness.stats import mean_interval, percentile

PERCENTILES = (50, 90, 99)


def tuning(data: Collection) -> pd.DataFrame:
    """Settings chosen on calibration prompts: one per experiment, engine, temperature, row."""
    rows = [
        {name: run[name] for name in ("experiment", *KEY, "rank", "method", "method_label")}
        | {"parameter": name, "value": run["parameters"].get(name)}
        for run in data.runs.to_dict("records")
        for name in run["tuned"]
    ]
    if not rows:
        raise Missing("no method with a tuned setting; run: python run.py +experiment=table1")
    order = ["experiment", *KEY, "rank", "method_label", "parameter"]
    found = pd.DataFrame(rows).assign(value=[f"{row['value']:g}" for row in rows])
    return found.drop_duplicates().sort_values(order).reset_index(drop=True)


def spread(data: Collection) -> pd.DataFrame:
    """Decode speed by repeat and percentiles of the step time, over all benchmarks of a method.

    mean_tokens_per_s and half_width: 95 % Student-t interval over whole repeats, None below two.
    peak_tokens_per_s: in the busiest second of any generation. p50_ms, p90_ms, p99_ms: of all
    steps; None where there are too few (100 for p99). None of these of an invalid run.
    """
    return each_block(data, _spread)


def _spread(block: Collection) -> pd.DataFrame:
    rows: list[dict[str, Any]] = []
    labels = method_labels(block.runs)
    for method, own in in_order(block.runs).groupby("method_hash", sort=False):
        if not is_speed(own):
            continue
        times = own_steps(block, own)["total_ms"].dropna().tolist()
        speeds = _by_repeat(block, own)
        interval, doubt = mean_interval(speeds) or (None, None), time_doubt(own)
        numbers = dict(zip(("mean_tokens_per_s", "half_width"), interval, strict=True))
        numbers |= {"peak_tokens_per_s": peak_speed(block, own)}
        numbers |= {f"p{q}_ms": percentile(times, q) for q in PERCENTILES}
        rows.append(
            {name: own.iloc[0][name] for name in (*KEY, *METHOD)}
            | {"method_label": labels[str(method)], "repeats": len(speeds), "steps": len(times)}
            | withheld(doubt, numbers)
            | {TIME: doubt}
        )
    return pd.DataFrame(rows)


def _by_repeat(block: Collection, runs: pd.DataFrame) -> list[float]:
    rows = good_requests(block, runs)
    sums = rows.groupby("repeat")[["decode_tokens", "decode_ms"]].sum()
    found = (ratio(1e3 * tokens, ms) for tokens, ms in sums.itertuples(index=False))
    return [speed for speed in found if speed is not None]


def runs(data: Collection) -> pd.DataFrame:
    """Every run and its verdict: what speaks against it, requests, the engine's time share.

    verdict: valid, or the doubt about the run. reasons: of its status, then of its verdict.
    """
    copied = ["run", "experiment", *KEY, "benchmark", "method_label", "status"]
    counts = ["requests_ok", "requests_error", "truncated_requests"]
    if data.runs.empty:
        raise Missing("no finished run; run: python run.py")
    found = data.runs[[*copied, *counts, "recorded"]].copy()
    found[TIME] = [time_doubt(data.runs.iloc[[i]]) for i in range(len(found))]
    found["verdict"] = [doubt or "valid" for doubt in found[TIME]]
    shares = data.runs["engine_ms"] / data.runs["wall_ms"].where(data.runs["wall_ms"] > 0)
    found["engine_share"] = shares.where(~found[TIME].map(invalid))
    found["reasons"] = data.runs["reasons"].map("; ".join)
    found["against"] = _against(data.runs)
    return found.sort_values("run").reset_index(drop=True)


def _against(runs: pd.DataFrame) -> list[str]:
    """The reasons of each verdict in words, without the state before them."""
    if "verdict_text" not in runs:
        return [""] * len(runs)
    return [str(text).partition(": ")[2] for text in runs["verdict_text"]]

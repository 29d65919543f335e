"""A verdict for every run of a collection, from its files alone."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.stats import Speedup
from harness.validity import cache, clocks, counts, inputs, load, sampling, times
from harness.validity.floor import floor
from harness.validity.verdict import Reason, Verdict
from harness.validity.view import RunView, views

# Runs of one command line, whatever their method and benchmark.
BLOCK = ["experiment", "settings_hash"]
Rule = Callable[[RunView], Iterable[Reason]]

# One rule, one code. A new one is a function in the file of its noun, and its name here.
OF_COUNTS: tuple[Rule, ...] = (
    inputs.warmup_prompt_measured,
    counts.counters_inconsistent,
    counts.counters_missing,
    counts.experts_out_of_bounds,
    sampling.always_greedy,
    inputs.outputs_differ,
    counts.mat_near_one,
    counts.partial,
)
# They do not apply where no time is a speed: kept trees, and engines that run no model.
OF_TIMES: tuple[Rule, ...] = (
    times.not_recorded,
    times.mixed_session,
    times.warmup_overlap,
    cache.warm_prefix_cache,
    cache.prefix_cache_unknown,
    load.foreign_gpu_process,
    load.cpu_load,
    load.cpu_load_unknown,
    clocks.no_gpu_telemetry,
    clocks.few_busy_samples,
    clocks.throttled,
)


def judge(data: Collection) -> Collection:
    """The collection with its verdicts as columns of `runs`; cheap, so that reports ask anew.

    verdict, counts_verdict: valid | invalid | unknown, of the whole run and of its counts alone.
    verdict_codes, counts_codes: what makes them so. verdict_text: all reasons in words.
    For comparisons: gpu_clock_mhz, the median over busy samples, and floor_low, floor_high, what
    two equal arms of the run's block show (None where no baseline was measured twice).
    """
    seen = dict(views(data)) if len(data.runs) else {}
    judged = {run: judge_run(view) for run, view in seen.items()}
    runs = [str(run) for run in data.runs["run"]] if seen else []
    verdicts = [judged[run] for run in runs]
    used = [seen[run].usage for run in runs]
    columns: dict[str, list[Any]] = {
        "verdict": [one.state for one in verdicts],
        "counts_verdict": [one.counts_state for one in verdicts],
        "verdict_codes": [one.codes for one in verdicts],
        "counts_codes": [_of_counts(one).codes for one in verdicts],
        "verdict_text": [one.text() for one in verdicts],
        "gpu_clock_mhz": [None if one is None else one.gpu_clock_mhz for one in used],
    }
    found = replace(data, runs=data.runs.assign(**_series(columns, data.runs.index)))
    return replace(found, runs=found.runs.assign(**_series(_floors(found), data.runs.index)))


def judge_run(view: RunView) -> Verdict:
    """All reasons against one run."""
    rules = (*OF_COUNTS, *(OF_TIMES if view.timed else ()))
    return Verdict.of(*(rule(view) for rule in rules))


def _floors(data: Collection) -> dict[str, list[Any]]:
    """The interval of a replica over its baseline, for every run of the same block."""
    known: dict[str, Speedup] = {}
    again = pd.to_numeric(data.runs["replica"]) > 0 if "replica" in data.runs else pd.Series([])
    if again.any():
        for _, block in data.runs.groupby(BLOCK, sort=False):
            own = set(block["run"]) if again[block.index].any() else set()
            equal = floor(data.select(own)) if own else None
            known |= dict.fromkeys(own, equal.found) if equal else {}
    found = [known.get(run) for run in data.runs["run"]] if len(data.runs) else []
    return {
        "floor_low": [one.low if one else None for one in found],
        "floor_high": [one.high if one else None for one in found],
    }


def _of_counts(verdict: Verdict) -> Verdict:
    return Verdict(tuple(one for one in verdict.reasons if one.spoils == "all"))


def _series(columns: Mapping[str, list[Any]], index: pd.Index) -> dict[str, pd.Series]:
    return {name: pd.Series(values, index, dtype=object) for name, values in columns.items()}

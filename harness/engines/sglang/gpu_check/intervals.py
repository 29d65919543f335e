"""Points on time: the interval from step to step, by arm and by verify width."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import median
from typing import Any

import numpy as np

from harness.engines.sglang.effective import backends, decode_graphs
from harness.engines.sglang.gpu_check.arms import FULL, POLICY, STOCK, Arms, Record
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.running import Running
from harness.stats import Pair, speedup

Prompts = Sequence[Sequence[int]]
Timed = tuple[float, int]
DROPPED = 4  # steps after a prefill
WARM_TOKENS = 8
STAGES = ("step_ms", "draft_ms", "verify_ms", "extend_ms", "gap_ms")


def random_prompts(count: int, tokens: int, vocabulary: int) -> list[list[int]]:
    """Prompts of random ids, the same in every run; ids 0 and 1 are special."""
    draw = random.Random(2026)
    return [[draw.randrange(2, vocabulary) for _ in range(tokens)] for _ in range(count)]


def timed(reply: Reply) -> Timed:
    """Milliseconds from the first token's arrival to the last's, and verify steps in between."""
    return reply.chunks[-1].at_ms - reply.chunks[0].at_ms, reply.meta.verify_steps or 0


def steady_gaps(reply: Reply) -> list[float]:
    """Milliseconds between arrivals of steady steps; empty where a chunk held several steps."""
    if len(reply.chunks) - 1 != reply.meta.verify_steps:
        return []
    return [after.at_ms - before.at_ms for before, after in pairwise(reply.chunks)][DROPPED:]


def order(prompts: int, live: int) -> list[tuple[str, int]]:
    """(arm, prompt) in the order of measurement, twice per arm; A is stock, B the plugin.

    Two servers at once take turns, ABBA for each prompt; one server is measured after the other.
    """
    if live > 1:
        return [(arm, prompt) for prompt in range(prompts) for arm in "ABBA"]
    return [(arm, prompt) for arm in "BA" for prompt in range(prompts) for _ in range(2)]


@dataclass
class Timings:
    """What both arms showed. replies: by (arm, prompt); gaps: of steady steps, by arm."""

    replies: dict[tuple[str, int], list[Timed]] = field(default_factory=dict)
    gaps: dict[str, list[float]] = field(default_factory=lambda: {"A": [], "B": []})
    records: list[Record] = field(default_factory=list)

    def add(self, arm: str, prompt: int, reply: Reply, records: Sequence[Record]) -> None:
        """One generation; `records` are the plugin's own, none of stock."""
        self.replies.setdefault((arm, prompt), []).append(timed(reply))
        self.gaps[arm] += steady_gaps(reply)
        self.records += records[DROPPED:]

    def facts(self) -> dict[str, Any]:
        """Medians of what the interval's means may hide, and how the plugin's steps ran."""
        stock, plugin = (median(self.gaps[arm]) if self.gaps[arm] else None for arm in "AB")
        return {
            "stock_median_ms": stock,
            "plugin_median_ms": plugin,
            "plugin_worker_ms": {name: _median(self.records, name) for name in STAGES},
            "graph_steps": sum(bool(record["graph"]) for record in self.records),
            "eager_steps": sum(not record["graph"] for record in self.records),
        }


def exposed_gap(arms: Arms, prompts: Prompts, tokens: int, live: int) -> dict[str, Any]:
    """Interval from step to step of the plugin at k = N over that of stock EAGLE-3.

    Both are seen from the client, from the first token of a reply to its last; medians leave out
    the first steps. The plugin's server records its steps meanwhile, as in a benchmark.
    """
    seen = Timings()
    for arm, prompt in order(len(prompts), live):
        running = arms.follow(FULL) if arm == "B" else arms.get(STOCK)
        if not any(name == arm for name, _ in seen.replies):
            _take(arms, running, prompts[-1], WARM_TOKENS)
        seen.add(arm, prompt, *_take(arms, running, prompts[prompt], tokens))
    return {
        **ratio(seen.replies, len(prompts)),
        **seen.facts(),
        "order": "ABBA for each prompt" if live > 1 else "one server after the other",
        "resolved": _resolved(arms.get(STOCK)),
    }


def ratio(found: dict[tuple[str, int], list[Timed]], prompts: int) -> dict[str, Any]:
    """Plugin over stock, above 1 where the plugin is slower; 95 % interval over prompts."""
    sums = {key: tuple(map(sum, zip(*rows, strict=True))) for key, rows in found.items()}
    pairs = [Pair(str(p), *sums["A", p], *sums["B", p]) for p in range(prompts)]
    found_ratio = speedup(pairs)
    return {
        "plugin_over_stock": found_ratio.ratio,
        "low": found_ratio.low,
        "high": found_ratio.high,
        "prompts": found_ratio.clusters,
        "stock_ms": _mean([sums["A", p] for p in range(prompts)]),
        "plugin_ms": _mean([sums["B", p] for p in range(prompts)]),
    }


def step_cost(
    arms: Arms, prompts: Prompts, tokens: int, widths: Sequence[int], rounds: int
) -> dict[str, Any]:
    """C(k): the worker's interval between step starts at forced k, widths shuffled per round."""
    draw, steps = random.Random(4), {k: list[float]() for k in widths}
    arms.generate(arms.follow(FULL), prompts[0], tokens)
    for turn in range(rounds):
        for k in draw.sample(list(widths), len(widths)):
            running = arms.follow({"name": "fixed_k", "k": k})
            running.records()
            _, records = _take(arms, running, prompts[turn % len(prompts)], tokens)
            steps[k] += step_times(records, k)
    return {
        "context": len(prompts[0]),
        "by_width": [_spread(k, steps[k]) for k in widths],
        "resolved": _resolved(arms.get(POLICY)),
    }


def step_times(records: Sequence[Record], k: int) -> list[float]:
    """Intervals of steady steps; ValueError for a step that verified another width."""
    wrong = [record["k"] for record in records if record["k"] != k]
    if wrong:
        raise ValueError(f"asked for steps of width {k}, the worker ran {wrong[:3]}")
    return [one["step_ms"] for one in records[DROPPED:] if one["step_ms"] is not None]


def _take(
    arms: Arms, running: Running, prompt: Sequence[int], tokens: int
) -> tuple[Reply, list[Record]]:
    """A reply and the worker's records of it, none from a server of SGLang's own."""
    reply = arms.generate(running, prompt, tokens)
    return reply, [*running.records()] if running.session else []


def _spread(k: int, values: Sequence[float]) -> dict[str, Any]:
    if not values:
        return {"k": k, "median_ms": None, "steps": 0, "reason": "no step was followed by another"}
    low, middle, high = (float(v) for v in np.percentile(values, [25, 50, 75]))
    return {"k": k, "median_ms": middle, "q25_ms": low, "q75_ms": high, "steps": len(values)}


def _median(records: Sequence[Record], name: str) -> float | None:
    values = [record[name] for record in records if record[name] is not None]
    return median(values) if values else None


def _mean(rows: Sequence[tuple[float, ...]]) -> float | None:
    total, steps = (sum(column) for column in zip(*rows, strict=True))
    return total / steps if steps else None


def _resolved(running: Running) -> dict[str, Any]:
    document = running.document
    return {
        **backends(document),
        "decode_graphs": decode_graphs(document),
        "overlap": not document.get("disable_overlap_schedule"),
    }

"""Points on time: the interval from step to step, by arm and by verify width."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import median
from typing import Any

import numpy as np

from harness.engines.sglang.arguments import Kind
from harness.engines.sglang.effective import backends, decode_graphs
from harness.engines.sglang.gpu_check.arms import FULL, POLICY, STOCK, Arms, Record
from harness.engines.sglang.reply import Reply
from harness.engines.sglang.running import Running
from harness.stats import Pair, speedup

Prompts = Sequence[Sequence[int]]
Timed = tuple[float, int]
DROPPED = 4  # steps after a prefill
STAGES = ("step_ms", "draft_ms", "verify_ms", "extend_ms", "gap_ms")


def random_prompts(count: int, tokens: int, vocabulary: int) -> list[list[int]]:
    """Prompts of random ids, the same in every run; ids 0 and 1 are special."""
    draw = random.Random(2026)
    return [[draw.randrange(2, vocabulary) for _ in range(tokens)] for _ in range(count)]


def timed(reply: Reply) -> Timed:
    """Milliseconds from the first token's arrival to the last's, and verify steps in between."""
    return reply.chunks[-1].at_ms - reply.chunks[0].at_ms, reply.meta.verify_steps or 0


def order(prompts: int, live: int) -> list[tuple[str, int]]:
    """(arm, prompt) in the order of measurement, twice per arm; A is stock, B the plugin.

    Two servers at once take turns, ABBA for each prompt; one server is measured after the other.
    """
    if live > 1:
        return [(arm, prompt) for prompt in range(prompts) for arm in "ABBA"]
    return [(arm, prompt) for arm in "BA" for prompt in range(prompts) for _ in range(2)]


def exposed_gap(arms: Arms, prompts: Prompts, tokens: int, live: int) -> dict[str, Any]:
    """Interval from step to step of the plugin at k = N over that of stock EAGLE-3."""
    kinds = {"A": STOCK, "B": POLICY}
    found: dict[tuple[str, int], list[Timed]] = {}
    records: list[Record] = []
    for arm, prompt in order(len(prompts), live):
        running = _warm(arms, kinds[arm], prompts[-1], found, arm)
        reply = arms.generate(running, prompts[prompt], tokens)
        found.setdefault((arm, prompt), []).append(timed(reply))
        records += running.records()[DROPPED:] if running.session else []
    return {
        **ratio(found, len(prompts)),
        "order": "ABBA for each prompt" if live > 1 else "one server after the other",
        "plugin_worker_ms": {name: _median(records, name) for name in STAGES},
        "graph_steps": sum(bool(record["graph"]) for record in records),
        "eager_steps": sum(not record["graph"] for record in records),
        "resolved": _resolved(arms.get(kinds["A"])),
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
            arms.generate(running, prompts[turn % len(prompts)], tokens)
            steps[k] += step_times(running.records(), k)
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


def _warm(
    arms: Arms,
    kind: Kind,
    prompt: Sequence[int],
    found: dict[tuple[str, int], list[Timed]],
    arm: str,
) -> Running:
    """The arm's server; at its first turn it gets a request that is not counted."""
    running = arms.follow(FULL) if kind == POLICY else arms.get(kind)
    if not any(name == arm for name, _ in found):
        arms.generate(running, prompt, 8)
        if running.session:
            running.records()
    return running


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

"""C(k): what a whole step costs at every verify length, measured through the decode path itself."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np

from evict.calibration import ScoreMap
from evict.cost import STAGES, CostTable
from evict.errors import InputError
from evict.selection import FixedPrefix
from harness.engines.base import Engine, Method
from harness.profiling.calibration import TEMPERATURES, fit_beta, fit_maps, observe
from harness.records import StepRecord

ROUNDS = 8
STEPS_PER_ROUND = 4
Progress = Callable[[str, float], None]
Records = dict[int, list[list[StepRecord]]]
PLAIN = 0


def growth_name(method: Method) -> str:
    """How the drafting half of a step is configured: a table holds for this growth only."""
    return repr(method.growth)


def fingerprint(engine: Engine, method: Method) -> dict[str, str]:
    """Everything a table depends on: the engine's facts and the way the tree is grown."""
    return {**engine.describe().fingerprint(), "growth": growth_name(method)}


def profile(
    engine: Engine,
    method: Method,
    prompts: Sequence[Sequence[int]],
    seed: int,
    progress: Progress | None = None,
) -> CostTable:
    """Measure C(1)..C(N), C_AR, beta and the score maps with `method`'s drafter and growth.

    Every round visits all widths in a new random order on the same prompt, so that drift of the
    machine meets every k alike; ROUNDS x STEPS_PER_ROUND steps per k, medians of drift-corrected
    times. Widths that the engine cannot hold at once (plain decoding on a server of its own) have
    rounds of their own. `prompts` are calibration prompts (token ids), disjoint from the measured
    ones. beta and the maps need an engine that can be observed: 1 and none without.
    """
    if not method.speculative:
        raise InputError(
            "a cost table needs a method that drafts",
            seen=method.name,
            allowed="a drafter other than none",
            hint="method=evict",
        )
    rng = random.Random(seed)
    widths = [PLAIN, *range(1, method.draft_tokens + 1)]
    records: Records = {k: [] for k in widths}
    parts = engine.together([_forced(method, k) for k in widths])
    done = 0
    for part in parts:
        shares = [widths[place] for place in part]
        engine.forced_step_times(_forced(method, max(shares)), prompts[:1], STEPS_PER_ROUND)
        for turn in range(ROUNDS):
            prompt = [prompts[turn % len(prompts)]]
            rng.shuffle(shares)
            for k in shares:
                steps = engine.forced_step_times(_forced(method, k), prompt, STEPS_PER_ROUND)
                records[k].append(steps)
                done += 1
                if progress:
                    progress("profiling C(k)", done / len(widths) / ROUNDS)
    facts = fingerprint(engine, method)
    rounds_of = [[widths[place] for place in part] for part in parts]
    if not engine.observable:
        return build_table(records, 1.0, facts, parts=rounds_of)
    logs = {t: observe(engine, method, prompts, seed, t, progress) for t in TEMPERATURES}
    return build_table(records, fit_beta(logs[0.0]), facts, fit_maps(logs), rounds_of)


def build_table(
    records: Records,
    beta: float,
    facts: dict[str, str],
    score_maps: dict[str, ScoreMap] | None = None,
    parts: Sequence[Sequence[int]] | None = None,
) -> CostTable:
    """Reduce the step records of every width (0 = plain decoding), one list per round.

    parts: widths that shared their rounds, all of them if None; drift is told within a part.
    """
    widths = sorted(k for k in records if k != PLAIN)
    times: dict[int, list[float]] = {}
    for part in parts or [list(records)]:
        drift = _drift({k: records[k] for k in part})
        for k in part:
            own = enumerate(records[k])
            times[k] = [s.total_ms / drift[turn] for turn, steps in own for s in steps]
    raw = np.array([median(times[k]) for k in widths])
    smooth = smooth_cost(raw)
    return CostTable(
        step_ms=tuple(float(v) for v in smooth),
        ar_ms=float(median(times[PLAIN])),
        spread_ms=tuple(float(np.subtract(*np.percentile(times[k], (75, 25)))) for k in widths),
        beta=beta,
        fingerprint=facts,
        stage_ms=_stages(records, widths),
        expert_union=_unions(records, widths),
        score_maps=score_maps or {},
    )


def smooth_cost(raw_N: np.ndarray) -> np.ndarray:
    """A cost curve that never falls: local linear fits over five widths, then a running maximum.

    k = 1 keeps its own value, because engines treat a single token by another code path.
    A table with dents would pin the chosen k at each dent.
    """
    fitted = raw_N.astype(float).copy()
    ks = np.arange(1, len(raw_N) + 1)
    for index in range(1, len(raw_N)):
        low, high = max(1, index - 2), min(len(raw_N), index + 3)
        if high - low >= 3:
            fitted[index] = np.polyval(np.polyfit(ks[low:high], raw_N[low:high], 1), ks[index])
    return np.maximum.accumulate(fitted)


def _forced(method: Method, k: int) -> Method:
    if k == PLAIN:
        return Method("forced-plain")
    return replace(method, name=f"forced-{k}", selection=FixedPrefix(k), scores="draft")


def _drift(records: Records) -> list[float]:
    """Speed of each round relative to the whole run: mean over widths of round / overall median."""
    overall = {
        k: median(s.total_ms for steps in rounds for s in steps) for k, rounds in records.items()
    }
    count = len(next(iter(records.values())))
    return [
        fmean(median(s.total_ms for s in records[k][turn]) / overall[k] for k in records)
        for turn in range(count)
    ]


def _stages(records: Records, widths: Sequence[int]) -> dict[str, tuple[float, ...]]:
    return {
        stage: tuple(
            median(getattr(s, f"{stage}_ms") for steps in records[k] for s in steps) for k in widths
        )
        for stage in STAGES
    }


def _unions(records: Records, widths: Sequence[int]) -> tuple[float, ...] | None:
    means = []
    for k in widths:
        seen = [s.expert_union for steps in records[k] for s in steps if s.expert_union is not None]
        if not seen:
            return None
        means.append(fmean(seen))
    return tuple(means)

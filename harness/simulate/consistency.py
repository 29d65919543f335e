"""The paper against itself: every average and claim recomputed from its own tables."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pandas as pd

from harness.report.published import published
from harness.simulate.paper import KEYS

ROUNDING = {2: 0.0051, 3: 0.00051}


@dataclass(frozen=True)
class Check:
    """One statement: what is stated, what the tables give, and whether rounding explains it."""

    statement: str
    where: str
    stated: float
    recomputed: float
    agrees: bool


def checks() -> pd.DataFrame:
    """Every recomputed average, ratio and claim: statement, where, stated, recomputed, agrees."""
    found = [*_averages(), *_speed_claims(), *_mat_claims(), *_implied()]
    return pd.DataFrame([check.__dict__ for check in found])


def inconsistencies(found: pd.DataFrame) -> pd.DataFrame:
    """Those of `checks` that fail."""
    return found[~found["agrees"]].reset_index(drop=True)


def _check(statement: str, where: str, stated: float, recomputed: float, tolerance: float) -> Check:
    return Check(statement, where, stated, recomputed, abs(stated - recomputed) <= tolerance)


def _averages() -> Iterator[Check]:
    for table, value in (("decoding_speed", "tokens_per_s"), ("mean_accepted_tokens", "mat")):
        frame = published(table)
        for keys, rows in frame.groupby(["table", "model", "temperature", "method"]):
            average = rows["benchmark"] == "average"
            stated, mean = rows.loc[average, value].item(), rows.loc[~average, value].mean()
            number, model, temperature, method = keys
            name = f"average {value} of {method} on {model}, T = {temperature}"
            yield _check(name, f"table {number}", stated, mean, ROUNDING[2])


def _ratios(over: str, averages: bool = False) -> pd.Series[float]:
    """EVICT's speed over another method's, by model, temperature, benchmark."""
    frame = published("decoding_speed")
    frame = frame[(frame["benchmark"] == "average") == averages]
    speeds = frame.set_index([*KEYS, "method"])["tokens_per_s"].unstack("method")
    return speeds["evict"] / speeds[over]


def _claim(name: str) -> float:
    return float(published("claims").set_index("id")["value"][name])


def _speed_claims() -> Iterator[Check]:
    vanilla, eagle3 = _ratios("vanilla"), _ratios("eagle3")
    means = _ratios("eagle3", averages=True).groupby("model").mean()
    largest = "largest speed ratio EVICT / vanilla"
    stated = _claim("speedup_over_vanilla_max")
    yield _check(largest, "abstract and section 4.2", stated, vanilla.max(), ROUNDING[2])
    cool = vanilla.xs(0, level="temperature").max()
    yield _check(f"{largest} at temperature 0 alone", "abstract", stated, cool, ROUNDING[2])
    least = _claim("speedup_over_vanilla_min")
    yield _check("smallest ratio EVICT / vanilla", "section 4.2", least, vanilla.min(), ROUNDING[2])
    mean = _claim("speedup_over_eagle3_average")
    name = "mean ratio EVICT / EAGLE-3"
    yield _check(f"{name}, of average speeds", "abstract", mean, means.mean(), ROUNDING[2])
    yield _check(f"{name}, over all cells", "abstract", mean, eagle3.mean(), ROUNDING[2])
    baselines = published("decoding_speed").query("method == 'vanilla'")["model"].nunique()
    name = "models with an autoregressive baseline"
    yield _check(name, "episode companion", 1, baselines, 0)
    for model, value in (("ling_flash", 1.22), ("qwen3_235b", 1.25)):
        name = f"ratio of average speeds EVICT / EAGLE-3 on {model}"
        yield _check(name, "appendix B.2", value, means[model], ROUNDING[2])
    math = eagle3.loc[["qwen3_30b"]].unstack("benchmark")[["gsm8k", "humaneval"]]
    where = "section 4.2: GSM8K and HumanEval on Qwen3-30B-A3B"
    yield _check("smallest ratio EVICT / EAGLE-3", where, 1.23, math.min().min(), ROUNDING[2])
    yield _check("largest ratio EVICT / EAGLE-3", where, 1.27, math.max().max(), ROUNDING[2])
    for other in ("eagle3", "ddd", "lookahead"):
        slower = int((_ratios(other) <= 1).sum())
        yield _check(f"cells in which EVICT does not beat {other}", "section 4.2", 0, slower, 0)


def _mat_claims() -> Iterator[Check]:
    mats = published("mean_accepted_tokens")
    mats = mats[mats["benchmark"] == "average"]
    means = mats.set_index(["model", "temperature", "method"])["mat"].unstack("method")
    ratio = means["evict"] / means["eagle3"]
    printed = {
        ("qwen3_30b", 0): (0.847, 2), ("qwen3_30b", 1): (0.847, 2),
        ("ling_flash", 0): (0.901, 3), ("ling_flash", 1): (0.891, 3),
        ("qwen3_235b", 0): (0.852, 4), ("qwen3_235b", 1): (0.854, 4),
    }  # fmt: skip
    for (model, temperature), (stated, table) in printed.items():
        name = f"Mat ratio EVICT / EAGLE-3 on {model}, T = {temperature}"
        yield _check(name, f"table {table}", stated, ratio[model, temperature], ROUNDING[3])


def _implied() -> Iterator[Check]:
    """Claims about latency against the steps that the tables imply (Mat / speed, in ms)."""
    speeds = published("decoding_speed").set_index([*KEYS, "method"])["tokens_per_s"]
    mats = published("mean_accepted_tokens").set_index([*KEYS, "method"])["mat"]
    steps = (1e3 * mats / speeds).dropna().unstack("method").drop("average", level="benchmark")
    share = (_claim("verify_share_low") + _claim("verify_share_high")) / 2
    saved = (1 - steps["evict"] / steps["eagle3"]).groupby("model").mean() / share
    for model, value in saved.items():
        name = f"cut of verification latency on {model}, were all of the step's cut in it"
        stated = _claim("verify_latency_reduction")
        yield _check(name, "section 4.3 against tables 1 to 6", stated, value, 0.03)
    own = float(steps["eagle3"].groupby("model").mean()["qwen3_30b"])
    name = "mean C(k) in ms on Qwen3-30B-A3B: MAE / MAPE of appendix C against table 1's C(32)"
    yield _check(name, "appendix C (second version)", 0.57 / 0.0584, own, 0.35 * own)

"""The paper's numbers (results/paper), ready to stand beside ours."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pandas as pd

from harness.report.spec import Missing

FOLDER = Path(__file__).resolve().parents[2] / "results" / "paper"
STAND_IN = "qwen3_30b"
LABELS = {
    "qwen3_30b": "Qwen3-30B-A3B",
    "ling_flash": "Ling-flash-2.0",
    "qwen3_235b": "Qwen3-235B-A22B",
}
CLAIM_METHOD = "evict"
PAPER_BASELINES = {"vanilla": "vanilla", "eagle3": "EAGLE-3"}  # by the name in its CSV


@cache
def published(name: str) -> pd.DataFrame:
    """One of decoding_speed, mean_accepted_tokens, claims, models, as transcribed."""
    file = FOLDER / f"{name}.csv"
    if not file.is_file():
        raise Missing(f"the paper's {name} is not there; restore results/paper/{name}.csv")
    return pd.read_csv(file)


def paper_model(model: str) -> str:
    """The paper's model to compare with: the same one, else Qwen3-30B-A3B."""
    return model if model in set(published("models")["model"]) else STAND_IN


def paper_label(model: str) -> str:
    """How the paper calls the model compared with."""
    found = paper_model(model)
    return LABELS.get(found, found)


def paper_speedups(model: str) -> pd.DataFrame:
    """Columns temperature, method, benchmark, against, paper_ratio: quotients of printed speeds.

    against: the paper's name of the method in the denominator, vanilla or eagle3.
    """
    speeds = published("decoding_speed")
    speeds = speeds[speeds["model"] == paper_model(model)]
    keys = ["temperature", "benchmark"]
    frames = []
    for against in PAPER_BASELINES:
        base = speeds.loc[speeds["method"] == against, [*keys, "tokens_per_s"]]
        both = speeds.merge(base, on=keys, suffixes=("", "_base"))
        ratio = both["tokens_per_s"] / both["tokens_per_s_base"]
        frames.append(both[[*keys, "method"]].assign(against=against, paper_ratio=ratio))
    return pd.concat(frames, ignore_index=True)


def paper_mat(model: str) -> pd.DataFrame:
    """Columns temperature, method, benchmark, paper_mat, paper_retention (share of EAGLE-3's)."""
    mats = published("mean_accepted_tokens")
    mats = mats[mats["model"] == paper_model(model)]
    keys = ["temperature", "benchmark"]
    full = mats.loc[mats["method"] == "eagle3", [*keys, "mat"]]
    both = mats.merge(full, on=keys, suffixes=("", "_full"))
    retention = both["mat"] / both["mat_full"]
    found = both[[*keys, "method"]].assign(paper_mat=both["mat"], paper_retention=retention)
    return found.reset_index(drop=True)


def paper_reductions() -> pd.DataFrame:
    """Columns method, measure, paper: what the paper claims to save against EAGLE-3, as shares."""
    claims = published("claims").set_index("id")["value"]
    measures = ("verified_tokens", "active_experts", "verify_latency")
    values = [float(claims[f"{name}_reduction"]) for name in measures]
    return pd.DataFrame({"method": CLAIM_METHOD, "measure": measures, "paper": values})

"""Tables as functions from collected runs to a data frame. Numbers only; see render for text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd

from harness.collect import Collection
from harness.stats import Pair, Speedup, speedup

BLOCK = ["experiment", "settings_hash"]
ROLES = ("plain", "full")
STAGES = ("draft", "verify", "extend", "other")
OVERALL = "all"


def summary(data: Collection) -> pd.DataFrame:
    """A row per block, benchmark (`all` last) and method: speed, acceptance, cost, speedups.

    decode_tokens_per_s: committed decode tokens / decode seconds. e2e_tokens_per_s: all tokens /
    (prefill + decode) seconds. mat: committed tokens per step, prefill's token not counted.
    mean_k: nodes verified per step, root included. vs_plain, vs_full: see harness.stats.Speedup.
    """
    rows: list[dict[str, Any]] = []
    if data.runs.empty:
        return pd.DataFrame()
    for _, found in data.runs.groupby(BLOCK, sort=False):
        # Baselines first: plain decoding, then the full tree.
        block = found.sort_values("baseline", key=_role_order, kind="stable")
        baselines = {role: block[block["baseline"] == role] for role in ROLES}
        labels = method_labels(block)
        benchmarks = [*dict.fromkeys(found["benchmark"])]
        scopes = [[name] for name in benchmarks]
        if len(benchmarks) > 1:
            scopes.append(benchmarks)
        for scope in scopes:
            inside = block[block["benchmark"].isin(scope)]
            for method, runs in inside.groupby("method_hash", sort=False):
                row = _identity_row(runs, scope, labels[str(method)])
                row |= _speed(data, runs) | _steps(data, runs)
                for role, candidates in baselines.items():
                    row |= _versus(data, runs, candidates, role)
                rows.append(row)
    return pd.DataFrame(rows)


TABLES: dict[str, Callable[[Collection], pd.DataFrame]] = {"summary": summary}


def _role_order(baselines: pd.Series) -> pd.Series:
    return baselines.map({role: i for i, role in enumerate(ROLES)}).fillna(len(ROLES))


def method_labels(block: pd.DataFrame) -> dict[str, str]:
    """A distinct label per method hash; the hash's head tells equal names apart."""
    first = block.drop_duplicates("method_hash").set_index("method_hash")["method_label"]
    repeated = set(first[first.duplicated(keep=False)])
    return {
        str(key): f"{label} #{str(key)[:4]}" if label in repeated else str(label)
        for key, label in first.items()
    }


def _identity_row(runs: pd.DataFrame, scope: list[str], label: str) -> dict[str, Any]:
    first = runs.iloc[0]
    copied = (
        "experiment",
        "model",
        "model_label",
        "lab",
        "engine",
        "source",
        "temperature",
        "method",
    )
    return {
        **{name: first[name] for name in copied},
        "method_label": label,
        "benchmark": scope[0] if len(scope) == 1 else OVERALL,
        "settings_hash": first["settings_hash"],
        "lossless": bool(runs["lossless"].all()),
        "calibrated": bool(runs["calibrated"].any()),
        "baseline": first["baseline"],
    }


def good_requests(data: Collection, runs: pd.DataFrame) -> pd.DataFrame:
    """Requests of these runs that ended without an error."""
    rows = data.requests[data.requests["run"].isin(set(runs["run"]))]
    return rows[rows["error_class"].isna()]


def _speed(data: Collection, runs: pd.DataFrame) -> dict[str, Any]:
    rows = good_requests(data, runs)
    tokens = rows["output_ids"].map(len)
    decode_ms, prefill_ms = rows["decode_ms"].sum(), rows["prefill_ms"].sum()
    comparable = bool(runs["machine_hash"].notna().all())
    return {
        "requests": len(rows),
        "decode_tokens_per_s": _ratio(1e3 * (tokens - 1).sum(), decode_ms) if comparable else None,
        "e2e_tokens_per_s": (
            _ratio(1e3 * tokens.sum(), decode_ms + prefill_ms) if comparable else None
        ),
    }


def _steps(data: Collection, runs: pd.DataFrame) -> dict[str, Any]:
    empty = {"steps": 0, "mat": None, "mean_k": None, "experts_per_layer": None}
    shares: dict[str, Any] = {f"{stage}_share": None for stage in STAGES}
    if data.steps.empty:
        return empty | shares
    steps = data.steps[data.steps["run"].isin(set(runs["run"]))]
    if steps.empty:
        return empty | shares
    total = steps["total_ms"].sum()
    union = pd.to_numeric(steps["expert_union"]).dropna()
    return {
        "steps": len(steps),
        "mat": _ratio(steps["committed"].sum(), len(steps)),
        "mean_k": float(steps["verified"].mean()),
        "experts_per_layer": float(union.mean()) if len(union) else None,
        **{f"{stage}_share": _ratio(steps[f"{stage}_ms"].sum(), total) for stage in STAGES},
    }


def _versus(
    data: Collection, runs: pd.DataFrame, candidates: pd.DataFrame, role: str
) -> dict[str, Any]:
    """Paired comparison of a method's runs with the baseline runs that differ in method only."""
    pairs: list[Pair] = []
    missing, together, different, found = 0, 0, 0, False
    for _, run in runs.iterrows():
        match = candidates[
            (candidates["pair_hash"] == run["pair_hash"])
            & (candidates["machine_hash"] == run["machine_hash"])
            & (candidates["run"] != run["run"])
        ]
        if match.empty:
            continue
        found = True
        joined = _join(data, run["run"], match.iloc[0]["run"])
        both = joined[joined["_merge"] == "both"]
        missing += len(joined) - len(both)
        together += int((both["part_m"] == both["part_b"]).sum())
        different += int((both["output_ids_m"] != both["output_ids_b"]).sum())
        pairs += [_pair(row) for row in both.to_dict("records")]
    if not found:
        return _versus_row(role, None, None, 0)
    return _versus_row(role, speedup(pairs, missing), _ratio(together, len(pairs)), different)


def _versus_row(
    role: str, found: Speedup | None, interleaved: float | None, different: int
) -> dict[str, Any]:
    name = f"vs_{role}"
    return {
        name: found.ratio if found else None,
        f"{name}_low": found.low if found else None,
        f"{name}_high": found.high if found else None,
        f"{name}_time_ratio": found.time_ratio if found else None,
        f"{name}_prompts": found.clusters if found else 0,
        f"{name}_excluded": found.excluded if found else 0,
        f"{name}_interleaved": interleaved,
        f"{name}_different": different,
    }


def _join(data: Collection, method_run: str, baseline_run: str) -> pd.DataFrame:
    """Rows of both runs side by side; they match only on the very same input."""
    keys = ["prompt_id", "turn", "repeat", "input_hash"]
    columns = [*keys, "decode_ms", "output_ids", "part"]
    good = data.requests[data.requests["error_class"].isna()]
    left = good.loc[good["run"] == method_run, columns]
    right = good.loc[good["run"] == baseline_run, columns]
    return left.merge(right, on=keys, how="outer", suffixes=("_m", "_b"), indicator=True)


def _pair(row: dict[Any, Any]) -> Pair:
    return Pair(
        cluster=str(row["prompt_id"]),
        method_ms=float(row["decode_ms_m"]),
        method_tokens=len(row["output_ids_m"]) - 1,
        baseline_ms=float(row["decode_ms_b"]),
        baseline_tokens=len(row["output_ids_b"]) - 1,
    )


def _ratio(part: float, whole: float) -> float | None:
    return float(part) / float(whole) if whole else None

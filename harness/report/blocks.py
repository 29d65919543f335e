"""Which runs may stand in one table: blocks of equal settings, and the block a table is about."""

from __future__ import annotations

import math
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.spec import Missing

BLOCK = ["experiment", "settings_hash"]
REPLAY = "replay"
PREDICTED = (REPLAY, "simulated")  # engines that time nothing
WIDTHS = 3


def timing(data: Collection) -> Collection:
    """The runs whose times are speeds: measured, and without the cost of recording trees."""
    return _where(data, lambda runs: ~runs["recorded"].astype(bool) & _measured(runs))


def recorded_runs(data: Collection) -> Collection:
    """The measured runs that kept their trees; their times are no speeds."""
    return _where(data, lambda runs: runs["recorded"].astype(bool) & _measured(runs))


def _measured(runs: pd.DataFrame) -> pd.Series:
    return ~runs["engine"].isin(PREDICTED)


def replay_blocks(data: Collection) -> list[Collection]:
    """Blocks of policies evaluated on recorded trees; their step times are predicted."""
    return blocks(_where(data, lambda runs: runs["engine"] == REPLAY))


def blocks(data: Collection) -> list[Collection]:
    """One collection per experiment and settings, by experiment, engine, temperature and hash."""
    if data.runs.empty:
        return []
    keys = ["experiment", "engine", "temperature", "settings_hash"]
    grouped = data.runs.groupby(keys, sort=True)
    return [data.select(set(found["run"])) for _, found in grouped]


def engines(data: Collection) -> list[str]:
    """Engines with timing runs, sorted."""
    runs = timing(data).runs
    return sorted(set(runs["engine"])) if len(runs) else []


def temperatures(data: Collection, engine: str) -> list[float]:
    """Temperatures of an engine's timing runs, ascending."""
    runs = timing(data).runs
    return sorted(set(runs.loc[runs["engine"] == engine, "temperature"])) if len(runs) else []


def main_block(data: Collection, engine: str, temperature: float) -> Collection:
    """The block that a paper table is drawn from.

    Of the timing blocks with a plain run: most distinct policy x benchmark x repeat cells (a
    sweep of one policy's setting counts once), then most requests in them, then the shortest
    sweep of k, then the newest. Missing where no block has plain decoding.
    """
    found = [
        one for one in _of(data, engine, temperature) if (one.runs["baseline"] == "plain").any()
    ]
    if not found:
        raise Missing(
            f"no timing run of plain decoding with engine {engine} at T={temperature:g}; "
            f"run: python run.py +experiment=table1 engine={engine} temperature={temperature:g}"
        )
    return max(found, key=_weight)


def tree_size_block(data: Collection, engine: str, temperature: float) -> Collection:
    """The timing block with the most fixed verify lengths; Missing with fewer than three."""
    found = _of(data, engine, temperature)
    best = max(found, key=lambda one: (len(widths(one)), _weight(one)), default=None)
    if best is None or len(widths(best)) < WIDTHS:
        raise Missing(
            f"fewer than {WIDTHS} fixed verify lengths with engine {engine} at "
            f"T={temperature:g}; run: python run.py +experiment=fig1 engine={engine} "
            f"temperature={temperature:g}"
        )
    return best


def widths(block: Collection) -> list[int]:
    """The distinct fixed verify lengths k of a block, ascending."""
    found = {fixed_k(values) for values in block.runs["parameters"]} if len(block.runs) else set()
    return sorted(k for k in found if k is not None)


def fixed_k(parameters: dict[str, Any]) -> int | None:
    """The verify length of a method that fixes it; None for every other."""
    k = parameters.get("selection.k")
    return None if k is None or (isinstance(k, float) and math.isnan(k)) else int(k)


def replicas(frame: pd.DataFrame) -> pd.Series:
    """Which rows are of a baseline that was measured once more."""
    if "replica" not in frame:
        return pd.Series(False, index=frame.index)
    return pd.to_numeric(frame["replica"]).fillna(0) > 0


def drafting(frame: pd.DataFrame) -> pd.Series:
    """Which rows are of a method that drafts: neither plain decoding nor a replica of it."""
    return (frame["baseline"] != "plain") & ~replicas(frame)


def method_labels(runs: pd.DataFrame) -> dict[str, str]:
    """A distinct label per method hash; the hash's head tells equal names apart."""
    first = runs.drop_duplicates("method_hash").set_index("method_hash")["method_label"]
    repeated = set(first[first.duplicated(keep=False)])
    return {
        str(key): f"{label} #{str(key)[:4]}" if label in repeated else str(label)
        for key, label in first.items()
    }


def _of(data: Collection, engine: str, temperature: float) -> list[Collection]:
    return blocks(
        _where(
            timing(data),
            lambda runs: (runs["engine"] == engine) & (runs["temperature"] == temperature),
        )
    )


def _weight(block: Collection) -> tuple[int, int, int, str]:
    repeats: dict[tuple[str, ...], int] = {}
    requests: dict[tuple[str, ...], int] = {}
    for row in block.runs.to_dict("records"):
        policy = [
            str(row["parameters"].get(f"{part}._target_")) for part in ("growth", "selection")
        ]
        cell = (*policy, str(row["benchmark"]))
        repeats[cell] = max(repeats.get(cell, 0), int(row["repeats"]))
        requests[cell] = max(requests.get(cell, 0), int(row["requests_ok"]))
    newest = str(block.runs["finished_at"].max())
    return sum(repeats.values()), sum(requests.values()), -len(widths(block)), newest


def _where(data: Collection, chosen: Any) -> Collection:
    if data.runs.empty:
        return data
    return data.select(set(data.runs.loc[chosen(data.runs), "run"]))

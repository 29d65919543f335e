"""What a careful run leaves beside its rows: start times, telemetry, warm-up, outputs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.identity import digest
from harness.telemetry.sample import Sample
from harness.validity.judge import judge
from tests.support.sample_cells import Cell

CORES, WATT, MEMORY_MIB = 2, 20.0, 900.0
WARM_UP_MS, PAUSE_MS, HOST_MS, SLOT_MS = 500.0, 10.0, 500.0, 700.0
ABSENT = {"gpu": "no GPU on this machine"}


def order_of(place: int, generation: int, methods: int) -> int:
    """The method's turn in a generation: ABBA, forward and back again."""
    return place if generation % 2 == 0 else methods - 1 - place


def started_ms(generation: int, order: int, methods: int) -> float:
    """When a generation began: in slots after the warm-up."""
    return WARM_UP_MS + PAUSE_MS + SLOT_MS * (generation * methods + order)


def window(started: float, ended: float, others: float = 0.02) -> list[dict[str, Any]]:
    """Samples at both ends of a generation. others: cores that somebody else kept busy."""
    samples = []
    for at_ms in (started, ended):
        seconds = at_ms / 1e3
        samples.append(
            Sample(
                at_ms=at_ms,
                device="cpu",
                own_cpu_s=seconds,
                machine_cpu_s=seconds * (1 + others),
                memory_mib=MEMORY_MIB,
                energy_j=WATT * seconds,
            )
        )
    return [asdict(sample) for sample in samples]


def fingerprint(cell: Cell, engine: str, repeats: int) -> dict[str, str]:
    """What both sides of a comparison must agree on."""
    return {
        "code.commit": "0123456789abcdef",
        "engine.name": engine,
        "engine.threads": "1",
        "machine.cores": str(CORES),
        "machine.cpu": "sample processor",
        "prompts": digest([cell.benchmark, cell.prompts]),
        "sampling.repeats": str(repeats),
        "sampling.temperature": str(cell.temperature),
    }


def warm_up() -> list[dict[str, Any]]:
    """One warm-up of two prompts that are never measured, before the first request."""
    span = {"started_ms": 0.0, "ended_ms": WARM_UP_MS}
    return [{"part": "part-0", "prompts": ["warm-0", "warm-1"], **span}]


def outputs(pairs: int) -> dict[str, Any]:
    """Greedy outputs that are all equal to plain decoding's."""
    counts = {"equal": pairs, "near_tie": 0, "stop_rule": 0, "fault": 0}
    return {"pairs": pairs, "counts": counts, "differences": []}


def under_load(data: Collection, runs: Sequence[str], others: float = 1.0) -> Collection:
    """The collection, judged anew, as if somebody had used `others` cores during these runs."""
    telemetry = data.telemetry.copy()
    loaded = telemetry["run"].isin(set(runs))
    telemetry.loc[loaded, "machine_cpu_s"] = telemetry.loc[loaded, "at_ms"] / 1e3 * (1 + others)
    return judge(replace(data, telemetry=telemetry))


def warm_prompts(data: Collection, runs: Sequence[str]) -> Collection:
    """The same as if these runs had measured a prompt that warmed them up: no count holds."""
    first = data.requests.drop_duplicates("run").set_index("run")["input_hash"]
    return edited(
        data,
        runs,
        "warmup",
        lambda row: [{**span, "prompts": [first[row["run"]]]} for span in row["warmup"]],
    )


def silent_cache(data: Collection, runs: Sequence[str]) -> Collection:
    """The same as if the engine had said nothing of its prefix cache in these runs: unknown."""
    requests = data.requests.copy()
    requests.loc[requests["run"].isin(set(runs)), "cached_tokens"] = None
    return judge(replace(data, requests=requests))


def of_an_older_version(data: Collection) -> Collection:
    """The same runs as a version without telemetry, warm-up and fingerprints left them."""
    requests = data.requests.assign(started_ms=None, ended_ms=None, cached_tokens=None)
    old = edited(data, list(data.runs["run"]), "fingerprint", lambda row: {})
    return judge(replace(old, requests=requests, telemetry=pd.DataFrame()))


def edited(data: Collection, runs: Sequence[str], name: str, value: Any) -> Collection:
    """The collection, judged anew, with `value(row)` as column `name` of these runs."""
    rows = data.runs.to_dict("records")
    values = [value(row) if row["run"] in set(runs) else row[name] for row in rows]
    frame = data.runs.assign(**{name: pd.Series(values, index=data.runs.index, dtype=object)})
    return judge(replace(data, runs=frame))


def names(data: Collection, **wanted: object) -> list[str]:
    """Runs with these values."""
    found = data.runs
    for name, value in wanted.items():
        found = found[found[name] == value]
    return [str(run) for run in found["run"]]

"""What a replay reads: recorded runs under a folder, found by the request they answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evict.cost import CostTable
from evict.errors import InputError
from harness.collect import collect
from harness.collection import Collection
from harness.engines.base import EngineFacts, Request
from harness.identity import digest
from harness.records import RequestRecord
from harness.trees import TreeRecord

Key = tuple[str, int, int, float]
HINT = "python run.py +experiment=trees records some; then engine.recording=results/runs/trees"


@dataclass(frozen=True)
class Recorded:
    """One recorded generation: its row and the tree of every step."""

    run: str
    row: RequestRecord
    trees: list[TreeRecord]
    context_lens: list[int]


@dataclass(frozen=True)
class Recording:
    """The recorded runs of one method, by prompt, turn, repeat and temperature."""

    facts: EngineFacts
    method: str
    requests: dict[Key, Recorded]
    costs: list[CostTable]

    def find(self, request: Request) -> Recorded:
        """The generation that answered this request; InputError names what is recorded."""
        key = (request.prompt_id, request.turn, request.repeat, request.temperature)
        found = self.requests.get(key)
        if found is None:
            temperatures = sorted({one[3] for one in self.requests})
            raise InputError(
                "no recorded trees for this request",
                seen=f"{key[0]}, turn {key[1]}, repeat {key[2]}, T={key[3]:g}",
                allowed=f"{len(self.requests)} requests at T in {temperatures}",
                hint="record with the same benchmark, limit, repeats and temperature",
            )
        return found


def recording_hash(place: Path) -> str:
    """Hash over the runs recorded below `place`: a new recording is another input.

    A place where nothing is recorded yet has one too; an earlier stage may be about to record.
    """
    if not place.is_dir():
        return digest([])
    data = _recorded(place)
    return digest(sorted(data.runs["run_hash"]) if len(data.runs) else [])


def read_recording(place: Path, method: str | None) -> Recording:
    """Recorded runs below `place`; `method` chooses where several methods recorded the same."""
    data = _recorded(place)
    if data.runs.empty:
        raise InputError("no recorded runs", seen=place, hint=HINT)
    names = sorted(set(data.runs["method"]))
    if method is None and len(names) == 1:
        method = names[0]
    if method is None or method not in names:
        raise InputError(
            "which recorded method is replayed?",
            seen=method,
            allowed=", ".join(names),
            hint=f"engine.recorded_method={names[0]}",
        )
    chosen = data.select(set(data.runs.loc[data.runs["method"] == method, "run"]))
    facts = _facts(chosen, place)
    return Recording(facts, method, dict(_requests(chosen)), list(data.costs.values()))


def _recorded(place: Path) -> Collection:
    if not place.is_dir():
        raise InputError("no such recording", seen=place, hint=HINT)
    data = collect(place)
    runs = data.runs
    return data.select(set(runs.loc[runs["recorded"], "run"])) if len(runs) else data


def _facts(data: Collection, place: Path) -> EngineFacts:
    """The engine that recorded, read back then; all runs must agree."""
    found = {json.dumps(facts, sort_keys=True): facts for facts in data.runs["engine_facts"]}
    if len(found) != 1:
        raise InputError(
            "runs recorded by different engines or models",
            seen=", ".join(sorted({str(facts.get("model")) for facts in found.values()})),
            allowed="one",
            hint=f"engine.recording=one of the folders below {place}",
        )
    (facts,) = found.values()
    return EngineFacts(**facts)


def _requests(data: Collection) -> Iterator[tuple[Key, Recorded]]:
    keys = ["run", "prompt_id", "turn", "repeat"]
    trees = {key: list(rows.to_dict("records")) for key, rows in data.trees.groupby(keys)}
    lens = {key: list(rows["context_len"]) for key, rows in data.steps.groupby(keys)}
    good = data.requests[data.requests["error_class"].isna()]
    for values in good.to_dict("records"):
        row = _record(values)
        place = (values["run"], row.prompt_id, row.turn, row.repeat)
        found = [TreeRecord.from_row(tree) for tree in trees.get(place, [])]
        yield (
            (*row.key, float(row.temperature)),
            Recorded(str(values["run"]), row, found, [int(n) for n in lens.get(place, [])]),
        )


def _record(values: dict[Any, Any]) -> RequestRecord:
    return RequestRecord.from_dict({str(name): value for name, value in values.items()})

"""Which recorded run a replay was evaluated on, found by its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from harness.collection import Collection
from harness.report.blocks import recorded_runs

STEP = ("prompt_id", "turn", "repeat", "step")
Sizes = dict[tuple[Any, ...], int]


@dataclass(frozen=True)
class Sources:
    """drafted: nodes of every recorded step, by run. places: benchmark and temperature of a run."""

    drafted: dict[str, Sizes]
    places: dict[str, tuple[str, float]]

    @classmethod
    def of(cls, data: Collection) -> Sources:
        """The recorded runs of a collection."""
        runs = recorded_runs(data).runs
        if runs.empty or data.trees.empty:
            return cls({}, {})
        places = zip(runs["benchmark"].tolist(), runs["temperature"].tolist(), strict=True)
        sizes = data.trees["tokens"].map(len) - 1
        found = _by_run(data.trees.assign(drafted=sizes))
        known = dict(zip(runs["run"].tolist(), places, strict=True))
        return cls({run: found[run] for run in sorted(found) if run in known}, known)

    def find(self, block: Collection) -> dict[str, str]:
        """The recorded run of each replay run of a block; those without one are left out.

        The same requests with as many steps, and trees of the same size in each.
        """
        replayed = _by_run(block.steps) if len(block.steps) else {}
        found: dict[str, str] = {}
        for row in block.runs.to_dict("records"):
            place = (row["benchmark"], row["temperature"])
            steps = replayed.get(row["run"], {})
            for run, drafted in self.drafted.items():
                if self.places[run] == place and _covers(drafted, steps):
                    found[str(row["run"])] = run
                    break
        return found


def _by_run(frame: pd.DataFrame) -> dict[str, Sizes]:
    found: dict[str, Sizes] = {}
    keys = zip(*(frame[name].tolist() for name in STEP), strict=True)
    for run, key, size in zip(frame["run"].tolist(), keys, frame["drafted"].tolist(), strict=True):
        found.setdefault(str(run), {})[key] = int(size)
    return found


def _covers(recorded: Sizes, steps: Sizes) -> bool:
    """Whether the recording holds these very steps and no further ones of their requests."""
    requests = {key[:3] for key in steps}
    whole = {key: size for key, size in recorded.items() if key[:3] in requests}
    return bool(steps) and whole == steps

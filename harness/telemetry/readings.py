"""Samples as arrays, by run and device: those of good rows, each window in one piece."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from harness.telemetry.sample import CPU

Floats = npt.NDArray[np.float64]
Whole = npt.NDArray[np.int64]

KEY = ["run", "prompt_id", "turn", "repeat"]
NUMBERS = (
    "at_ms",
    "own_cpu_s",
    "machine_cpu_s",
    "memory_mib",
    "clock_mhz",
    "power_w",
    "energy_j",
    "busy",
    "temperature_c",
    "foreign",
)


@dataclass(frozen=True)
class Readings:
    """N samples of one device in W windows of one run, window after window, in the order read.

    numbers: the fields of Sample, NaN where unread; throttle: its texts. firsts_W, lasts_W: the
    ends of each window.
    """

    device: str
    numbers: dict[str, Floats]
    throttle: npt.NDArray[np.object_]
    firsts_W: Whole
    lasts_W: Whole

    @property
    def is_cpu(self) -> bool:
        """Whether this is the processor; all else are GPUs."""
        return self.device == CPU

    def across(self, name: str) -> Floats:
        """A number's growth from the first to the last sample of each window, shape W."""
        values_N = self.numbers[name]
        return values_N[self.lasts_W] - values_N[self.firsts_W]

    def steps(self, name: str) -> Floats:
        """From each sample to the next one of its window, shape N; 0 after the last."""
        values_N = self.numbers[name]
        steps_N = np.roll(values_N, -1) - values_N
        steps_N[self.lasts_W] = 0.0
        return steps_N


def good_rows(requests: pd.DataFrame) -> pd.DataFrame:
    """Rows without an error, a run's rows together, in their order."""
    good = requests[requests["error_class"].isna()] if "error_class" in requests else requests
    codes, _ = pd.factorize(good["run"])
    return good.iloc[np.argsort(codes, kind="stable")].reset_index(drop=True)


def readings(telemetry: pd.DataFrame, good: pd.DataFrame) -> dict[str, list[Readings]]:
    """Devices of every run that has samples in its good rows."""
    if not len(telemetry) or not len(good):
        return {}
    rows = good[KEY].assign(row=np.arange(len(good)))
    joined = telemetry.merge(rows, on=KEY, how="inner")
    device, names = pd.factorize(joined["device"])
    run, runs = pd.factorize(joined["run"])
    owner = run * len(names) + device
    order = np.lexsort((joined["row"], owner))  # stable: samples of a window keep their order
    joined, owner = joined.iloc[order], owner[order]
    found: dict[str, list[Readings]] = {}
    for code, part in _parts(joined, owner):
        found.setdefault(str(runs[code // len(names)]), []).append(
            _readings(str(names[code % len(names)]), part)
        )
    return found


def _parts(joined: pd.DataFrame, owner: Whole) -> Iterator[tuple[int, dict[str, Any]]]:
    """(run and device, the columns of its samples)."""
    columns: dict[str, Any] = {"row": joined["row"].to_numpy()}
    for name in NUMBERS:
        columns[name] = _floats(joined, name)
    columns["throttle"] = _texts(joined)
    edges = np.flatnonzero(np.diff(owner)) + 1
    for begin, end in zip([0, *edges], [*edges, len(owner)], strict=True):
        yield int(owner[begin]), {key: values[begin:end] for key, values in columns.items()}


def _floats(joined: pd.DataFrame, name: str) -> Floats:
    if name not in joined:
        return np.full(len(joined), np.nan)
    return joined[name].to_numpy(dtype=np.float64, na_value=np.nan)


def _texts(joined: pd.DataFrame) -> npt.NDArray[np.object_]:
    if "throttle" not in joined:
        return np.full(len(joined), "", dtype=object)
    return joined["throttle"].fillna("").to_numpy(dtype=object)


def _readings(device: str, part: dict[str, Any]) -> Readings:
    starts_W = np.flatnonzero(np.diff(part["row"])) + 1
    return Readings(
        device=device,
        numbers={name: part[name] for name in NUMBERS},
        throttle=part["throttle"],
        firsts_W=np.concatenate(([0], starts_W)),
        lasts_W=np.append(starts_W, len(part["row"])) - 1,
    )

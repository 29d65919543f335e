"""A Collection written out as the run directories that a real run leaves behind."""

from __future__ import annotations

import json
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from harness.collection import Collection
from harness.records import RunResult
from harness.store import replace_text

PROVENANCE = {
    "part": "part-0",
    "python": "3.11.9",
    "platform": "Linux",
    "cpu": "sample processor",
    "cores": 2,
    "usable_cores": 2,
    "governor": None,
    "load_average": [0.25, 0.2, 0.1],
    "gpus": [],
    "gpus_reason": "no NVIDIA driver",
    "gpu_state": [],
    "absent": {"governor": "the kernel shows no cpufreq"},
    "git": {"commit": "0123456789abcdef", "dirty": False, "diff_hash": None},
}
RESULT = [item.name for item in fields(RunResult)]


def write_runs(data: Collection, folder: Path) -> Path:
    """Every run of the collection as a directory below `folder`."""
    for row in data.runs.to_dict("records"):
        values: dict[str, Any] = {
            name: None if row[name] != row[name] else row[name] for name in RESULT
        }
        run = str(row["run"])
        path = folder / run
        path.mkdir(parents=True)
        requests = data.requests[data.requests["run"] == run].drop(columns="run")
        lines = requests.astype(object).where(requests.notna(), None).to_dict("records")
        (path / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        _table(data.steps, run, path / "steps.parquet")
        _table(data.trees, run, path / "trees.parquet")
        _table(data.telemetry, run, path / "telemetry.parquet")
        if run in data.costs:
            data.costs[run].save(path / "cost_table.json")
        config = {"results_dir": str(folder), "limit": 4, "max_new_tokens": 18, "seed": 0}
        config |= {"calibration": str(folder / "calibration.jsonl"), "method": values["parameters"]}
        (path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
        (path / "provenance.json").write_text(json.dumps({"parts": [PROVENANCE]}))
        replace_text(path / "result.json", json.dumps(values))
    return folder


def _table(frame: pd.DataFrame, run: str, path: Path) -> None:
    if frame.empty:
        return
    rows = frame[frame["run"] == run].drop(columns="run")
    if len(rows):
        rows.to_parquet(path, index=False)

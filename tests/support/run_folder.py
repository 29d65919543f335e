"""A Collection written out as the run directories that a real run leaves behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from omegaconf import OmegaConf

from harness.collection import Collection
from harness.store import replace_text

PROVENANCE = {
    "part": "part-0",
    "python": "3.11.9",
    "platform": "Linux",
    "cpu": "sample processor",
    "cores": 2,
    "git": {"commit": "0123456789abcdef", "dirty": False},
}


def write_runs(data: Collection, folder: Path) -> Path:
    """Every run of the collection as a directory below `folder`."""
    for row in data.runs.to_dict("records"):
        values: dict[str, Any] = {str(k): None if v != v else v for k, v in row.items()}
        run = str(values.pop("run"))
        path = folder / run
        path.mkdir(parents=True)
        requests = data.requests[data.requests["run"] == run].drop(columns="run")
        lines = requests.astype(object).where(requests.notna(), None).to_dict("records")
        (path / "requests.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        _table(data.steps, run, path / "steps.parquet")
        _table(data.trees, run, path / "trees.parquet")
        if run in data.costs:
            data.costs[run].save(path / "cost_table.json")
        config = {"results_dir": str(folder), "limit": 4, "max_new_tokens": 18, "seed": 0}
        config |= {"calibration": str(folder / "calibration.jsonl"), "method": values["parameters"]}
        (path / "config.yaml").write_text(OmegaConf.to_yaml(OmegaConf.create(config)))
        (path / "provenance.json").write_text(json.dumps({"parts": [PROVENANCE]}))
        replace_text(path / "result.json", json.dumps(values))
    return folder


def _table(frame: pd.DataFrame, run: str, path: Path) -> None:
    rows = frame[frame["run"] == run].drop(columns="run")
    if len(rows):
        rows.to_parquet(path, index=False)

"""With what settings and on what machine each run was made: read back, free of local paths."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

DROPPED = ("results_dir", "run_hash", "pair_hash")


@dataclass(frozen=True)
class Facts:
    """config: the resolved config of one run. parts: the provenance of each process of it."""

    config: dict[str, Any] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)


def read_facts(run: Path) -> Facts:
    """Facts of one run directory; empty where a file is missing or no mapping."""
    config: Any = {}
    if (run / "config.yaml").is_file():
        config = OmegaConf.to_container(OmegaConf.load(run / "config.yaml"))
    parts: Any = []
    if (run / "provenance.json").is_file():
        parts = json.loads((run / "provenance.json").read_text(encoding="utf-8")).get("parts", [])
    kept = {key: value for key, value in dict(config).items() if key not in DROPPED}
    return Facts(without_paths(kept), without_paths(parts))


def without_paths(values: Any) -> Any:
    """The same plain data with absolute paths cut down to their last part."""
    if isinstance(values, dict):
        return {key: without_paths(value) for key, value in values.items()}
    if isinstance(values, list):
        return [without_paths(value) for value in values]
    if isinstance(values, str) and values.startswith("/") and "\n" not in values:
        return Path(values).name
    return values

"""With what settings and on what machine each run was made: read back, free of local paths."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

DROPPED = ("results_dir", "run_hash", "pair_hash")


@dataclass(frozen=True)
class Facts:
    """config: the resolved config of one run. parts: the provenance of each process of it."""

    config: dict[str, Any] = field(default_factory=dict)
    parts: list[dict[str, Any]] = field(default_factory=list)


def read_facts(run: Path) -> Facts:
    """Facts of one run directory; empty where a file is missing, damaged or no mapping."""
    config = _mapping(run / "config.yaml", OmegaConf.create)
    parts = _mapping(run / "provenance.json", json.loads).get("parts")
    kept = {key: value for key, value in config.items() if key not in DROPPED}
    whole = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
    return Facts(without_paths(kept), without_paths(whole))


def _mapping(file: Path, parse: Callable[[str], Any]) -> dict[str, Any]:
    try:
        found = parse(file.read_text(encoding="utf-8"))
        plain: Any = OmegaConf.to_container(found) if isinstance(found, DictConfig) else found
    except Exception:  # a parser on arbitrary bytes may raise what it likes
        return {}
    return plain if isinstance(plain, dict) else {}


def without_paths(values: Any) -> Any:
    """The same plain data with absolute paths cut down to their last part."""
    if isinstance(values, dict):
        return {key: without_paths(value) for key, value in values.items()}
    if isinstance(values, list):
        return [without_paths(value) for value in values]
    if isinstance(values, str) and values.startswith("/") and "\n" not in values:
        return Path(values).name
    return values

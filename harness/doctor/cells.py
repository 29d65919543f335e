"""Which model runs here on which engine, and what to type where it does not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from huggingface_hub import try_to_load_from_cache

from evict.errors import InputError
from harness.config import ROOT, ModelConfig, RunConfig
from harness.doctor.settings import engines, models
from harness.requirements import Gpus, check, check_packages, find_gpus

REPLAYS = "on trees that record_trees=true recorded; no model"
PREDICTS = "predicted for the device that hardware= names; no model"


@dataclass(frozen=True)
class Cell:
    """One model on one engine. note: what is missing, or what running takes; hint: what to type."""

    model: str
    engine: str
    runs: bool
    note: str = ""
    hint: str = ""


def cells(gpus: Gpus | None = None) -> list[Cell]:
    """Every file of conf/model with every engine, on this machine or on one with these GPUs."""
    found, known = gpus or find_gpus(), engines()
    return [
        _cell(name, model, engine, node, found)
        for name, model in models().items()
        for engine, node in known.items()
    ]


def _cell(name: str, model: ModelConfig, engine: str, node: dict[str, Any], gpus: Gpus) -> Cell:
    config = RunConfig(model=model, engine=node)
    try:
        check(config, gpus)
        check_packages(config)
    except InputError as error:
        parts = (("", error.what), ("seen: ", error.seen), ("allowed: ", error.allowed))
        note = "; ".join(f"{word}{part}" for word, part in parts if part is not None)
        return Cell(name, engine, False, note, error.hint or "")
    without = REPLAYS if "recording" in node else PREDICTS
    return Cell(name, engine, True, _takes(model) if node.get("runs_model", True) else without)


def _takes(model: ModelConfig) -> str:
    """What has to be fetched first, if anything."""
    if (ROOT / model.target).is_dir():
        return ""
    if isinstance(try_to_load_from_cache(model.target, "config.json"), str):
        return "(its weights are in the hub's cache)"
    size = f", {model.total_params_b:.0f} billion parameters" if model.total_params_b else ""
    return f"once {model.target} is fetched{size}"

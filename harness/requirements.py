"""Whether this machine can run a model at all, asked before anything heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.config import ROOT, ModelConfig, RunConfig, known
from harness.engines.sglang.support import check_version
from harness.hardware.gpu import Gpus, find_gpus
from harness.hardware.software import package_version

__all__ = ["RUNS_ANYWHERE", "Gpus", "check", "check_packages", "find_gpus"]

RUNS_ANYWHERE = "model=lab runs on any CPU"
PACKAGES: Mapping[str, Callable[[], object]] = {  # what an engine's code needs, by where it lies
    "harness.engines.sglang.": lambda: check_version(package_version("sglang")),
}


def check(config: RunConfig, gpus: Gpus | None = None) -> None:
    """InputError that says what the model needs, what was found and what to type instead."""
    model, engine = config.model, config.engine["name"]
    if not config.engine.get("runs_model", True):
        return
    if engine not in model.engines:
        allowed = ", ".join(model.engines)
        raise InputError(f"{model.label} does not run on this engine", seen=engine, allowed=allowed)
    _check_gpus(model, gpus)
    _check_device(config.engine, gpus)
    if engine not in known("engine"):
        raise InputError(
            f"{model.label} runs on the engine {engine}, which this version does not ship yet",
            allowed="engine=" + ", ".join(name for name in known("engine") if name != "auto"),
            hint=_other_engine(model) or RUNS_ANYWHERE,
        )
    if model.lab:
        _check_files(model)


def check_packages(config: RunConfig) -> None:
    """InputError when a package that the engine needs is missing or of an unsupported version."""
    for prefix, demand in PACKAGES.items():
        if str(config.engine.get("_target_", "")).startswith(prefix):
            demand()


def _check_gpus(model: ModelConfig, gpus: Gpus | None) -> None:
    need = model.requires
    if not need.gpus:
        return
    found = gpus if gpus is not None else find_gpus()
    # A card sold as 80 GiB reports a little less.
    fitting = [memory for memory in found.memory_gib if memory >= 0.97 * need.gpu_memory_gib]
    if len(fitting) < need.gpus:
        raise InputError(
            f"{model.label} needs {need.gpus} GPU(s) with {need.gpu_memory_gib:.0f} GiB each",
            seen=str(found),
            hint=f"python run.py model=lab ({RUNS_ANYWHERE})",
        )


def _check_device(engine: Mapping[str, Any], gpus: Gpus | None) -> None:
    if engine.get("device") != "cuda":
        return
    found = gpus if gpus is not None else find_gpus()
    if not found.memory_gib:
        raise InputError(
            f"engine={engine['name']} runs on a GPU",
            seen=str(found),
            hint="engine=torch, or engine.device=cpu where the engine can",
        )


def _other_engine(model: ModelConfig) -> str | None:
    here = [name for name in model.engines if name in known("engine")]
    return f"engine={here[0]} engine.device=cuda engine.dtype=bfloat16" if here else None


def _check_files(model: ModelConfig) -> None:
    for path in (model.target, model.draft):
        if path is not None and not (Path(ROOT) / path).is_dir():
            raise InputError(
                f"weights of the {model.label} are missing",
                seen=path,
                hint="git checkout -- harness/lab/weights, or python -m harness.lab.train",
            )

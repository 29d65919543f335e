"""Models and engines as conf/ describes them, read without anything that imports torch."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import hydra
from hydra.core.global_hydra import GlobalHydra
from omegaconf import OmegaConf

from harness.config import CONF, ModelConfig, known


def results_dir() -> Path:
    """Where runs go unless a command line says otherwise."""
    return Path(OmegaConf.load(CONF / "config.yaml").results_dir)


def models() -> dict[str, ModelConfig]:
    """Every file under conf/model, by name."""
    with _hydra():
        nodes = {name: hydra.compose(f"model/{name}")["model"] for name in known("model")}
    typed = OmegaConf.structured(ModelConfig)
    merged = {name: OmegaConf.merge(typed, node) for name, node in nodes.items()}
    return {name: cast(ModelConfig, OmegaConf.to_object(node)) for name, node in merged.items()}


def engines() -> dict[str, dict[str, Any]]:
    """Every file under conf/engine that builds one, by name; interpolations are left open."""
    with _hydra():
        nodes = {name: hydra.compose(f"engine/{name}")["engine"] for name in known("engine")}
    plain = {name: cast(dict[str, Any], OmegaConf.to_container(nodes[name])) for name in nodes}
    return {name: node for name, node in plain.items() if "_target_" in node}


def engine_threads() -> dict[str, int]:
    """Threads that an engine's own file asks for, by engine; those without such a setting not."""
    found = engines().items()
    return {name: int(node["threads"]) for name, node in found if "threads" in node}


@contextmanager
def _hydra() -> Iterator[None]:
    """Hydra for a moment, unless somebody has started it already."""
    if GlobalHydra.instance().is_initialized():
        yield
        return
    with hydra.initialize_config_dir(version_base="1.3", config_dir=str(CONF)):
        yield

"""The software beneath a run: versions, what the project asks for, settings of threads."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import InvalidVersion

DISTRIBUTION = "evict-bench"
MEASURED_WITH = (
    "torch",
    "transformers",
    "tokenizers",
    "safetensors",
    "numpy",
    "scipy",
    "pandas",
    "datasets",
    "hydra-core",
    "psutil",
    "nvidia-ml-py",
    "sglang",
    "sglang-kernel",
    "flashinfer-python",
    "triton",
)
THREADS = (
    "OMP_NUM_THREADS",
    "OMP_PROC_BIND",
    "OMP_PLACES",
    "OMP_WAIT_POLICY",
    "KMP_AFFINITY",
    "KMP_BLOCKTIME",
    "GOMP_CPU_AFFINITY",
    "MKL_NUM_THREADS",
    "MKL_DYNAMIC",
    "OPENBLAS_NUM_THREADS",
    "ATEN_CPU_CAPABILITY",
    "CUDA_VISIBLE_DEVICES",
    "CUDA_LAUNCH_BLOCKING",
)


def package_version(package: str) -> str | None:
    """Installed version; None when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def package_versions() -> dict[str, str | None]:
    """Version of every package that a number may depend on, None where it is not installed."""
    return {name: package_version(name) for name in MEASURED_WITH}


def system() -> dict[str, str]:
    """Python's version, and the platform with its C library where Python can tell."""
    return {"python": sys.version.split()[0], "platform": platform.platform()}


def thread_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str | None]:
    """Environment variables that say how many threads compute and where; None where unset."""
    return {name: environ.get(name) for name in THREADS}


@dataclass(frozen=True)
class Package:
    """A requirement of the project against what is installed; extra: "" for one always needed."""

    requirement: str
    extra: str
    installed: str | None
    fits: bool


def packages(pyproject: Path) -> list[Package]:
    """Every requirement that holds on this machine, of pyproject.toml or, without it, as installed.

    One whose extra nobody installed counts as fitting.
    """
    found = []
    for extra, text in _requirements(pyproject):
        wanted = Requirement(text)
        if wanted.name != DISTRIBUTION and (wanted.marker is None or wanted.marker.evaluate()):
            version = package_version(wanted.name)
            found.append(Package(text, extra, version, _fits(wanted, version, extra)))
    return found


def _fits(wanted: Requirement, version: str | None, extra: str) -> bool:
    if version is None:
        return bool(extra)
    try:
        return wanted.specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _requirements(pyproject: Path) -> Iterable[tuple[str, str]]:
    if not pyproject.is_file():
        try:
            installed = importlib.metadata.requires(DISTRIBUTION) or []
        except importlib.metadata.PackageNotFoundError:
            installed = []
        return [("", text) for text in installed if "extra ==" not in text]
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = project.get("optional-dependencies", {})
    needed = [("", text) for text in project["dependencies"]]
    return [*needed, *((extra, text) for extra, texts in extras.items() for text in texts)]

"""Where and with what a run was made: software, processor, git, GPUs. Nothing is installed."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

from harness.config import ROOT
from harness.machine import cpu_model, package_version
from harness.requirements import find_gpus

PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy", "scipy", "datasets")


def collect_provenance() -> dict[str, Any]:
    """A plain dict; a fact that cannot be read is None."""
    gpus = find_gpus()
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": {name: package_version(name) for name in PACKAGES},
        "cpu": cpu_model(),
        "cores": os.cpu_count(),
        "load_average": list(os.getloadavg()) if hasattr(os, "getloadavg") else None,
        "git": _git(ROOT),
        "gpus": [{"memory_gib": round(memory, 1)} for memory in gpus.memory_gib],
        "gpus_reason": gpus.reason,
    }


def _git(root: Path) -> dict[str, Any] | None:
    """Commit and dirtiness, only if this very repository tracks run.py."""
    if _run(root, "ls-files", "--error-unmatch", "run.py") is None:
        return None
    commit = _run(root, "rev-parse", "HEAD")
    status = _run(root, "status", "--porcelain", "--untracked-files=no")
    return {"commit": commit, "dirty": None if status is None else bool(status)}


def _run(root: Path, *arguments: str) -> str | None:
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None

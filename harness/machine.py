"""Facts of this machine that provenance and engines both name."""

from __future__ import annotations

import importlib.metadata
import platform
from pathlib import Path


def package_version(package: str) -> str | None:
    """Installed version; None when it is not installed."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def cpu_model() -> str | None:
    """The processor's marketing name, as far as the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.is_file():
        for line in info.read_text(errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or None


def gpu_name() -> str | None:
    """Name of the first GPU as the driver tells it; None without one."""
    try:
        import pynvml  # the module name of nvidia-ml-py
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        name = pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(0))
    except pynvml.NVMLError:
        return None
    pynvml.nvmlShutdown()
    return name if isinstance(name, str) else bytes(name).decode()

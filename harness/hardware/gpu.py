"""The GPUs that this process may use, and how to find them; never raises."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from harness.hardware.nvidia import Gpu, GpuReading, decoded

__all__ = ["Gpu", "GpuReading", "GpuSession", "Gpus", "find_gpus", "gpu_name", "open_gpus"]

VISIBLE = "CUDA_VISIBLE_DEVICES"


@dataclass
class GpuSession:
    """The GPUs that this process may use; `reason` says why there are none."""

    gpus: list[Gpu] = field(default_factory=list)
    reason: str | None = None
    nvml: Any = None

    def close(self) -> None:
        """Let go of the driver; a second call does nothing."""
        nvml, self.nvml = self.nvml, None
        if nvml is not None:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()


def open_gpus(nvml: Any = None, environ: Mapping[str, str] | None = None) -> GpuSession:
    """Ask the driver for the GPUs; never raises.

    nvml: pynvml or a stand-in, None to import it. environ: whose CUDA_VISIBLE_DEVICES counts; by
    default the process's own with the real NVML, and nobody's with a stand-in.
    """
    if nvml is None:
        environ = os.environ if environ is None else environ
        try:
            nvml = importlib.import_module("pynvml")  # the module name of nvidia-ml-py
        except ImportError:
            return GpuSession(reason="nvidia-ml-py is not installed")
    try:
        nvml.nvmlInit()
    except nvml.NVMLError as error:
        missing = error.value in (
            nvml.NVML_ERROR_LIBRARY_NOT_FOUND,
            nvml.NVML_ERROR_DRIVER_NOT_LOADED,
        )
        return GpuSession(reason="no NVIDIA driver" if missing else f"NVML: {error}")
    session = GpuSession(nvml=nvml)
    try:
        session.gpus = _gpus(nvml)
    except nvml.NVMLError as error:
        session.close()
        return GpuSession(reason=f"NVML: {error}")
    _keep_visible(session, (environ or {}).get(VISIBLE))
    return session


def _gpus(nvml: Any) -> list[Gpu]:
    count = nvml.nvmlDeviceGetCount()
    driver = decoded(nvml.nvmlSystemGetDriverVersion())
    return [Gpu(nvml, i, nvml.nvmlDeviceGetHandleByIndex(i), driver) for i in range(count)]


def _keep_visible(session: GpuSession, setting: str | None) -> None:
    if not session.gpus:
        session.reason = "the NVIDIA driver sees no GPU"
    elif setting is not None:
        uuids = [str(gpu.facts()["uuid"]) for gpu in session.gpus]
        session.gpus = [session.gpus[i] for i in visible_indices(setting, uuids)]
        session.reason = None if session.gpus else f"{VISIBLE}={setting!r} hides every GPU"


def visible_indices(setting: str, uuids: Sequence[str]) -> list[int]:
    """Which GPUs a CUDA_VISIBLE_DEVICES shows, in its order: indices or starts of uuids.

    As CUDA does, it stops at the first entry that names no GPU. Parts of a GPU (MIG) are not told
    apart: with them all GPUs are shown.
    """
    found: list[int] = []
    for entry in (part.strip() for part in setting.split(",")):
        if entry.startswith("MIG"):
            return list(range(len(uuids)))
        named = [i for i, uuid in enumerate(uuids) if entry == str(i) or _starts(uuid, entry)]
        if len(named) != 1:
            break
        found += named
    return found


def _starts(uuid: str, entry: str) -> bool:
    return entry.startswith("GPU-") and uuid.startswith(entry)


def gpu_name() -> str | None:
    """Name of the first GPU as the driver tells it; None without one."""
    session = open_gpus()
    try:
        return next((gpu.facts()["name"] for gpu in session.gpus), None)
    finally:
        session.close()


@dataclass(frozen=True)
class Gpus:
    """Memory of each visible GPU in GiB, or why none was found."""

    memory_gib: tuple[float, ...]
    reason: str | None = None

    def __str__(self) -> str:
        if self.reason:
            return f"no GPU ({self.reason})"
        return ", ".join(f"{memory:.0f} GiB" for memory in self.memory_gib) or "no GPU"


def find_gpus() -> Gpus:
    """Memory of the GPUs that this process may use; never raises."""
    session = open_gpus()
    try:
        return Gpus(tuple(gpu.memory_gib() or 0.0 for gpu in session.gpus), session.reason)
    finally:
        session.close()

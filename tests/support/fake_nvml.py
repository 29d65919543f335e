"""A stand-in for the pynvml module: the names we call, scripted per GPU, in NVML's units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 2**30
NOT_SUPPORTED = pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)
LOST = pynvml.NVMLError(pynvml.NVML_ERROR_GPU_IS_LOST)


@dataclass
class FakeGpu:
    """One GPU. A list gives one value per call, its last one for ever; an exception is raised.

    clock_mhz: the SM clock. busy: share of time in use, 0..1. throttle: a bit mask of pynvml's
    nvmlClocksEventReason*; throttle_older: what the same question under its older name gives.
    processes: pids of compute processes, as a tuple.
    """

    name: Any = "NVIDIA H100 80GB HBM3"
    uuid: Any = "GPU-5c0ffee0-0000-0000-0000-000000000000"
    memory_total_gib: Any = 80.0
    memory_used_mib: Any = 1024.0
    clock_mhz: Any = 1980
    clock_max_mhz: Any = 1980
    power_w: Any = 400.0
    power_limit_w: Any = 700.0
    power_default_w: Any = 700.0
    energy_j: Any = 0.0
    busy: Any = 0.9
    temperature_c: Any = 55
    throttle: Any = 0
    throttle_older: Any = 0
    processes: Any = ()
    persistent: Any = True


@dataclass
class FakeNvml:
    """What `open_gpus` takes in place of pynvml.

    init, driver: may be scripted as a GPU's fields. unseen: pids of another pid namespace, whose
    names NVML cannot tell. opened: how often it was initialised and not yet shut down.
    """

    gpus: Sequence[FakeGpu] = field(default_factory=lambda: [FakeGpu()])
    driver: Any = "570.86.15"
    init: Any = None
    unseen: frozenset[int] = frozenset()
    opened: int = 0
    _calls: dict[tuple[int, str], int] = field(default_factory=dict)

    NVMLError = pynvml.NVMLError
    NVML_CLOCK_SM = pynvml.NVML_CLOCK_SM
    NVML_TEMPERATURE_GPU = pynvml.NVML_TEMPERATURE_GPU

    def __getattr__(self, name: str) -> Any:
        """Error codes and the bits that say why clocks are low; no other name that is not here."""
        if name.startswith(("NVML_ERROR_", "nvmlClocksEventReason")):
            return getattr(pynvml, name)
        raise AttributeError(name)

    def nvmlInit(self) -> None:
        self._next(self, "init")
        self.opened += 1

    def nvmlShutdown(self) -> None:
        self._check_open()
        self.opened -= 1

    def nvmlSystemGetDriverVersion(self) -> Any:
        self._check_open()
        return self._next(self, "driver")

    def nvmlSystemGetProcessName(self, pid: int) -> str:
        self._check_open()
        if pid in self.unseen:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_FOUND)
        return f"/usr/bin/process-{pid}"

    def nvmlDeviceGetCount(self) -> int:
        self._check_open()
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> FakeGpu:
        self._check_open()
        if not 0 <= index < len(self.gpus):
            raise pynvml.NVMLError(pynvml.NVML_ERROR_INVALID_ARGUMENT)
        return self.gpus[index]

    def nvmlDeviceGetName(self, handle: FakeGpu) -> Any:
        return self._read(handle, "name")

    def nvmlDeviceGetUUID(self, handle: FakeGpu) -> Any:
        return self._read(handle, "uuid")

    def nvmlDeviceGetMemoryInfo(self, handle: FakeGpu) -> Any:
        total = int(self._read(handle, "memory_total_gib") * GIB)
        used = int(self._read(handle, "memory_used_mib") * 2**20)
        return SimpleNamespace(total=total, used=used, free=total - used)

    def nvmlDeviceGetClockInfo(self, handle: FakeGpu, kind: int) -> Any:
        assert kind == self.NVML_CLOCK_SM
        return self._read(handle, "clock_mhz")

    def nvmlDeviceGetMaxClockInfo(self, handle: FakeGpu, kind: int) -> Any:
        assert kind == self.NVML_CLOCK_SM
        return self._read(handle, "clock_max_mhz")

    def nvmlDeviceGetPowerUsage(self, handle: FakeGpu) -> int:
        return round(self._read(handle, "power_w") * 1e3)

    def nvmlDeviceGetPowerManagementLimit(self, handle: FakeGpu) -> int:
        return round(self._read(handle, "power_limit_w") * 1e3)

    def nvmlDeviceGetPowerManagementDefaultLimit(self, handle: FakeGpu) -> int:
        return round(self._read(handle, "power_default_w") * 1e3)

    def nvmlDeviceGetTotalEnergyConsumption(self, handle: FakeGpu) -> int:
        return round(self._read(handle, "energy_j") * 1e3)

    def nvmlDeviceGetUtilizationRates(self, handle: FakeGpu) -> Any:
        return SimpleNamespace(gpu=round(self._read(handle, "busy") * 100), memory=0)

    def nvmlDeviceGetTemperature(self, handle: FakeGpu, sensor: int) -> Any:
        assert sensor == self.NVML_TEMPERATURE_GPU
        return self._read(handle, "temperature_c")

    def nvmlDeviceGetCurrentClocksEventReasons(self, handle: FakeGpu) -> Any:
        return self._read(handle, "throttle")

    def nvmlDeviceGetCurrentClocksThrottleReasons(self, handle: FakeGpu) -> Any:
        return self._read(handle, "throttle_older")

    def nvmlDeviceGetComputeRunningProcesses(self, handle: FakeGpu) -> list[Any]:
        pids = self._read(handle, "processes")
        return [SimpleNamespace(pid=pid, usedGpuMemory=GIB) for pid in pids]

    def nvmlDeviceGetPersistenceMode(self, handle: FakeGpu) -> int:
        return int(self._read(handle, "persistent"))

    def _read(self, handle: FakeGpu, name: str) -> Any:
        self._check_open()
        return self._next(handle, name)

    def _check_open(self) -> None:
        if self.opened <= 0:
            raise pynvml.NVMLError(pynvml.NVML_ERROR_UNINITIALIZED)

    def _next(self, owner: object, name: str) -> Any:
        value = getattr(owner, name)
        if isinstance(value, list):
            call = self._calls.get((id(owner), name), 0)
            self._calls[id(owner), name] = call + 1
            value = value[min(call, len(value) - 1)]
        if isinstance(value, Exception):
            raise value
        return value

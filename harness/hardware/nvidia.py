"""One GPU as its driver tells of it (NVML). Nothing here raises: what is not told is None."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, field
from pathlib import PurePath
from typing import Any, TypeVar

Told = TypeVar("Told")
THROTTLES = {  # an idle GPU and clocks that were set on purpose are no throttling
    "SwPowerCap": "sw_power_cap",
    "HwSlowdown": "hw_slowdown",
    "SyncBoost": "sync_boost",
    "SwThermalSlowdown": "sw_thermal",
    "HwThermalSlowdown": "hw_thermal",
    "HwPowerBrakeSlowdown": "hw_power_brake",
    "DisplayClockSetting": "display_clock",
}


@dataclass(frozen=True)
class GpuReading:
    """One GPU at one moment. clock_mhz: its SM clock. busy: share of time in use, 0..1.

    energy_j: counted by the GPU since its driver was loaded. throttle: reasons that lower its
    clocks, comma-separated, "" for none. foreign: compute processes that are not ours; None also
    when a process belongs to another pid namespace, so that nobody can tell whose it is.
    """

    clock_mhz: float | None
    power_w: float | None
    energy_j: float | None
    busy: float | None
    memory_mib: float | None
    temperature_c: float | None
    throttle: str | None
    foreign: int | None


@dataclass
class Gpu:
    """One GPU. absent: why its driver did not tell a value when last asked, by name."""

    nvml: Any
    index: int
    handle: Any
    driver: str | None
    absent: dict[str, str] = field(default_factory=dict)

    def facts(self) -> dict[str, Any]:
        """What stays while a run goes on."""
        nvml, handle = self.nvml, self.handle
        clock = nvml.NVML_CLOCK_SM
        return {
            "index": self.index,
            "name": self._text("name", lambda: nvml.nvmlDeviceGetName(handle)),
            "uuid": self._text("uuid", lambda: nvml.nvmlDeviceGetUUID(handle)),
            "driver": self.driver,
            "memory_gib": self.memory_gib(),
            "clock_max_mhz": self._number(
                "clock_max_mhz", lambda: nvml.nvmlDeviceGetMaxClockInfo(handle, clock)
            ),
            "power_limit_w": self._number(
                "power_limit_w", lambda: nvml.nvmlDeviceGetPowerManagementLimit(handle) / 1e3
            ),
            "power_default_w": self._number(
                "power_default_w",
                lambda: nvml.nvmlDeviceGetPowerManagementDefaultLimit(handle) / 1e3,
            ),
        }

    def memory_gib(self) -> float | None:
        """The whole memory, GiB, to a tenth."""
        total = self._number(
            "memory_gib", lambda: self.nvml.nvmlDeviceGetMemoryInfo(self.handle).total / 2**30
        )
        return None if total is None else round(total, 1)

    def read(self, own_pids: Collection[int]) -> GpuReading:
        """Everything that changes from moment to moment; own_pids: processes that are ours."""
        return self._reading(self.foreign_processes(own_pids))

    def state(self, own_pids: Collection[int]) -> dict[str, Any]:
        """A reading as plain data, with who else uses the GPU and whether its driver stays."""
        foreign = self.foreign_processes(own_pids)
        keeps = self._number(
            "persistence", lambda: self.nvml.nvmlDeviceGetPersistenceMode(self.handle)
        )
        return {
            "index": self.index,
            **asdict(self._reading(foreign)),
            "persistence": None if keeps is None else bool(keeps),
            "foreign_processes": foreign,
            "absent": dict(self.absent),
        }

    def foreign_processes(self, own_pids: Collection[int]) -> list[str] | None:
        """Program names of compute processes that are not ours; None when nobody can tell."""

        def names() -> list[str]:
            running = self.nvml.nvmlDeviceGetComputeRunningProcesses(self.handle)
            return [self._program(each.pid) for each in running if each.pid not in own_pids]

        return self._ask("foreign", names)

    def _reading(self, foreign: list[str] | None) -> GpuReading:
        nvml, handle = self.nvml, self.handle
        sensor, clock = nvml.NVML_TEMPERATURE_GPU, nvml.NVML_CLOCK_SM
        asked: dict[str, Callable[[], float]] = {
            "clock_mhz": lambda: nvml.nvmlDeviceGetClockInfo(handle, clock),
            "power_w": lambda: nvml.nvmlDeviceGetPowerUsage(handle) / 1e3,
            "energy_j": lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3,
            "busy": lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100,
            "memory_mib": lambda: nvml.nvmlDeviceGetMemoryInfo(handle).used / 2**20,
            "temperature_c": lambda: nvml.nvmlDeviceGetTemperature(handle, sensor),
        }
        return GpuReading(
            **{name: self._number(name, call) for name, call in asked.items()},
            throttle=self._ask("throttle", self._throttle),
            foreign=None if foreign is None else len(foreign),
        )

    def _program(self, pid: int) -> str:
        nvml = self.nvml
        try:
            return PurePath(decoded(nvml.nvmlSystemGetProcessName(pid))).name
        except nvml.NVMLError as error:
            if error.value == nvml.NVML_ERROR_NOT_FOUND:
                raise LookupError(f"process {pid} is of another pid namespace") from None
            return f"process {pid}"

    def _throttle(self) -> str:
        nvml = self.nvml
        try:
            bits = nvml.nvmlDeviceGetCurrentClocksEventReasons(self.handle)
        except nvml.NVMLError as error:
            if error.value != nvml.NVML_ERROR_FUNCTION_NOT_FOUND:
                raise
            bits = nvml.nvmlDeviceGetCurrentClocksThrottleReasons(self.handle)  # older drivers
        known = (
            (getattr(nvml, f"nvmlClocksEventReason{key}"), THROTTLES[key]) for key in THROTTLES
        )
        return ",".join(word for bit, word in known if bits & bit)

    def _text(self, name: str, call: Callable[[], str | bytes]) -> str | None:
        return self._ask(name, lambda: decoded(call()))

    def _number(self, name: str, call: Callable[[], float]) -> float | None:
        return self._ask(name, lambda: float(call()))

    def _ask(self, name: str, call: Callable[[], Told]) -> Told | None:
        try:
            value = call()
        except (self.nvml.NVMLError, LookupError) as error:
            self.absent[name] = str(error)
            return None
        self.absent.pop(name, None)
        return value


def decoded(text: str | bytes) -> str:
    """Text of NVML, which older versions give as bytes."""
    return text.decode() if isinstance(text, bytes) else text

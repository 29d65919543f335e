"""What else the machine did while a run was measured."""

from __future__ import annotations

from collections.abc import Iterable

from harness.validity.limits import LIMITS
from harness.validity.verdict import Reason
from harness.validity.view import RunView


def cpu_load(view: RunView) -> Iterable[Reason]:
    """Other processes took cores away from a run on the CPU."""
    others, cores = _others(view), _cores(view)
    if others is None or cores is None or others <= LIMITS.others_cores_share * cores:
        return
    text = (
        f"others used {others:.1f} of {cores:.0f} cores, "
        f"allowed {LIMITS.others_cores_share * cores:.1f}; stop them and measure again"
    )
    yield Reason("cpu_load", text, "invalid", "time")


def cpu_load_unknown(view: RunView) -> Iterable[Reason]:
    """Nothing shows that a run on the CPU had it for itself."""
    if view.on_gpu or not view.complete:
        return
    if _others(view) is None:
        absent = view.result.absent
        why = absent.get("cpu.load") or absent.get("cpu") or "too short to tell, or not sampled"
        yield Reason("cpu_load_unknown", why, "unknown", "time")
    elif _cores(view) is None:
        yield Reason("cpu_load_unknown", "number of cores not recorded", "unknown", "time")


def foreign_gpu_process(view: RunView) -> Iterable[Reason]:
    """Somebody else computed on the GPU."""
    if view.usage is not None and view.usage.foreign:
        text = f"{view.usage.foreign} processes of others on the GPU; stop them and measure again"
        yield Reason("foreign_gpu_process", text, "invalid", "time")


def _others(view: RunView) -> float | None:
    return None if view.on_gpu or view.usage is None else view.usage.others_cores


def _cores(view: RunView) -> float | None:
    found = view.result.fingerprint.get("machine.cores")
    return float(found) if found else None

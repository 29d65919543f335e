"""Whether the GPU of a run was busy, read, and free to run at its clocks."""

from __future__ import annotations

from collections.abc import Iterable

from harness.validity.limits import LIMITS
from harness.validity.verdict import Reason
from harness.validity.view import RunView

THROTTLE = ".throttle"


def no_gpu_telemetry(view: RunView) -> Iterable[Reason]:
    """A run on a GPU of which its driver told nothing, or not all that clears a run."""
    if not (view.on_gpu and view.complete):
        return
    usage = view.usage
    if usage is None or usage.busy_share is None:
        why = view.result.absent.get("gpu") or "its driver said nothing while it was measured"
        yield Reason("no_gpu_telemetry", why, "unknown", "time")
        return
    told = {"clocks": usage.gpu_clock_mhz, "processes of others": usage.foreign}
    missing = [name for name, value in told.items() if value is None]
    missing += ["throttle reasons"] * any(name.endswith(THROTTLE) for name in view.result.absent)
    if missing and not _few(view):
        text = f"not told: {', '.join(missing)}"
        yield Reason("no_gpu_telemetry", text, "unknown", "time")


def few_busy_samples(view: RunView) -> Iterable[Reason]:
    """Too few samples of a working GPU for a median clock to mean anything."""
    if _few(view):
        assert view.usage is not None
        text = (
            f"too few busy samples: {view.usage.busy_samples}, a share of "
            f"{view.usage.busy_share:.2f}; needed {LIMITS.busy_samples} and "
            f"{LIMITS.busy_share:g}: more prompts, longer answers"
        )
        yield Reason("few_busy_samples", text, "invalid", "time")


def throttled(view: RunView) -> Iterable[Reason]:
    """Something lowered the GPU's clocks while it was measured."""
    if view.usage is not None and view.usage.throttle:
        text = f"clocks lowered: {', '.join(view.usage.throttle)}"
        yield Reason("throttled", text, "unknown", "time")


def _few(view: RunView) -> bool:
    usage = view.usage
    if not view.on_gpu or usage is None or usage.busy_share is None:
        return False
    return usage.busy_samples < LIMITS.busy_samples or usage.busy_share < LIMITS.busy_share

"""Energy of windows: from a counter where there is one, else from power; never a partial sum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from harness.telemetry.readings import Floats, Readings

GAP_LIMIT_S = 3.0


@dataclass(frozen=True)
class WindowEnergies:
    """joules_W is NaN where a window has no energy; `reason` says why.

    counted_W: there is a counter. gap_s_W, back_s_W: the longest and the shortest time between
    two samples; below 0 the clock went back.
    """

    joules_W: Floats
    counted_W: npt.NDArray[np.bool_]
    gap_s_W: Floats
    back_s_W: Floats

    def reason(self, window: int) -> str | None:
        """Why this window has no energy, None if it has."""
        if not np.isnan(self.joules_W[window]):
            return None
        if self.counted_W[window]:
            return "the energy counter went back"
        if self.back_s_W[window] < 0:
            return f"the clock went back {-self.back_s_W[window]:.1f} s"
        if self.gap_s_W[window] > GAP_LIMIT_S:
            return f"gap {self.gap_s_W[window]:.1f} s"
        return "energy was not read"


def window_energies(device: Readings) -> WindowEnergies:
    """Joules between the first and the last sample of every window.

    The counter's difference where it was read at both ends, invalid when it went back in between.
    Else the trapezoid over power, invalid when more than 3 s between two samples were not seen.
    """
    several_W = device.lasts_W > device.firsts_W
    counter_W = device.across("energy_j")
    counted_W = ~np.isnan(counter_W) & several_W
    back_W = np.fmin.reduceat(device.steps("energy_j"), device.firsts_W) < 0
    passed_N, power_N = device.steps("at_ms") / 1e3, device.numbers["power_w"]
    area_N = passed_N * (power_N + np.roll(power_N, -1)) / 2
    area_N[device.lasts_W] = 0.0
    gap_W = np.maximum.reduceat(passed_N, device.firsts_W)
    past_W = np.minimum.reduceat(passed_N, device.firsts_W)
    seen_W = several_W & (gap_W <= GAP_LIMIT_S) & (past_W >= 0)
    trapezoid_W = np.where(seen_W, np.add.reduceat(area_N, device.firsts_W), np.nan)
    joules_W = np.where(counted_W, np.where(back_W, np.nan, counter_W), trapezoid_W)
    return WindowEnergies(joules_W, counted_W, gap_W, past_W)


def total_energy(devices: Sequence[Readings], generations: int) -> tuple[float | None, str | None]:
    """(joules of all devices in all generations, None) or (None, why not).

    Every device must have a window with energy for each of the generations.
    """
    if not devices or not generations:
        return None, "no telemetry"
    total = 0.0
    for device in devices:
        missing = generations - len(device.firsts_W)
        if missing:
            return None, f"no sample ({_share(device, missing, generations)})"
        found = window_energies(device)
        holes = np.flatnonzero(np.isnan(found.joules_W))
        if len(holes):
            reason = found.reason(int(holes[0]))
            return None, f"{reason} ({_share(device, len(holes), generations)})"
        total += float(found.joules_W.sum())
    return total, None


def _share(device: Readings, part: int, whole: int) -> str:
    return f"{device.device}, {part} of {whole} generations"

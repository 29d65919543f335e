"""The paper's setting, fitted on what may be read: 7 numbers for C(k), one difficulty per cell.

Per model: target_ms closes the gap to vanilla's speed, rho the gap to EAGLE-3's step. One draft_ms
for all three closes the gap to figure 2's range of verification shares. Per cell: the difficulty
that gives EAGLE-3's Mat, and the factor between the cell's EAGLE-3 step and the model's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from evict.errors import InputError
from harness.simulate.acceptance import Draws, Spread
from harness.simulate.cost import Calibration, Setting, StepCost, step_cost
from harness.simulate.difficulty import MatCurve
from harness.simulate.readable import FitView

Cell = tuple[int, str]
MOST_DRAFT_MS = 20.0
RHO_RANGE = (1e-6, 1.0 - 1e-6)


@dataclass(frozen=True)
class Assumptions:
    """What no readable number says; varied to see what a prediction owes to it.

    tree_share: what verifying one node costs beyond a plain pass, as a share of C_AR.
    more_draft_ms: added to the fitted drafting time.
    """

    tree_share: float = 0.0
    more_draft_ms: float = 0.0


@dataclass(frozen=True)
class CellFit:
    """One temperature and benchmark: the drafter's difficulty there, and the step's own factor."""

    difficulty: float
    scale: float


@dataclass(frozen=True, eq=False)
class ModelFit:
    """One model: its setting, what was fitted, and the means it was fitted to (ms)."""

    setting: Setting
    calibration: Calibration
    vanilla_ms: float
    eagle3_ms: float
    verify_share: float
    cells: Mapping[Cell, CellFit]

    def cost(self, scale: float = 1.0) -> StepCost:
        """C(k) of the model (scale 1) or of one of its cells."""
        return step_cost(self.setting, replace(self.calibration, scale=scale))


@dataclass(frozen=True, eq=False)
class PaperFit:
    """Every model's fit, and the drafter's spread and draws that the difficulties belong to."""

    models: Mapping[str, ModelFit]
    spread: Spread
    draws: Draws
    curve: MatCurve


def fit_paper(
    view: FitView,
    settings: Mapping[str, Setting],
    spread: Spread,
    draws: Draws,
    assumed: Assumptions | None = None,
    curve: MatCurve | None = None,
) -> PaperFit:
    """Fit every model of `settings` to the readable numbers, and to nothing else.

    curve: the `paper_curve` of these draws and this spread, where it is at hand already.
    """
    taken = assumed or Assumptions()
    vanilla = {name: _vanilla_ms(view, name) for name in settings}
    steps = {name: _eagle3_ms(view, name) for name in settings}
    mean_steps = {name: float(np.mean(list(cells.values()))) for name, cells in steps.items()}
    draft_ms = fit_drafting(settings, mean_steps, view) + taken.more_draft_ms
    curve = curve or paper_curve(settings, spread, draws)
    models = {}
    for name, setting in settings.items():
        tree_ms = taken.tree_share * vanilla[name]
        fitted = fit_cost(setting, vanilla[name], mean_steps[name], draft_ms, tree_ms)
        mats = view.cells("mean_accepted_tokens", "eagle3", name)
        cells = {
            cell: CellFit(curve.find(float(mats[cell])), step / mean_steps[name])
            for cell, step in steps[name].items()
        }
        share = _verify_share(setting, fitted, mean_steps[name])
        models[name] = ModelFit(setting, fitted, vanilla[name], mean_steps[name], share, cells)
    return PaperFit(models, spread, draws, curve)


def fit_cost(
    setting: Setting,
    vanilla_ms: float,
    full_step_ms: float,
    draft_ms: float,
    tree_ms: float = 0.0,
) -> Calibration:
    """target_ms from a plain step, then rho from a step that verifies the whole tree.

    InputError where even identical or uniform routing cannot make the step that short or long.
    """
    target_ms = vanilla_ms - step_cost(setting).ar_ms
    given = Calibration(target_ms=target_ms, tree_ms=tree_ms, draft_ms=draft_ms)

    def excess(rho: float) -> float:
        cost = step_cost(setting, replace(given, rho=rho))
        return float(cost.step_ms()[-1]) - full_step_ms

    high, low = excess(RHO_RANGE[0]), excess(RHO_RANGE[1])
    if not low <= 0 <= high:
        raise InputError(
            f"no routing overlap explains the step of {setting.model.name}",
            seen=f"{full_step_ms:.2f} ms",
            allowed=f"{full_step_ms + low:.2f} to {full_step_ms + high:.2f} ms",
            hint="check the hardware, its efficiencies and tensor_parallel",
        )
    rho = brentq(excess, *RHO_RANGE) if low < high else 0.0
    return replace(given, rho=float(rho))


def fit_drafting(
    settings: Mapping[str, Setting], step_ms: Mapping[str, float], view: FitView
) -> float:
    """The draft_ms, the same for all models, whose verification shares span figure 2's range."""
    low, high = view.claim("verify_share_low"), view.claim("verify_share_high")

    def misfit(draft_ms: float) -> float:
        fitted = Calibration(draft_ms=draft_ms)
        shares = [_verify_share(settings[name], fitted, ms) for name, ms in step_ms.items()]
        return (min(shares) - low) ** 2 + (max(shares) - high) ** 2

    return float(minimize_scalar(misfit, bounds=(0.0, MOST_DRAFT_MS), method="bounded").x)


def drafting_ends(
    settings: Mapping[str, Setting], step_ms: Mapping[str, float], view: FitView
) -> tuple[float, float]:
    """The draft_ms that the lowest and the highest share of figure 2 ask for by themselves."""
    rest = {name: _verify_share(settings[name], Calibration(), ms) for name, ms in step_ms.items()}
    least, most = min(rest, key=rest.__getitem__), max(rest, key=rest.__getitem__)
    low, high = view.claim("verify_share_low"), view.claim("verify_share_high")
    return (rest[least] - low) * step_ms[least], (rest[most] - high) * step_ms[most]


def _verify_share(setting: Setting, fitted: Calibration, step_ms: float) -> float:
    cost = step_cost(setting, fitted)
    beside = cost.step_ms()[-1] - cost.stage_ms("verify")[-1]
    return float(1.0 - beside / step_ms)


def _vanilla_ms(view: FitView, model: str) -> float:
    return float((1e3 / view.cells("decoding_speed", "vanilla", model)).mean())


def _eagle3_ms(view: FitView, model: str) -> dict[Cell, float]:
    speeds = view.cells("decoding_speed", "eagle3", model)
    mats = view.cells("mean_accepted_tokens", "eagle3", model)
    return {cell: 1e3 * float(mats[cell]) / float(speeds[cell]) for cell in mats.index}


def paper_curve(settings: Mapping[str, Setting], spread: Spread, draws: Draws) -> MatCurve:
    """Mat over difficulty for the one tree shape of these settings."""
    shapes = {(setting.steps, setting.draft_tokens) for setting in settings.values()}
    if len(shapes) != 1:
        raise InputError("settings of one fit with different trees", seen=shapes, allowed="one")
    return MatCurve.make(draws, spread, *shapes.pop())

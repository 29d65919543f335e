"""How sure a prediction is: every parameter moved by what is not known of it, effects added up.

Each effect is half the difference of log predictions at plus and minus one deviation, on the same
draws; they count as independent. Prior deviations come from the lab model's benchmarks (spread),
from figure 2's two ends (drafting), or are stated here as assumptions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from harness.simulate.cost import Setting
from harness.simulate.fit import Assumptions, PaperFit, drafting_ends, fit_paper
from harness.simulate.paper import KEYS, Batches, paper_batches, predictions
from harness.simulate.readable import FitView
from harness.simulate.recorded import RecordedTrees, spread_of

EFFICIENCY_SD = 0.08  # of the share of peak bandwidth: 0.8 is an assumption, 0.65 to 0.95 is seen
SHARPNESS_SD = 0.12  # the lab model's drafter doubts that much too much (its cost table's beta)
TREE_SHARE_SD = 0.05  # of C_AR: what verifying one node may cost beyond a plain pass
INTERVAL = 1.645  # 90 %
MEASURES = ("predicted_tokens_per_s", "predicted_mat")
Refit = Callable[[float], tuple[PaperFit, Batches]]


@dataclass(frozen=True, eq=False)
class Parameter:
    """One uncertain number: its deviation, and the fit with it moved by some deviations."""

    name: str
    deviation: float
    moved: Refit


def parameters(fit: PaperFit, batches: Batches, trees: RecordedTrees) -> list[Parameter]:
    """The uncertain numbers behind a fit of the published view, with one deviation of each."""
    view = FitView.published()
    settings = {name: fitted.setting for name, fitted in fit.models.items()}
    step_ms = {name: fitted.eagle3_ms for name, fitted in fit.models.items()}
    ends = drafting_ends(settings, step_ms, view)

    def again(
        moved: Mapping[str, Setting], assumed: Assumptions | None = None
    ) -> tuple[PaperFit, Batches]:
        return fit_paper(view, moved, fit.spread, fit.draws, assumed, fit.curve), batches

    def spread(name: str, deviation: float) -> Refit:
        def refit(by: float) -> tuple[PaperFit, Batches]:
            value = getattr(fit.spread, name) + by * deviation
            found = replace(fit.spread, **{name: max(value, 0.0)})
            moved = fit_paper(view, settings, found, fit.draws)
            return moved, paper_batches(moved)

        return refit

    def efficiency(by: float) -> tuple[PaperFit, Batches]:
        return again({n: faster(s, by * EFFICIENCY_SD) for n, s in settings.items()})

    def tree(by: float) -> tuple[PaperFit, Batches]:
        return again(settings, Assumptions(tree_share=by * TREE_SHARE_SD))

    half = abs(ends[1] - ends[0]) / 2

    def drafting(by: float) -> tuple[PaperFit, Batches]:
        return again(settings, Assumptions(more_draft_ms=by * half))

    shape = [Parameter(n, d, spread(n, d)) for n, d in spread_deviations(trees).items()]
    return [
        *shape,
        Parameter("bandwidth_efficiency", EFFICIENCY_SD, efficiency),
        Parameter("tree_share", TREE_SHARE_SD, tree),
        Parameter("draft_ms", half, drafting),
    ]


def spread_deviations(trees: RecordedTrees) -> dict[str, float]:
    """Standard deviation of each spread parameter between the recorded groups.

    Persistence moves no mean and is left out; sharpness has a stated deviation.
    """
    groups = [spread_of(trees.of_group(group)) for group in np.unique(trees.group_n)]
    names = ("between", "within", "tail", "cover")
    found = {name: float(np.std([getattr(g, name) for g in groups], ddof=1)) for name in names}
    return {**found, "sharpness": SHARPNESS_SD}


def effects(fit: PaperFit, batches: Batches, uncertain: list[Parameter]) -> pd.DataFrame:
    """Per cell and parameter: log effect of one deviation on each measure and on the speed ratio.

    Columns: the keys, parameter, deviation, predicted_tokens_per_s, predicted_mat, ratio.
    """
    frames = []
    for parameter in uncertain:
        low, high = (_logs(*parameter.moved(by)) for by in (-1.0, 1.0))
        half = (high - low) / 2
        frames.append(
            half.reset_index().assign(parameter=parameter.name, deviation=parameter.deviation)
        )
    return pd.concat(frames, ignore_index=True)


def bands(predicted: pd.DataFrame, found: pd.DataFrame, noise: Mapping[str, float]) -> pd.DataFrame:
    """90 % bands of EVICT's cells: the keys, and <measure>_low and _high for both measures.

    noise: relative deviation of each measure by `chance`.
    """
    effect = found.set_index([*KEYS])[[*MEASURES]]
    squares = effect.mul(effect).groupby(level=[*KEYS]).sum()
    evict = predicted[predicted["method"] == "evict"].set_index([*KEYS])
    columns = {}
    for measure in MEASURES:
        width = np.exp(INTERVAL * np.sqrt(squares[measure] + noise[measure] ** 2))
        columns[f"{measure}_low"] = evict[measure] / width
        columns[f"{measure}_high"] = evict[measure] * width
    return pd.DataFrame(columns).reset_index()


def chance(view: FitView, errors: Mapping[str, float]) -> dict[str, float]:
    """Relative deviation that a cell has by itself, by measure, whatever the parameters are.

    errors: `harness.simulate.holdout.model_error`, what the model class misses where the truth is
    known. Speeds also scatter as vanilla's does between benchmarks, where all do the same work.
    """
    speeds = [view.cells("decoding_speed", "vanilla", model) for model in view.models()]
    logs = [speed.map(math.log) for speed in speeds]
    scatter = float(np.mean([log.groupby(level=0).std(ddof=1).mean() for log in logs]))
    own = {"tokens_per_s": scatter, "mat": 0.0}
    return {f"predicted_{m}": float(np.hypot(own[m], errors[m])) for m in own}


def _logs(fit: PaperFit, batches: Batches) -> pd.DataFrame:
    frame = predictions(fit, batches)
    both = {m: rows.set_index([*KEYS])[[*MEASURES]] for m, rows in frame.groupby("method")}
    evict, speed = both["evict"].map(math.log), MEASURES[0]
    return evict.assign(ratio=evict[speed] - both["eagle3"][speed].map(math.log))


def faster(setting: Setting, by: float) -> Setting:
    """The same setting on a device whose share of the peak bandwidth is `by` more."""
    device = setting.hardware
    share = min(device.bandwidth_efficiency + by, 1.0)
    return replace(setting, hardware=replace(device, bandwidth_efficiency=share))

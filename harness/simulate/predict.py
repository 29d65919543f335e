"""The paper experiment as frames: fitted on little, predicted everywhere, set beside the paper.

Everything named predicted is a prediction; no GPU was involved.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from harness.simulate.basis import RECORDINGS, fitted
from harness.simulate.compared import (
    MEASURES,
    beside_published,
    cost_growth,
    explained,
    mean_errors,
    savings,
)
from harness.simulate.consistency import checks
from harness.simulate.fit import PaperFit
from harness.simulate.hardware import known_hardware, load_hardware
from harness.simulate.holdout import Halves, model_error, predict_other_half
from harness.simulate.paper import (
    KEYS,
    predictions,
)
from harness.simulate.readable import FitView
from harness.simulate.recorded import RecordedTrees
from harness.simulate.uncertainty import bands, chance, effects, parameters
from harness.unpack import read_pack

STEPS = 4000
STEPS_PER_VARIATION = 1000
STEPS_OF_HOLDOUT = 800


@dataclass(frozen=True, eq=False)
class Prediction:
    """Frames of the paper experiment, each as its function describes it.

    cells: harness.simulate.compared.beside_published with low, high, inside and explanation.
    fitted: a row per model. sensitivity: log effect of one deviation of each parameter.
    lab: the hold-out on the lab model. terms: C(k) of every model, term by term.
    """

    cells: pd.DataFrame
    errors: pd.DataFrame
    savings: pd.DataFrame
    growth: pd.DataFrame
    fitted: pd.DataFrame
    terms: pd.DataFrame
    sensitivity: pd.DataFrame
    lab: pd.DataFrame
    checks: pd.DataFrame


def predict_paper(
    recordings: Path = RECORDINGS, steps: int = STEPS, seed: int = 0, share: float = 1.0
) -> Prediction:
    """Fit, predict, compare. steps: simulated per cell; share: of the steps of the side studies."""
    view = FitView.published()
    trees = RecordedTrees.read(recordings / "trees.parquet")
    fit, batches = fitted(view, trees, steps, seed)
    predicted = predictions(fit, batches)
    beside = beside_published(predicted)
    fewer = max(int(share * STEPS_OF_HOLDOUT), 1)
    lab = predict_other_half(Halves.of(read_pack(recordings)), fewer, seed)
    small = fitted(view, trees, max(int(share * STEPS_PER_VARIATION), 1), seed)
    moved = effects(*small, parameters(*small, trees))
    widths = bands(predicted, moved, chance(view, model_error(lab)))
    cells = _with_bands(beside, widths).merge(explained(beside, fit, batches), how="left")
    return Prediction(
        cells=cells,
        errors=mean_errors(beside),
        savings=savings(fit, batches),
        growth=cost_growth(fit, [load_hardware(name) for name in known_hardware()]),
        fitted=fitted_numbers(fit),
        terms=term_table(fit),
        sensitivity=moved,
        lab=lab,
        checks=checks(),
    )


def fitted_numbers(fit: PaperFit) -> pd.DataFrame:
    """A row per model: what was fitted, what to, and what follows for the expert union."""
    rows = []
    for name, one in fit.models.items():
        union = one.cost().union
        row = {"model": name, "vanilla_ms": one.vanilla_ms, "eagle3_ms": one.eagle3_ms}
        row |= {f"fitted_{key}": value for key, value in one.calibration.__dict__.items()}
        row |= {"predicted_verify_share": one.verify_share}
        row |= {f"predicted_union_{k}": float(union[k - 1]) for k in (1, 4, 8, 32)}
        rows.append(row)
    return pd.DataFrame(rows)


def term_table(fit: PaperFit) -> pd.DataFrame:
    """Every term of every model's C(k): model, term, stage, bound, k, predicted_ms."""
    tables = [one.cost().table().assign(model=name) for name, one in fit.models.items()]
    found = pd.concat(tables, ignore_index=True)
    return found[["model", *(name for name in found if name != "model")]]


def _with_bands(beside: pd.DataFrame, widths: pd.DataFrame) -> pd.DataFrame:
    """low, high: 90 % band of the prediction; inside: whether the published number is in it."""
    frames = []
    for measure in MEASURES:
        rows = beside[beside["measure"] == measure]
        names = {f"predicted_{measure}_{end}": end for end in ("low", "high")}
        frames.append(rows.merge(widths[[*KEYS, *names]].rename(columns=names), on=[*KEYS]))
    found = pd.concat(frames, ignore_index=True)
    return found.assign(inside=found["published"].between(found["low"], found["high"]))

"""The paper experiment on paper and on the screen; every file name and caption says predicted."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from harness.report.figures import predicted as figures
from harness.simulate.consistency import inconsistencies
from harness.simulate.files import Sheet, draw, write
from harness.simulate.predict import Prediction

CELLS = (
    "Predicted, not measured: EVICT's decode speed and Mat in every published cell, fitted on "
    "vanilla's and EAGLE-3's numbers alone; low and high: 90 % band; residual: predicted / "
    "published - 1."
)
COVERED = "share of published numbers inside their predicted 90 % band"


def sheets(found: Prediction) -> list[Sheet]:
    """All tables of the experiment."""
    return [
        Sheet("cells", "EVICT predicted beside published", CELLS, found.cells),
        Sheet(
            "errors",
            "Errors of the predicted cells",
            "Predicted against published: mean absolute relative error (mape), mean residual "
            "(bias), largest absolute residual (worst).",
            found.errors,
        ),
        Sheet(
            "savings",
            "Section 4.3 predicted",
            "Predicted, not measured: what truncation saves against the whole tree; points: "
            "predicted - published in percentage points.",
            found.savings,
        ),
        Sheet(
            "growth",
            "C(32) / C(1) predicted",
            "Predicted, not measured; published: appendix C, of Qwen3-30B-A3B, read by no fit.",
            found.growth,
        ),
        Sheet("fitted", "What was fitted", "Behind all that is predicted here.", found.fitted),
        Sheet("terms", "Terms of C(k), predicted", "Predicted ms by term.", found.terms),
        Sheet(
            "sensitivity",
            "Sensitivity of the predicted numbers",
            "Log effect of one deviation of a parameter on EVICT's predicted speed and Mat, and on "
            "the predicted ratio EVICT / EAGLE-3.",
            found.sensitivity,
        ),
        Sheet(
            "lab_holdout",
            "Hold-out on the lab model",
            "Predicted for one half of the prompts from the other, beside measured.",
            found.lab,
        ),
        Sheet(
            "checks",
            "The paper against itself",
            "Recomputed from its own tables; nothing here is predicted.",
            found.checks,
        ),
        Sheet(
            "inconsistencies",
            "Published numbers that do not fit each other",
            "Statements that the paper's own tables do not give; nothing is predicted here.",
            inconsistencies(found.checks),
        ),
    ]


def write_prediction(found: Prediction, folder: Path) -> list[Path]:
    """Every table as CSV and Markdown, every figure as PDF and PNG with its CSV."""
    paths = write(sheets(found), folder)
    paths += draw("cells_figure", figures.draw_cells, found.cells, folder)
    paths += draw("sensitivity_figure", figures.draw_sensitivity, found.sensitivity, folder)
    paths += draw("savings_figure", figures.draw_savings, found.savings, folder)
    return paths


def print_prediction(found: Prediction) -> None:
    """Errors, coverage, savings, growth, the cells above 10 % and the inconsistencies."""
    shown = {sheet.name: sheet for sheet in sheets(found)}
    wide = found.cells.pivot_table(
        index=["model", "temperature", "benchmark"],
        columns="measure",
        values=["published", "predicted", "low", "high"],
    )
    print("\npredicted beside published, EVICT\n" + wide.round(2).to_string())
    for name in ("errors", "savings", "growth", "fitted"):
        shown[name].show()
    for measure, rows in found.cells.groupby("measure"):
        print(f"{measure}: {COVERED}: {rows['inside'].mean():.0%}")
    _print_lab(found.lab)
    far = found.cells.dropna(subset=["explanation"])
    for row in far.itertuples():
        print(f"{row.model} T={row.temperature} {row.benchmark} {row.measure}: {row.explanation}")
    shown["inconsistencies"].show()


def _print_lab(lab: pd.DataFrame) -> None:
    errors = lab.assign(mape=lab["residual"].abs()).groupby("measure")["mape"].mean()
    said = ", ".join(f"{name} {value:.1%}" for name, value in errors.items())
    print(f"hold-out on the lab model, predicted against measured, mean absolute error: {said}")

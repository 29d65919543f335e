"""The paper's experiment: its settings, and EVICT predicted in every cell of its tables."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from evict.growth import FixedDepth
from evict.selection import CostAware, Full
from harness.engines.base import Method
from harness.report.published import published
from harness.simulate.acceptance import DraftBatch, grow_batch, propose
from harness.simulate.architecture import load_geometry
from harness.simulate.cost import Setting
from harness.simulate.fit import PaperFit
from harness.simulate.hardware import load_hardware
from harness.simulate.simulator import SimulatedRun, verify_batch

HARDWARE = "a100_80"
TREE = FixedDepth(steps=4, topk=8)
DRAFT_TOKENS = 32
EAGLE3 = Method("eagle3", "eagle3", TREE, Full(), DRAFT_TOKENS)
EVICT = Method("evict", "eagle3", TREE, CostAware(), DRAFT_TOKENS)
KEYS = ("model", "temperature", "benchmark")
Key = tuple[str, int, str]
Batches = Mapping[Key, DraftBatch]


def paper_settings() -> dict[str, Setting]:
    """The three models on A100s with the paper's tensor parallel degree and tree."""
    device = load_hardware(HARDWARE)
    split = published("models").set_index("model")["tensor_parallel"]
    return {
        str(name): Setting(
            load_geometry(str(name)), device, int(degree), DRAFT_TOKENS, TREE.steps, TREE.topk
        )
        for name, degree in split.items()
    }


def paper_batches(fit: PaperFit) -> dict[Key, DraftBatch]:
    """The drafted trees of every cell, by model, temperature and benchmark."""
    return {
        (model, *cell): grow_batch(
            propose(fit.draws, fit.spread, here.difficulty), TREE.steps, DRAFT_TOKENS
        )
        for model, fitted in fit.models.items()
        for cell, here in fitted.cells.items()
    }


def predictions(fit: PaperFit, batches: Batches | None = None) -> pd.DataFrame:
    """EAGLE-3 and EVICT in every cell: k by the model's C(k), steps paid at the cell's.

    batches: the trees of `paper_batches` where they are at hand already.

    Columns: those keys, method, predicted_tokens_per_s, predicted_mat, predicted_verified,
    predicted_union, predicted_verify_ms, predicted_step_ms.
    """
    rows = []
    for key, batch in (batches or paper_batches(fit)).items():
        model, temperature, benchmark = key
        fitted = fit.models[model]
        believed = fitted.cost().cost_table()
        paid = fitted.cost(fitted.cells[temperature, benchmark].scale)
        for method in (EAGLE3, EVICT):
            run = verify_batch(batch, method.selection, believed, paid)
            rows.append(_row(key, method.name, run))
    return pd.DataFrame(rows)


def _row(cell: Key, method: str, run: SimulatedRun) -> dict[str, object]:
    return {
        **dict(zip(KEYS, cell, strict=True)),
        "method": method,
        "predicted_tokens_per_s": run.tokens_per_s,
        "predicted_mat": run.mat,
        "predicted_verified": run.mean_verified,
        "predicted_union": float(run.union_S.mean()),
        "predicted_verify_ms": float(run.verify_ms_S.mean()),
        "predicted_step_ms": run.step_ms,
    }

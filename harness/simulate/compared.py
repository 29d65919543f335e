"""Predicted beside published: the 36 cells, section 4.3's three savings, and why a cell is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from harness.report.published import paper_reductions, published
from harness.simulate.cost import step_cost
from harness.simulate.fit import ModelFit, PaperFit
from harness.simulate.hardware import Hardware
from harness.simulate.paper import EAGLE3, EVICT, KEYS, Batches
from harness.simulate.simulator import SimulatedRun, verify_batch

MEASURES = {"tokens_per_s": "decoding_speed", "mat": "mean_accepted_tokens"}
EXPLAINED_ABOVE = 0.10
PROFILED, PROFILED_GROWTH = "qwen3_30b", (1.62, 0.57 / 0.0584)
SAVINGS = ("verified_tokens", "active_experts", "verify_latency")


def beside_published(predicted: pd.DataFrame, method: str = "evict") -> pd.DataFrame:
    """One row per cell and measure: the keys, measure, published, predicted, residual.

    residual = predicted / published - 1. measure: tokens_per_s or mat.
    """
    frames = []
    for measure, table in MEASURES.items():
        paper = published(table)[[*KEYS, "method", measure]].rename(columns={measure: "published"})
        ours = predicted[[*KEYS, "method", f"predicted_{measure}"]]
        both = ours.rename(columns={f"predicted_{measure}": "predicted"}).merge(paper)
        frames.append(both[both["method"] == method].assign(measure=measure))
    found = pd.concat(frames, ignore_index=True)
    found["residual"] = found["predicted"] / found["published"] - 1.0
    return found[[*KEYS, "measure", "published", "predicted", "residual"]]


def mean_errors(beside: pd.DataFrame) -> pd.DataFrame:
    """Per measure: cells, mape, bias (mean residual) and worst (largest absolute residual)."""
    residual = beside.groupby("measure")["residual"]
    return pd.DataFrame(
        {
            "cells": residual.size(),
            "mape": residual.apply(lambda r: r.abs().mean()),
            "bias": residual.mean(),
            "worst": residual.apply(lambda r: r.abs().max()),
        }
    ).reset_index()


def savings(fit: PaperFit, batches: Batches) -> pd.DataFrame:
    """Section 4.3 per model: measure, basis, published, predicted, points (their difference x 100).

    basis: "per step" weighs every step alike; "over the Mat range" every accepted length, as
    figure 5 draws it. The paper names no model there; its main text shows Qwen3-30B-A3B.
    """
    paper = paper_reductions().set_index("measure")["paper"]
    rows = []
    for model in fit.models:
        steps = pd.concat(
            _both(fit, key, batch) for key, batch in batches.items() if key[0] == model
        )
        per_step = 1 - steps[[*SAVINGS]].mean()
        range_wise = 1 - steps.groupby("committed")[[*SAVINGS]].mean().mean()
        for basis, found in (("per step", per_step), ("over the Mat range", range_wise)):
            rows += [(model, basis, name, paper[name], found[name]) for name in SAVINGS]
    frame = pd.DataFrame(rows, columns=["model", "basis", "measure", "published", "predicted"])
    return frame.assign(points=100 * (frame["predicted"] - frame["published"]))


def _both(fit: PaperFit, key: tuple[str, int, str], batch: Any) -> pd.DataFrame:
    fitted = fit.models[key[0]]
    cost = fitted.cost(fitted.cells[key[1], key[2]].scale)
    table = fitted.cost().cost_table()
    full, cut = (verify_batch(batch, m.selection, table, cost) for m in (EAGLE3, EVICT))
    return pd.DataFrame({"committed": full.committed_S, **_shares(full, cut)})


def _shares(full: SimulatedRun, cut: SimulatedRun) -> Mapping[str, Any]:
    return {
        "verified_tokens": cut.verified_S / full.verified_S,
        "active_experts": cut.union_S / full.union_S,
        "verify_latency": cut.verify_ms_S / full.verify_ms_S,
    }


def cost_growth(fit: PaperFit, devices: Sequence[Hardware]) -> pd.DataFrame:
    """C(32)/C(1) and the mean of C(1)..C(32), predicted, for every model on every device.

    Columns model, hardware, predicted_ratio, predicted_mean_ms, and published_ratio and
    published_mean_ms of Qwen3-30B-A3B (appendix C of the second version: 1.62, and an MAE of
    0.57 ms that is 5.84 %, so about 9.8 ms). No fit reads them; the paper runs on the A100.
    """
    rows = []
    for (model, fitted), device in product(fit.models.items(), devices):
        ms = step_cost(replace(fitted.setting, hardware=device), fitted.calibration).step_ms()
        rows.append((model, device.name, float(ms[-1] / ms[0]), float(ms.mean())))
    names = ["model", "hardware", "predicted_ratio", "predicted_mean_ms"]
    frame = pd.DataFrame(rows, columns=names)
    ratio, mean_ms = ({PROFILED: value} for value in PROFILED_GROWTH)
    return frame.assign(
        published_ratio=frame["model"].map(ratio), published_mean_ms=frame["model"].map(mean_ms)
    )


def explained(beside: pd.DataFrame, fit: PaperFit, batches: Batches) -> pd.DataFrame:
    """The cells above 10 % with an `explanation` computed from the terms of C(k) and the trees."""
    far = beside[beside["residual"].abs() > EXPLAINED_ABOVE]
    wide = beside.pivot_table(index=[*KEYS], columns="measure", values=["published", "predicted"])
    notes = [
        _explain(wide.loc[key], fit.models[key[0]], key, batches[key])
        for key in far[[*KEYS]].itertuples(index=False, name=None)
    ]
    return far.assign(explanation=notes).reset_index(drop=True)


def _explain(cell: pd.Series, fitted: ModelFit, key: tuple[str, int, str], batch: Any) -> str:
    """Where a constant k would have to stand to give the published step, and the published Mat."""
    scale = fitted.cells[key[1], key[2]].scale
    cost = fitted.cost(scale)
    step_ms = cost.step_ms()
    mats = batch.committed_SN().double().mean(0).numpy()
    speed, mat = (cell["published", name] for name in MEASURES)
    wanted_ms = 1e3 * mat / speed
    got_ms = 1e3 * cell["predicted", "mat"] / cell["predicted", "tokens_per_s"]
    k_mat = float(np.interp(mat, mats, np.arange(1, len(mats) + 1)))
    at_k = float(np.interp(k_mat, np.arange(1, len(mats) + 1), step_ms))
    terms = {term.name: float(term.ms[0]) for term in cost.terms}
    fixed = sorted(terms, key=terms.__getitem__, reverse=True)[:3]
    return (
        f"Mat {cell['predicted', 'mat'] / mat - 1:+.1%}, step {got_ms / wanted_ms - 1:+.1%}: "
        f"the published Mat is that of a constant k = {k_mat:.1f}, which costs {at_k:.1f} ms "
        f"here; the published step is {wanted_ms:.1f} ms, {_where(wanted_ms, step_ms)}; "
        f"largest terms at k = 1: {', '.join(f'{n} {terms[n]:.1f} ms' for n in fixed)}"
    )


def _where(wanted_ms: float, step_ms: Any) -> str:
    if wanted_ms < step_ms[0]:
        return f"below C(1) = {step_ms[0]:.1f} ms"
    k = float(np.interp(wanted_ms, step_ms, np.arange(1, len(step_ms) + 1)))
    return f"C(k) at k = {k:.1f}"

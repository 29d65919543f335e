"""Does EVICT pay here? Costs, chosen lengths, speedups with a band, batches and sparsity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import cast

import numpy as np
import pandas as pd

from harness.simulate.basis import Basis, World, band
from harness.simulate.cost import step_cost
from harness.simulate.geometry import ModelGeometry
from harness.simulate.question import OVER_ALL, Question, Trees, gain, speedups, verified
from harness.simulate.target import Drafter

BATCHES = tuple(2**i for i in range(11))
EXPERTS = (8, 16, 32, 64, 128, 256, 512)
TOP_K = (1, 2, 4, 8, 16)
GONE = 0.02  # a gain below 2 % is none
SATURATED = 0.95
IDENTICAL = 1.0  # routing overlap at which all nodes of a tree choose the same experts


@dataclass(frozen=True, eq=False)
class WhatIf:
    """Frames, all predicted.

    terms: harness.simulate.cost.StepCost.table. costs: k, predicted_ms, predicted_union.
    lengths: benchmark, k, predicted_share. speedups: benchmark, measure, predicted, low, high.
    batches: batch, predicted, low, high (EVICT / EAGLE-3), predicted_same_experts (the same, did
    every node of a tree choose its root's experts: what is left is compute), expert_part (their
    quotient), vs_vanilla, active_share of the experts at k = 1, cost_growth C(N) / C(1).
    sparsity: experts, experts_per_token, predicted, cost_growth. effects: log effect of each
    parameter's deviation on EVICT / EAGLE-3.
    """

    terms: pd.DataFrame
    costs: pd.DataFrame
    lengths: pd.DataFrame
    speedups: pd.DataFrame
    batches: pd.DataFrame
    sparsity: pd.DataFrame
    effects: pd.DataFrame


def what_if(question: Question, basis: Basis) -> WhatIf:
    """Everything that is predicted of one question."""
    world = basis.likeliest
    trees, cost = question.trees(world), question.cost(world)
    k = np.arange(1, len(cost.union) + 1)
    costs = {"k": k, "predicted_ms": cost.step_ms(), "predicted_union": cost.union}
    bands, effects = _banded(question, basis)
    return WhatIf(
        terms=cost.table(),
        costs=pd.DataFrame(costs),
        lengths=_lengths(trees, question, world),
        speedups=bands["speedups"],
        batches=bands["batches"],
        sparsity=sparsity(question, world, trees),
        effects=effects,
    )


def gone_at(batches: pd.DataFrame, gain: str = "predicted") -> int | None:
    """The smallest batch size at which EVICT's gain over EAGLE-3 is below 2 %; None for none.

    gain: `predicted` for all of it, `expert_part` for what the experts' growth is worth.
    """
    small = batches[batches[gain] < 1.0 + GONE]
    return None if small.empty else int(small["batch"].iloc[0])


def saturated_at(batches: pd.DataFrame) -> int | None:
    """The smallest batch size at which one token per request activates 95 % of the experts."""
    full = batches[batches["active_share"] >= SATURATED]
    return None if full.empty else int(full["batch"].iloc[0])


def sparsity(question: Question, world: World, trees: Trees) -> pd.DataFrame:
    """EVICT's gain over the number of experts and how many a token chooses.

    The experts of a layer weigh as much together as the model's own, whatever their number is.
    Empty for a dense target.
    """
    rows = []
    calibration = question.drafter.calibration(world.fit)
    for experts in EXPERTS:
        for top_k in TOP_K:
            model = _with_experts(question.setting.model, experts, top_k)
            if model is None or experts % question.setting.tensor_parallel:
                continue
            cost = step_cost(replace(question.setting, model=model), calibration)
            step_ms = cost.step_ms()
            rows.append((experts, top_k, gain(trees, cost), float(step_ms[-1] / step_ms[0])))
    return pd.DataFrame(rows, columns=["experts", "experts_per_token", "predicted", "cost_growth"])


def _with_experts(model: ModelGeometry, experts: int, top_k: int) -> ModelGeometry | None:
    size = model.experts * model.expert_size // experts
    if not model.experts or 2 * top_k > experts or size < 1:
        return None
    return replace(model, experts=experts, experts_per_token=top_k, expert_size=size)


def _lengths(trees: Trees, question: Question, world: World) -> pd.DataFrame:
    frames = []
    for name, (_, cut) in verified(trees, question.cost(world)).items():
        counts = np.bincount(cut.verified_S.numpy(), minlength=question.setting.draft_tokens + 1)
        share = counts[1:] / counts.sum()
        rows = {"benchmark": name, "k": np.arange(1, len(share) + 1), "predicted_share": share}
        frames.append(pd.DataFrame(rows))
    return pd.concat(frames, ignore_index=True)


def _answer(question: Question, world: World) -> pd.Series:
    """All that gets a band: speedups by (speedups, benchmark, measure), gains by batch size."""
    trees = question.trees(world)
    table = speedups(trees, question.cost(world)).stack()
    found = {("speedups", *place): value for place, value in table.items()}  # type: ignore[misc]
    for batch in BATCHES:
        found["batches", str(batch), "vs_eagle3"] = gain(trees, question.cost(world, batch))
    return pd.Series(found)


def _banded(question: Question, basis: Basis) -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    best = _answer(question, basis.likeliest)
    effects = basis.effects(lambda world: _answer(question, world))
    effects.loc["borrowed from other models"] = _borrowed(question, basis.likeliest, best)
    own = best.index.get_level_values(2).map(basis.own_errors)
    found = band(best, effects, pd.Series(own, index=best.index, dtype=float))
    found.index = found.index.set_names(["kind", "place", "measure"])
    rows = found.reset_index()
    chosen = rows[rows["kind"] == "speedups"].drop(columns="kind")
    frames = {"speedups": chosen.rename(columns={"place": "benchmark"}).reset_index(drop=True)}
    gains = rows[rows["kind"] == "batches"].assign(batch=[*BATCHES])
    kept = gains[["batch", "predicted", "low", "high"]].reset_index(drop=True)
    parts = kept.join(_batched(question, basis.likeliest))
    parts["expert_part"] = parts["predicted"] / parts["predicted_same_experts"]
    frames["batches"] = parts
    ratio = effects[("speedups", OVER_ALL, "vs_eagle3")].rename("log_effect")
    return frames, ratio.rename_axis("parameter").reset_index()


def _borrowed(question: Question, world: World, best: pd.Series) -> pd.Series:
    """Deviation of the log answers between the models that a drafter's numbers come from."""
    drafter = question.drafter
    if len(drafter.donors) == 1:
        return 0.0 * best
    logs = []
    for donor in drafter.donors:
        own = Drafter.of(donor, drafter.given)
        logs.append(np.log(_answer(replace(question, drafter=own), world)))
    return cast("pd.Series[float]", pd.concat(logs, axis=1).std(axis=1, ddof=1))


def _batched(question: Question, world: World) -> pd.DataFrame:
    """Rows as BATCHES: what explains the gain there."""
    trees, experts = question.trees(world), question.setting.model.experts
    rows = []
    for batch in BATCHES:
        cost = question.cost(world, batch)
        step_ms = cost.step_ms()
        row = {
            "predicted_same_experts": gain(trees, question.cost(world, batch, rho=IDENTICAL)),
            "vs_vanilla": float(speedups(trees, cost)["vs_vanilla"][OVER_ALL]),
            "active_share": float(cost.union[0] / experts) if experts else 0.0,
            "cost_growth": float(step_ms[-1] / step_ms[0]),
        }
        rows.append(row)
    return pd.DataFrame(rows)

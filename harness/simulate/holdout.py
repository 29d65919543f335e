"""The acceptance model against a model that runs here: fitted on half the prompts.

Read from the fitting half: EAGLE-3's steps and the drafter's side of recorded trees; and the
profiled C(k). Predicted on the other half: every policy's Mat, mean k and speed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import pandas as pd
from hydra.utils import instantiate

from evict.cost import CostTable
from evict.growth import FixedDepth
from evict.selection import Selection
from harness.collection import Collection
from harness.simulate.acceptance import Draws, grow_batch, propose
from harness.simulate.cost import StepCost, priced
from harness.simulate.doubt import FittedDrafter, fit_drafter
from harness.simulate.recorded import RecordedTrees, spread_of
from harness.simulate.simulator import verify_batch

EXPERIMENT = "paper"
FITTED_ON = "eagle3"
TREE = FixedDepth(steps=4, topk=8)
DRAFT_TOKENS = 32
GROUP = ["benchmark", "temperature"]
SETTINGS = ("selection.k", "selection.rho")
CHOOSES = "evict"
MEASURES = ("mat", "verified", "tokens_per_s")


@dataclass(frozen=True, eq=False)
class Halves:
    """Steps of the policies that draft the same tree, split by prompt: 0 to fit, 1 to predict.

    steps: a row per step with half, policy, benchmark, temperature and its numbers.
    policies: by policy, how much it verifies. trees: recorded on prompts of half 0.
    """

    steps: pd.DataFrame
    policies: Mapping[str, Selection]
    trees: RecordedTrees
    cost: CostTable

    @staticmethod
    def of(collection: Collection) -> Halves:
        """Split collected runs of one model; prompts with even numbers are fitted on."""
        runs = collection.runs[collection.runs["experiment"] == EXPERIMENT]
        kept = [s == "draft" and _drafts(p, TREE) for s, p in _scores_and_parameters(runs)]
        runs = runs[kept]
        names = [_policy(m, p) for m, p in zip(runs["method"], runs["parameters"], strict=True)]
        runs = runs.assign(policy=names)
        steps = collection.steps.merge(runs[["run", "policy", *GROUP]], on="run")
        given = runs.drop_duplicates("policy").set_index("policy")["parameters"]
        return Halves(
            steps=steps.assign(half=_half(steps)),
            policies={str(name): _selection(parameters) for name, parameters in given.items()},
            trees=RecordedTrees.of(collection.trees[_half(collection.trees) == 0]),
            cost=collection.costs[str(runs["run"].iloc[0])],
        )

    def measured(self, half: int) -> pd.DataFrame:
        """Rows policy, benchmark, temperature: mat, verified, tokens_per_s, step_ms, expected."""
        groups = self.steps[self.steps["half"] == half].groupby(["policy", *GROUP])
        found = groups.agg(
            mat=("committed", "mean"),
            verified=("verified", "mean"),
            step_ms=("total_ms", "mean"),
            expected=("expected", "mean"),
        )
        return found.assign(tokens_per_s=1e3 * found["mat"] / found["step_ms"]).reset_index()


def predict_other_half(halves: Halves, count: int, seed: int = 0) -> pd.DataFrame:
    """Rows policy, benchmark, temperature, measure, measured, predicted, residual of half 1."""
    read = halves.measured(0)
    read = read[read["policy"] == FITTED_ON].set_index(GROUP)
    spread = spread_of(halves.trees)
    draws = Draws.make(count, TREE.steps, TREE.topk, spread.persistence, seed)
    drafter = fit_drafter(read[["mat", "expected"]], spread, draws, TREE, DRAFT_TOKENS)
    rows = []
    for group, one in read.iterrows():
        cost = priced(halves.cost, float(one["step_ms"]) / halves.cost.step_ms[-1])
        rows += list(_policies(halves, drafter, draws, cast(tuple[str, float], group), cost))
    predicted = pd.DataFrame(rows, columns=["policy", *GROUP, "measure", "predicted"])
    measured = halves.measured(1).melt(
        ["policy", *GROUP], [*MEASURES], var_name="measure", value_name="measured"
    )
    both = measured.merge(predicted, on=["policy", *GROUP, "measure"])
    return both.assign(residual=both["predicted"] / both["measured"] - 1.0)


def model_error(tried: pd.DataFrame) -> dict[str, float]:
    """Relative deviation of the model itself, per measure, from `predict_other_half`.

    The mean square residual of the policy that chooses k, less that of whole trees: theirs is
    nothing but the difference between the two halves' prompts.
    """
    squares = (tried["residual"] ** 2).groupby([tried["policy"], tried["measure"]]).mean()
    own, shared = squares[CHOOSES], squares[FITTED_ON]
    return {str(m): float(max(own[m] - shared[m], 0.0) ** 0.5) for m in own.index}


def ratio_error(tried: pd.DataFrame) -> float:
    """Relative deviation of the speed ratio of the policy that chooses k over whole trees.

    The two share their prompts, so nothing is taken off.
    """
    speeds = tried[tried["measure"] == "tokens_per_s"]
    off = speeds.set_index(["policy", *GROUP])["residual"].unstack("policy") + 1.0
    return float((((off[CHOOSES] / off[FITTED_ON]) - 1.0) ** 2).mean() ** 0.5)


def _policies(
    halves: Halves,
    drafter: FittedDrafter,
    draws: Draws,
    group: tuple[str, float],
    cost: StepCost,
) -> Iterator[tuple[str, str, float, str, float]]:
    spread, difficulty = drafter.of(group)
    batch = grow_batch(propose(draws, spread, difficulty), TREE.steps, DRAFT_TOKENS)
    for policy, selection in halves.policies.items():
        run = verify_batch(batch, selection, halves.cost, cost)
        values = (run.mat, run.mean_verified, run.tokens_per_s)
        for measure, value in zip(MEASURES, values, strict=True):
            yield policy, *group, measure, value


def _scores_and_parameters(runs: pd.DataFrame) -> Iterator[tuple[str, Mapping[str, Any]]]:
    return zip(runs["scores"], map(_plain, runs["parameters"]), strict=True)


def _plain(parameters: Any) -> Mapping[str, Any]:
    return cast(Mapping[str, Any], parameters)


def _drafts(parameters: Mapping[str, Any], tree: FixedDepth) -> bool:
    wanted = {
        "draft_tokens": DRAFT_TOKENS,
        "growth._target_": "evict.growth.FixedDepth",
        "growth.steps": tree.steps,
        "growth.topk": tree.topk,
    }
    return all(parameters.get(name) == value for name, value in wanted.items())


def _policy(method: str, parameters: Mapping[str, Any]) -> str:
    return " ".join([method, *(str(parameters[n]) for n in SETTINGS if n in parameters)])


def _selection(parameters: Mapping[str, Any]) -> Selection:
    prefix = "selection."
    own = {k.removeprefix(prefix): v for k, v in parameters.items() if k.startswith(prefix)}
    return cast(Selection, instantiate(own))


def _half(rows: pd.DataFrame) -> pd.Series[int]:
    return rows["prompt_id"].str.extract(r"(\d+)$")[0].astype(int) % 2

"""The fit reproduces what it reads; the prediction of what it does not read is near the paper."""

from __future__ import annotations

import pandas as pd
import pytest

from evict.errors import InputError
from harness.report.published import FOLDER, published
from harness.simulate.acceptance import Draws
from harness.simulate.fit import Assumptions, PaperFit, drafting_ends, fit_cost, fit_paper
from harness.simulate.paper import KEYS, paper_settings, predictions
from harness.simulate.readable import FitView
from harness.simulate.recorded import RecordedTrees, spread_of

STEPS = 1500


@pytest.fixture(scope="module")
def found() -> PaperFit:
    spread = spread_of(RecordedTrees.read(FOLDER.parent / "reference" / "paper" / "trees.parquet"))
    draws = Draws.make(STEPS, 4, 8, spread.persistence, seed=0)
    return fit_paper(FitView.published(), paper_settings(), spread, draws)


@pytest.fixture(scope="module")
def beside(found: PaperFit) -> pd.DataFrame:
    keys = [*KEYS, "method"]
    mats = published("mean_accepted_tokens")[[*keys, "mat"]]
    speeds = published("decoding_speed")[[*keys, "tokens_per_s"]]
    return predictions(found).merge(speeds, on=keys).merge(mats, on=keys)


def errors(frame: pd.DataFrame, method: str, name: str) -> pd.Series:
    rows = frame[frame["method"] == method]
    return (rows[f"predicted_{name}"] / rows[name] - 1).abs()


def test_the_fit_reproduces_vanilla_and_eagle3(found: PaperFit, beside: pd.DataFrame) -> None:
    for name in ("tokens_per_s", "mat"):
        read = errors(beside, "eagle3", name)
        assert len(read) == 36
        assert read.max() < 0.015
    for fitted in found.models.values():
        assert fitted.cost().ar_ms == pytest.approx(fitted.vanilla_ms)
        assert fitted.cost().step_ms()[-1] == pytest.approx(fitted.eagle3_ms)


def test_one_drafting_time_spans_figure_2s_range(found: PaperFit) -> None:
    shares = [fitted.verify_share for fitted in found.models.values()]
    assert min(shares) == pytest.approx(0.79, abs=0.01)
    assert max(shares) == pytest.approx(0.89, abs=0.01)
    assert len({fitted.calibration.draft_ms for fitted in found.models.values()}) == 1


def test_the_drafting_time_stands_between_what_either_end_asks_for(found: PaperFit) -> None:
    """The two ends agree within 15 %: one drafting time for three models is no forced choice."""
    settings = {name: fitted.setting for name, fitted in found.models.items()}
    steps = {name: fitted.eagle3_ms for name, fitted in found.models.items()}
    low, high = sorted(drafting_ends(settings, steps, FitView.published()))
    for fitted in found.models.values():
        assert low + 0.01 < fitted.calibration.draft_ms < high - 0.01
    assert high < 1.15 * low


def test_the_fitted_overlap_is_what_others_measured(found: PaperFit) -> None:
    """EcoSpec (arXiv 2607.12696): 23.7 experts per layer for 4 tokens of Qwen3-235B."""
    union = found.models["qwen3_235b"].cost().union
    assert union[3] == pytest.approx(23.7, rel=0.06)
    assert union[3] < 0.85 * 29.1  # uniform routing


@pytest.mark.parametrize("name", ["tokens_per_s", "mat"])
def test_evict_is_predicted_within_the_issues_bound(beside: pd.DataFrame, name: str) -> None:
    missed = errors(beside, "evict", name)
    assert len(missed) == 36
    assert missed.mean() <= 0.05
    assert missed.max() <= 0.15


def test_steps_that_no_overlap_explains_are_refused() -> None:
    setting = paper_settings()["qwen3_30b"]
    with pytest.raises(InputError, match="no routing overlap explains") as raised:
        fit_cost(setting, vanilla_ms=7.0, full_step_ms=60.0, draft_ms=2.0)
    low, high = str(raised.value.allowed).removesuffix(" ms").split(" to ")
    assert float(low) < 20.0 < float(high) < 60.0


def test_an_assumed_tree_overhead_moves_the_fit_but_not_what_it_reproduces(found: PaperFit) -> None:
    view, settings = FitView.published(), paper_settings()
    heavier = fit_paper(
        view, settings, found.spread, Draws.make(200, 4, 8, 0.3, 0), Assumptions(tree_share=0.1)
    )
    for name, fitted in heavier.models.items():
        before = found.models[name]
        assert fitted.calibration.rho > before.calibration.rho
        assert fitted.cost().step_ms()[0] > before.cost().step_ms()[0]
        assert fitted.cost().step_ms()[-1] == pytest.approx(fitted.eagle3_ms)
        assert fitted.cost().ar_ms == pytest.approx(fitted.vanilla_ms)


def test_the_same_seed_predicts_the_same_and_another_does_not(found: PaperFit) -> None:
    settings = {"qwen3_30b": paper_settings()["qwen3_30b"]}
    one, same, other = (
        predictions(
            fit_paper(FitView.published(), settings, found.spread, Draws.make(150, 4, 8, 0.3, seed))
        )
        for seed in (4, 4, 5)
    )
    pd.testing.assert_frame_equal(one, same)
    assert not one.equals(other)

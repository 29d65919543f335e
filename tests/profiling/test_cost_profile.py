"""C(k) and beta as procedures over an engine, and the curve that is drawn from them."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from evict.cost import CostTable
from evict.errors import InputError
from evict.growth import FixedDepth
from evict.selection import Full
from harness.engines.base import Method, Request
from harness.engines.torch.engine import TorchEngine
from harness.profiling.calibration import fit_beta, observe
from harness.profiling.cost import build_table, profile, smooth_cost
from harness.records import StepRecord
from harness.reliability import brier_score, expected_calibration_error
from harness.report.cost import cost_frame, cost_text
from harness.report.figures import cost_curve
from tests.support.checkpoints import write_pair

SMALL = Method("full", "eagle3", FixedDepth(steps=2, topk=4), Full(), draft_tokens=8)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> TorchEngine:
    pair = write_pair(tmp_path_factory.mktemp("tiny"))
    model = {"name": "tiny", "target": str(pair.target), "draft": str(pair.draft)}
    return TorchEngine(model, device="cpu")


@pytest.fixture(scope="module")
def measured(engine: TorchEngine) -> CostTable:
    prompts = [[5 + i % 200 for i in range(start, start + 20)] for start in range(4)]
    return profile(engine, SMALL, prompts, seed=0)


def test_profile_measures_every_width(measured: CostTable) -> None:
    assert measured.draft_tokens == 8
    assert list(measured.step_ms) == sorted(measured.step_ms)
    assert measured.ar_ms < measured.step_ms[0], "a plain step drafts nothing"
    assert measured.beta > 0
    assert measured.stage_ms is not None
    assert all(value > 0 for value in measured.stage_ms["draft"])


def test_profiled_unions_are_within_bounds(measured: CostTable) -> None:
    """Case 32 for the profile: top-k <= union <= min(E, k x top-k) at every width."""
    assert measured.expert_union is not None
    assert measured.expert_union[0] == pytest.approx(2.0)
    for k, union in enumerate(measured.expert_union, start=1):
        assert 2.0 <= union <= min(8, 2 * k)


def test_profile_is_accepted_by_its_engine_and_no_other(
    measured: CostTable, engine: TorchEngine
) -> None:
    engine.set_cost(measured)
    other = replace(measured, fingerprint={**measured.fingerprint, "threads": "99"})
    with pytest.raises(InputError, match="threads"):
        engine.set_cost(other)


def test_plain_method_has_no_cost_table(engine: TorchEngine) -> None:
    with pytest.raises(InputError, match="drafts"):
        profile(engine, Method("plain"), [[5, 6, 7]], seed=0)


def step(ms: float) -> StepRecord:
    half = ms / 2
    return StepRecord(0, 1, 1, 0, 1, 1, draft_ms=half, verify_ms=half, total_ms=ms)


def test_a_slow_phase_of_the_machine_does_not_bend_the_curve() -> None:
    """Rounds at half speed: medians of raw times would mix the phases, ratios between k stay."""
    speeds = [1.0, 1.0, 1.0, 2.0, 2.0]
    true = {0: 3.0, 1: 4.0, 2: 5.0, 3: 6.0}
    records = {k: [[step(ms * s) for _ in range(4)] for s in speeds] for k, ms in true.items()}
    table = build_table(records, 1.0, {})
    for k in (2, 3):
        assert table.step_ms[k - 1] / table.step_ms[0] == pytest.approx(true[k] / true[1])
    assert max(table.spread_ms) < 1e-9


def test_smoothing_keeps_k_1_and_a_straight_line_and_never_falls() -> None:
    line = np.array([9.0, *(10.0 + 0.5 * k for k in range(2, 33))])
    assert np.allclose(smooth_cost(line), line)
    noisy = line + np.random.default_rng(0).normal(0, 0.6, 32)
    smooth = smooth_cost(noisy)
    assert smooth[0] == noisy[0]
    assert (np.diff(smooth) >= 0).all()
    assert np.abs(smooth - line)[2:].mean() < np.abs(noisy - line)[2:].mean()


def test_beta_recovers_a_known_temperature(engine: TorchEngine) -> None:
    """Where the target draws from softmax(b * draft logits), the fitted factor is b."""
    generator = torch.Generator().manual_seed(0)
    logits = 2.0 * torch.randn(4000, 50, generator=generator)

    class Scripted:
        def generate(self, request: Request, method: Method, seed: int, observer: object) -> None:
            chosen = torch.multinomial((1.8 * logits).softmax(-1), 1, generator=generator)
            rows = list(zip(logits, chosen.flatten().tolist(), strict=True))
            observer.rows += rows  # type: ignore[attr-defined]

    log = observe(Scripted(), SMALL, [[1]], 0, 0.0)  # type: ignore[arg-type]
    assert fit_beta(log) == pytest.approx(1.8, abs=0.1)


def test_calibration_scores_on_known_cases() -> None:
    generator = np.random.default_rng(1)
    scores = generator.random(40_000)
    calibrated = generator.random(40_000) < scores
    assert expected_calibration_error(list(scores), list(calibrated)) < 0.02
    assert expected_calibration_error([0.9] * 10, [False] * 10) == pytest.approx(0.9)
    assert brier_score([1.0, 0.0], [True, False]) == 0.0


def test_cost_curve_writes_the_figure_and_its_numbers(measured: CostTable, tmp_path: Path) -> None:
    paths = cost_curve(measured, tmp_path)
    assert [path.name for path in paths] == ["cost_curve.pdf", "cost_curve.png", "cost_curve.csv"]
    read = pd.read_csv(paths[2])
    assert np.allclose(read["step_ms"], cost_frame(measured)["step_ms"])
    assert not math.isnan(read["expert_union"].iloc[-1])
    ratio = measured.step_ms[7] / measured.step_ms[0]
    assert f"C(8)/C(1) = {ratio:.2f}" in cost_text(measured)[-1]
    first = paths[1].read_bytes()
    cost_curve(measured, tmp_path)
    assert paths[1].read_bytes() == first, "figures are byte-stable"

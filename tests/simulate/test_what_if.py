"""The what-if: bands, batches, sparsity, and that whatever is written says predicted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest

from harness.simulate.answers import print_answer, sentences, write_answer
from harness.simulate.architecture import load_geometry
from harness.simulate.basis import Basis
from harness.simulate.cost import Setting
from harness.simulate.hardware import load_hardware
from harness.simulate.question import OVER_ALL, Question, gain, speedups
from harness.simulate.target import Drafter, assumed_head
from harness.simulate.whatif import BATCHES, WhatIf, gone_at, saturated_at, what_if

STEPS = 60
BENCHMARKS = ["gsm8k", "alpaca"]


@pytest.fixture(scope="module")
def basis() -> Basis:
    return Basis.of(STEPS)


def question(model: str = "qwen3_30b", drafter: str = "", tp: int = 1) -> Question:
    geometry = load_geometry(model)
    if geometry.draft is None:
        geometry = replace(geometry, draft=assumed_head(geometry))
    setting = Setting(geometry, load_hardware("a100_80"), tp)
    return Question(setting, Drafter.of(drafter or model), BENCHMARKS, 0.0)


@pytest.fixture(scope="module")
def moe(basis: Basis) -> WhatIf:
    return what_if(question(), basis)


@pytest.fixture(scope="module")
def dense(basis: Basis) -> WhatIf:
    return what_if(question("hunyuan_7b"), basis)


def over_all(found: WhatIf) -> pd.DataFrame:
    rows = found.speedups[found.speedups["benchmark"] == OVER_ALL]
    return rows.set_index("measure")


def test_bands_hold_their_prediction_and_speedups_fit_each_other(moe: WhatIf) -> None:
    rows = moe.speedups
    assert len(rows) == 3 * (len(BENCHMARKS) + 1)
    assert (rows["low"] < rows["predicted"]).all()
    assert (rows["predicted"] < rows["high"]).all()
    best = over_all(moe)["predicted"]
    assert best["vs_vanilla"] == pytest.approx(best["vs_eagle3"] * best["eagle3_vs_vanilla"])


def test_a_model_without_published_numbers_has_a_wider_band(basis: Basis, moe: WhatIf) -> None:
    unknown = what_if(question(drafter="nobody"), basis)
    width = [over_all(x)["high"] / over_all(x)["low"] for x in (unknown, moe)]
    assert (width[0] > width[1]).all()
    borrowed = unknown.effects.set_index("parameter")["log_effect"]["borrowed from other models"]
    assert borrowed > 0
    text = "\n".join(sentences(unknown, question(drafter="nobody")))
    assert "the paper has no numbers of this model" in text


def test_the_experts_part_of_the_gain_goes_when_they_saturate(moe: WhatIf) -> None:
    batches = moe.batches.set_index("batch")
    assert list(batches.index) == list(BATCHES)
    assert batches["active_share"].is_monotonic_increasing
    assert batches["expert_part"][1] > 1.05
    gone, full = gone_at(moe.batches, "expert_part"), saturated_at(moe.batches)
    assert gone is not None
    assert full is not None
    assert gone <= full
    assert batches["predicted"][1024] == pytest.approx(
        batches["predicted_same_experts"][1024], rel=0.01
    )


def test_a_dense_target_has_no_expert_effect_at_any_batch_size(dense: WhatIf) -> None:
    assert dense.batches["expert_part"].to_numpy() == pytest.approx(1.0)
    assert dense.batches["predicted"][0] == pytest.approx(1.0, abs=0.01)
    assert dense.batches["predicted"].iloc[-1] > 1.1
    assert dense.sparsity.empty
    assert saturated_at(dense.batches) is None
    assert any("no expert effect" in line for line in sentences(dense, question("hunyuan_7b")))


def test_the_models_own_sparsity_is_a_point_of_the_sweep(moe: WhatIf, basis: Basis) -> None:
    own = moe.sparsity.set_index(["experts", "experts_per_token"])["predicted"][128, 8]
    asked, world = question(), basis.likeliest
    assert own == pytest.approx(gain(asked.trees(world), asked.cost(world)))
    assert own == pytest.approx(over_all(moe)["predicted"]["vs_eagle3"])
    assert (2 * moe.sparsity["experts_per_token"] <= moe.sparsity["experts"]).all()


def test_chosen_lengths_are_shares_of_all_steps(moe: WhatIf) -> None:
    shares = moe.lengths.groupby("benchmark")["predicted_share"].sum()
    assert set(shares.index) == set(BENCHMARKS)
    assert shares.to_numpy() == pytest.approx(1.0)


def test_more_bandwidth_in_another_world_reaches_the_asked_device(basis: Basis) -> None:
    asked, world = question(), basis.likeliest
    faster = replace(world, more_bandwidth=0.1)
    assert (asked.cost(faster).step_ms() < asked.cost(world).step_ms()).all()
    names = {name for name, *_ in basis.pairs}
    low, high = next((a, b) for name, a, b in basis.pairs if name == "bandwidth_efficiency")
    assert low.more_bandwidth == pytest.approx(-high.more_bandwidth)
    assert high.more_bandwidth > 0
    assert {"sharpness", "tree_share", "draft_ms"} < names


def test_speedups_over_all_benchmarks_are_their_geometric_mean(basis: Basis) -> None:
    asked, world = question(), basis.likeliest
    rows = speedups(asked.trees(world), asked.cost(world))["vs_eagle3"]
    assert rows[OVER_ALL] == pytest.approx((rows["gsm8k"] * rows["alpaca"]) ** 0.5)


def test_where_a_gain_disappears() -> None:
    frame = pd.DataFrame({"batch": [1, 2, 4], "predicted": [1.2, 1.01, 1.5]})
    assert gone_at(frame) == 2
    assert gone_at(frame.assign(predicted=1.3)) is None


def test_weights_that_do_not_fit_are_said(moe: WhatIf) -> None:
    large = question("qwen3_235b")
    assert any("do not fit" in line for line in sentences(moe, large))
    assert not any("do not fit" in line for line in sentences(moe, question()))


def test_every_file_and_every_table_says_predicted(
    moe: WhatIf, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = write_answer(moe, question(), tmp_path)
    assert all(path.name.startswith("predicted_") for path in paths)
    assert {path.suffix for path in paths} == {".csv", ".md", ".tex", ".pdf", ".png"}
    for path in tmp_path.glob("*.md"):
        assert "redicted, not measured" in path.read_text()
    print_answer(moe, question())
    said = capsys.readouterr().out
    assert said.count("redicted, not measured") >= 4
    assert "C(k)" in said


def test_a_dense_answer_is_written_without_a_sparsity_figure(dense: WhatIf, tmp_path: Path) -> None:
    write_answer(dense, question("hunyuan_7b"), tmp_path)
    assert (tmp_path / "predicted_batches_figure.png").is_file()
    assert not (tmp_path / "predicted_sparsity_figure.png").exists()

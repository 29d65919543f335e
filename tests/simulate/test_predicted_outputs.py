"""The paper experiment as a command: what it prints and writes says predicted throughout."""

from __future__ import annotations

from pathlib import Path

import hydra
import pandas as pd
import pytest

from harness.config import known
from harness.simulate import procedures
from harness.simulate.outputs import print_prediction, write_prediction
from harness.simulate.predict import Prediction, predict_paper
from tests.support.bench import composed
from tests.support.command import run_py


@pytest.fixture(scope="module")
def found() -> Prediction:
    return predict_paper(steps=120, share=0.1)


def test_every_file_says_predicted(found: Prediction, tmp_path: Path) -> None:
    paths = write_prediction(found, tmp_path)
    names = {path.name for path in paths}
    assert all(name.startswith("predicted_") for name in names)
    assert {path.name for path in tmp_path.iterdir()} == names
    for stem in ("cells", "sensitivity", "savings"):
        for suffix in ("csv", "pdf", "png"):
            assert (tmp_path / f"predicted_{stem}_figure.{suffix}").stat().st_size > 0
    for path in tmp_path.glob("*.md"):
        assert "redicted" in path.read_text(), path.name


def test_all_cells_are_in_the_file(found: Prediction, tmp_path: Path) -> None:
    write_prediction(found, tmp_path)
    cells = pd.read_csv(tmp_path / "predicted_cells.csv")
    assert len(cells) == 72
    assert cells["predicted"].to_numpy() == pytest.approx(found.cells["predicted"], rel=1e-4)


def test_the_screen_has_cells_savings_coverage_residuals_and_contradictions(
    found: Prediction, capsys: pytest.CaptureFixture[str]
) -> None:
    print_prediction(found)
    said = capsys.readouterr().out
    for words in (
        "predicted beside published",
        "Section 4.3 predicted",
        "inside their predicted 90 % band",
        "hold-out on the lab model, predicted against measured",
        "largest speed ratio EVICT / vanilla",
    ):
        assert words in said
    far = found.cells["residual"].abs() > 0.10
    assert said.count("largest terms at k = 1") == far.sum()


def test_the_experiment_names_a_procedure_and_needs_no_gpu() -> None:
    config, _ = composed("+experiment=predict_paper")
    assert config.procedure is not None
    assert hydra.utils.get_method(config.procedure) is procedures.predict_paper
    others = [name for name in known("experiment") if name != "predict_paper"]
    assert all(composed(f"+experiment={name}")[0].procedure is None for name in others)


def test_a_procedure_takes_the_place_of_measuring(tmp_path: Path) -> None:
    words = ["procedure=builtins.print", f"results_dir={tmp_path / 'runs'}", "machine=shared"]
    done = run_py(*words)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("RunConfig(")
    assert not (tmp_path / "runs").exists()

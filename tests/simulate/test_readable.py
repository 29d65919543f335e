"""No fit sees what is to be predicted: the view holds the declared cells and nothing else."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import harness.simulate.fit
from evict.errors import InputError
from harness.report.published import published
from harness.simulate.acceptance import Draws, Spread
from harness.simulate.fit import PaperFit, fit_paper
from harness.simulate.paper import paper_settings
from harness.simulate.readable import READABLE, FitView, NotForFitting

SPREAD = Spread(0.8, 2.0, 0.3, 0.9, 0.6)
DRAWS = Draws.make(300, 4, 8, 0.3, seed=1)
TABLES = {name: published(name) for name in READABLE}
MODELS = sorted(set(TABLES["decoding_speed"]["model"]))


def fit(tables: dict[str, pd.DataFrame]) -> PaperFit:
    return fit_paper(FitView.of(tables), paper_settings(), SPREAD, DRAWS)


def fitted_numbers(found: PaperFit) -> dict[str, object]:
    return {name: (m.calibration, m.verify_share, m.cells) for name, m in found.models.items()}


@pytest.fixture(scope="module")
def honest() -> dict[str, object]:
    return fitted_numbers(fit(TABLES))


def changed(tables: dict[str, pd.DataFrame], readable: bool) -> dict[str, pd.DataFrame]:
    """Every number of one kind (readable or not) tripled."""
    out = {}
    for name, frame in tables.items():
        column = {"decoding_speed": "tokens_per_s", "mean_accepted_tokens": "mat"}.get(
            name, "value"
        )
        rows = frame["id" if name == "claims" else "method"].isin(READABLE[name]).to_numpy()
        factor = np.where(rows == readable, 3.0, 1.0)
        out[name] = frame.assign(**{column: frame[column] * factor})
    return out


def test_what_may_be_read_is_vanilla_eagle3_and_the_verification_share() -> None:
    """Widening this list means predicting less: change it here only with the issue's words."""
    assert dict(READABLE) == {
        "decoding_speed": {"vanilla", "eagle3"},
        "mean_accepted_tokens": {"eagle3"},
        "claims": {"verify_share_low", "verify_share_high"},
    }


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize(
    ("table", "method"),
    [
        ("decoding_speed", "evict"),
        ("decoding_speed", "ddd"),
        ("decoding_speed", "lookahead"),
        ("mean_accepted_tokens", "evict"),
        ("models", "evict"),
    ],
)
def test_every_other_cell_raises(table: str, method: str, model: str) -> None:
    with pytest.raises(NotForFitting, match="no fit may read"):
        FitView.published().cells(table, method, model)


@pytest.mark.parametrize("name", sorted(set(TABLES["claims"]["id"]) - READABLE["claims"]))
def test_every_other_claim_raises(name: str) -> None:
    with pytest.raises(NotForFitting, match=name):
        FitView.published().claim(name)


def test_the_view_does_not_even_hold_the_other_rows() -> None:
    view = FitView.published()
    for name, frame in view.tables.items():
        key = "id" if name == "claims" else "method"
        assert set(frame[key]) == READABLE[name]
        assert "average" not in set(frame.get("benchmark", []))
    assert len(view.tables["decoding_speed"]) == 3 * 2 * 2 * 6
    assert len(view.tables["mean_accepted_tokens"]) == 3 * 2 * 6


def test_what_may_not_be_read_does_not_move_the_fit(honest: dict[str, object]) -> None:
    assert fitted_numbers(fit(changed(TABLES, readable=False))) == honest


def test_what_may_be_read_does_move_it(honest: dict[str, object]) -> None:
    speeds = TABLES["decoding_speed"]
    slower = {**TABLES, "decoding_speed": speeds.assign(tokens_per_s=speeds["tokens_per_s"] * 0.95)}
    assert fitted_numbers(fit(slower)) != honest
    with pytest.raises(InputError):
        fit(changed(TABLES, readable=True))


def test_the_fitter_has_no_other_way_to_the_published_numbers() -> None:
    """It imports the view, never the tables; nor does what it calls know them."""
    folder = Path(harness.simulate.fit.__file__).parent
    for name in ("fit", "difficulty", "acceptance", "cost", "overlap", "recorded", "geometry"):
        tree = ast.parse((folder / f"{name}.py").read_text())
        modules = [node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
        assert not any(module.startswith("harness.report") for module in modules), name


def test_an_unpublished_model_lists_the_published() -> None:
    with pytest.raises(InputError, match="ling_flash"):
        FitView.published().cells("decoding_speed", "eagle3", "mixtral")

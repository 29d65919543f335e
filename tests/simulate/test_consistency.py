"""The paper against itself: what its tables say of its own statements."""

from __future__ import annotations

import pandas as pd
import pytest

from harness.report import published as tables
from harness.simulate.consistency import checks, inconsistencies


@pytest.fixture(scope="module")
def found() -> pd.DataFrame:
    return checks()


def one(frame: pd.DataFrame, statement: str) -> pd.Series:
    rows = frame[frame["statement"] == statement]
    assert len(rows) == 1
    return rows.iloc[0]


def test_every_printed_average_is_the_mean_of_its_row(found: pd.DataFrame) -> None:
    averages = found[found["statement"].str.startswith("average ")]
    assert len(averages) == 3 * 2 * 5 + 3 * 2 * 2
    assert averages["agrees"].all()


def test_the_largest_speedup_of_the_abstract_is_that_of_temperature_0(found: pd.DataFrame) -> None:
    largest = one(found, "largest speed ratio EVICT / vanilla")
    assert not largest["agrees"]
    assert largest["recomputed"] == pytest.approx(183.21 / 76.73)
    cool = one(found, "largest speed ratio EVICT / vanilla at temperature 0 alone")
    assert cool["agrees"]


def test_what_does_not_fit_is_listed(found: pd.DataFrame) -> None:
    statements = set(inconsistencies(checks())["statement"])
    assert "largest speed ratio EVICT / vanilla" in statements
    assert "ratio of average speeds EVICT / EAGLE-3 on ling_flash" in statements
    assert "ratio of average speeds EVICT / EAGLE-3 on qwen3_235b" not in statements
    assert "mean ratio EVICT / EAGLE-3, over all cells" in statements
    assert "mean ratio EVICT / EAGLE-3, of average speeds" not in statements


def test_a_changed_cell_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    original = tables.published

    def altered(name: str) -> pd.DataFrame:
        frame = original(name).copy()
        if name == "mean_accepted_tokens":
            frame.loc[0, "mat"] += 0.5
        return frame

    monkeypatch.setattr("harness.simulate.consistency.published", altered)
    wrong = inconsistencies(checks())
    assert (wrong["statement"] == "average mat of eagle3 on qwen3_30b, T = 0").any()

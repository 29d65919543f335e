"""An invalid number is never shown, averaged, divided by or drawn; an unknown one is marked."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.collection import Collection
from harness.report.doubt import COUNTS, TIME, doubted, invalid, merged, parts, said, withheld
from harness.report.layouts import reservations, texts
from harness.report.shared_doubt import quiet, shared_notes
from harness.report.tables import TABLES
from harness.report.tables.measures import speed, step_means
from tests.support.collection import sample_collection
from tests.support.sample_evidence import (
    names,
    of_an_older_version,
    silent_cache,
    under_load,
)
from tests.support.sample_methods import (
    BEST_FIXED,
    EAGLE3,
    EVICT,
    VANILLA,
    VANILLA_AA,
    coverage,
)

METHODS = (VANILLA, VANILLA_AA, EAGLE3, coverage(0.7), BEST_FIXED, EVICT)


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_collection((0.0,), ("gsm8k", "qa"), METHODS, 3, 2)


def test_one_invalid_run_of_several_spoils_what_pools_them_and_nothing_else(
    data: Collection,
) -> None:
    loaded = under_load(data, names(data, experiment="paper", method="evict", benchmark="qa"))
    before, after = (TABLES["table1"].build(one) for one in (data, loaded))
    row = {one["benchmark"]: one for one in after[after["method"] == "evict"].to_dict("records")}
    assert [pd.isna(row[name]["tokens_per_s"]) for name in ("gsm8k", "qa", "average")] == [
        False,
        True,
        True,
    ]
    assert row["qa"][TIME] == row["average"][TIME] == "invalid: cpu_load"
    others = [frame[frame["method"] != "evict"].reset_index(drop=True) for frame in (before, after)]
    pd.testing.assert_frame_equal(*others)


def test_the_cell_of_an_invalid_number_holds_the_codes(data: Collection) -> None:
    loaded = under_load(data, names(data, experiment="paper", method="evict", benchmark="qa"))
    heads, rows = texts("table1", TABLES["table1"].build(loaded))
    line = dict(zip(heads, next(row for row in rows if "EVICT" in row), strict=True))
    assert line["QA"] == line["average"] == "invalid: cpu_load"
    assert float(line["GSM8K"]) > 0
    for name in ("table1_speedup", "table1_paper", "spread", "summary"):
        rows = texts(name, TABLES[name].build(loaded))[1]
        assert any("invalid: cpu_load" in text for row in rows for text in row), name


def test_a_quotient_by_an_invalid_number_is_invalid(data: Collection) -> None:
    loaded = under_load(data, names(data, experiment="paper", method="vanilla"))
    frame = TABLES["table1"].build(loaded)
    assert frame.loc[frame["method"] == "evict", "tokens_per_s"].notna().all()
    assert frame["over_plain"].isna().all()
    heads, rows = texts("table1", frame)
    line = dict(zip(heads, next(row for row in rows if "EVICT" in row), strict=True))
    assert line["average"].endswith("(invalid: cpu_load)")
    assert float(line["average"].split(" ")[0]) > 0
    paper = TABLES["table1_paper"].build(loaded)
    against = paper[paper["against"] == "vanilla"]
    assert against["ratio"].isna().all()
    assert set(against["ratio_doubt"]) == {"invalid: cpu_load"}
    assert paper.loc[paper["against"] == "eagle3", "ratio"].notna().all()


def test_load_spoils_times_and_leaves_counts_standing(data: Collection) -> None:
    loaded = under_load(data, names(data, method="evict"))
    runs = loaded.runs[(loaded.runs["method"] == "evict") & (loaded.runs["experiment"] == "paper")]
    times, counts = speed(loaded, runs), step_means(loaded, runs)
    assert times["decode_tokens_per_s"] is None
    assert times["e2e_tokens_per_s"] is None
    assert counts["verify_share"] is None
    assert counts["mat"] > 1
    assert (counts[COUNTS], counts[TIME]) == ("", "invalid: cpu_load")
    for name in ("mat", "acceptance", "regret"):
        assert TABLES[name].build(loaded).equals(TABLES[name].build(data)), name


def test_runs_that_nobody_judged_are_unknown_and_not_valid(data: Collection) -> None:
    judged = ["verdict", "counts_verdict", "verdict_codes", "counts_codes", "verdict_text"]
    bare = replace(data, runs=data.runs.drop(columns=judged))
    assert set(TABLES["table1"].build(bare)[TIME]) == {"unknown: not_judged"}
    assert set(TABLES["mat"].build(bare)[COUNTS]) == {"unknown: not_judged"}


def test_an_unknown_number_is_marked_and_the_mark_explained_once(data: Collection) -> None:
    doubtful = silent_cache(data, names(data, experiment="paper", method="evict", benchmark="qa"))
    frame = TABLES["table1"].build(doubtful)
    heads, rows = texts("table1", frame)
    marked = {
        (row[heads.index("method")], head)
        for row in rows
        for head, text in zip(heads, row, strict=True)
        if "?" in text
    }
    assert marked == {("EVICT", "QA"), ("EVICT", "average")}
    before = texts("table1", TABLES["table1"].build(data))[1]
    assert [[text.replace(" ?", "") for text in row] for row in rows] == before
    (note,) = reservations("table1", frame)
    assert note.startswith("?: unknown")
    assert reservations("table1", TABLES["table1"].build(data)) == []


def test_what_all_numbers_of_a_block_share_is_said_once_and_marks_no_cell(data: Collection) -> None:
    old = of_an_older_version(data)
    for name in ("table1", "table1_speedup", "spread", "summary"):
        frame = TABLES[name].build(old)
        assert not any("?" in text for row in texts(name, frame)[1] for text in row), name
        assert "All " in (said_once := " ".join(reservations(name, frame)))
        assert said_once.count("not_recorded") <= 2
    assert reservations("mat", TABLES["mat"].build(old)) == []


def test_a_reason_of_one_run_stays_marked_where_all_share_another(data: Collection) -> None:
    frame = pd.DataFrame(
        {
            "engine": "torch",
            "temperature": [0.0, 0.0, 1.0],
            TIME: ["unknown: a", "unknown: a, b", "unknown: b"],
        }
    )
    assert list(quiet(frame)[TIME]) == ["", "unknown: b", ""]
    assert shared_notes(frame) == [
        "All speeds and times at engine torch, T=0 are unknown: a.",
        "All speeds and times at engine torch, T=1 are unknown: b.",
    ]


CODES = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=3, unique=True)
DOUBTS = st.builds(said, st.sampled_from(["valid", "unknown", "invalid"]), CODES)


@given(st.lists(DOUBTS, max_size=6))
def test_pooling_keeps_the_worst_state_with_all_its_codes(doubts: list[str]) -> None:
    state, codes = parts(merged(doubts))
    states = [parts(doubt)[0] for doubt in doubts]
    worst = "invalid" if "invalid" in states else "unknown" if "unknown" in states else ""
    assert state == worst
    assert set(codes) == {
        code for doubt in doubts for code in parts(doubt)[1] if parts(doubt)[0] == worst
    }
    assert merged(doubts + doubts) == merged(doubts)


@given(st.lists(DOUBTS, min_size=1, max_size=6))
def test_quieting_hides_no_invalid_number_and_nothing_that_is_not_said(doubts: list[str]) -> None:
    frame = pd.DataFrame({"temperature": 0.0, TIME: doubts})
    after, noted = list(quiet(frame)[TIME]), " ".join(shared_notes(frame))
    for before, found in zip(doubts, after, strict=True):
        if invalid(before):
            assert found == before
        gone = set(parts(before)[1]) - set(parts(found)[1])
        assert all(code in noted for code in gone)


@given(DOUBTS, st.floats(allow_nan=False, allow_infinity=False))
def test_a_doubtful_number_reads_differently_from_a_valid_one(doubt: str, number: float) -> None:
    text = f"{number:.1f}"
    shown = doubted(text, doubt)
    assert (shown == text) == (doubt == "")
    assert withheld(doubt, {"x": number})["x"] == (None if invalid(doubt) else number)
    assert (text in shown) != invalid(doubt)

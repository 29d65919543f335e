"""Which runs are compared, and what speaks against a comparison of runs that are valid."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.collect import collect
from harness.records import RequestRecord, StepRecord
from harness.report.tables import summary
from harness.report.tables.versus import Versus, versus
from harness.stats import Speedup
from harness.validity.codes import CODES
from harness.validity.comparison import aa_floor
from tests.support.recorded_run import CORES, Recorded, plain
from tests.support.verdicts import against, judged, row

OTHER_GIT = {"git": {"commit": "decaf", "dirty": True, "diff_hash": "f00d"}}


def compared(results: Path, method: Recorded, *baselines: Recorded) -> Versus:
    found = against(judged(results, method, *baselines), [method], baselines)
    assert {reason.code for reason in found.verdict.reasons} <= CODES.keys()
    return found


def test_valid_runs_that_differ_in_their_method_are_compared(tmp_path: Path) -> None:
    found = compared(tmp_path, Recorded(), plain())
    assert found.row("vs") == {
        "vs": pytest.approx(2.0),
        "vs_low": pytest.approx(2.0),
        "vs_high": pytest.approx(2.0),
        "vs_time_ratio": pytest.approx(2.0),
        "vs_prompts": 4,
        "vs_excluded": 0,
        "vs_interleaved": 1.0,
        "vs_different": 0,
        "vs_faults": 0,
        "vs_verdict": "valid",
        "vs_why": "valid",
    }


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ({"provenance": OTHER_GIT}, "code_differs", "code.commit: c0ffee and decaf"),
        ({"part": "part-1"}, "not_interleaved", "4 of 4 pairs come from two processes"),
        ({"window": list}, "cpu_load_unknown", "of vanilla on gsm8k"),
    ],
)
def test_a_doubt_leaves_the_ratio_and_says_so(
    tmp_path: Path, changes: dict[str, Any], code: str, named: str
) -> None:
    found = compared(tmp_path, Recorded(), plain(**changes))
    assert (found.verdict.state, found.verdict.codes) == ("unknown", [code])
    assert named in found.verdict.text()
    assert found.found.ratio == pytest.approx(2.0)


def test_replays_need_no_common_process(tmp_path: Path) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        record.finish_reason = "replayed"

    found = compared(tmp_path, Recorded(alter=alter), plain(alter=alter, part="part-1"))
    assert (found.verdict.state, found.interleaved) == ("valid", 0.0)


@pytest.mark.parametrize(
    ("changes", "code", "named"),
    [
        ({"provenance": {"cpu": "another"}}, "not_comparable", "machine.cpu: sample processor and"),
        ({"facts": {"dtype": "float32"}}, "not_comparable", "facts.dtype: bfloat16 and float32"),
        ({"others": CORES}, "run_invalid", "vanilla on gsm8k is invalid: cpu_load (others used"),
    ],
)
def test_an_invalid_comparison_has_no_ratio(
    tmp_path: Path, changes: dict[str, Any], code: str, named: str
) -> None:
    found = compared(tmp_path, Recorded(), plain(**changes))
    assert (found.verdict.state, found.verdict.codes) == ("invalid", [code])
    assert named in found.verdict.text()
    numbers = found.row("vs")
    assert [numbers[f"vs{end}"] for end in ("", "_low", "_high", "_time_ratio")] == [None] * 4
    assert numbers["vs_prompts"] == 4


def test_five_differing_settings_are_named_and_the_rest_counted(tmp_path: Path) -> None:
    settings = {f"setting_{i}": "here" for i in range(7)}
    found = compared(tmp_path, Recorded(read_back=settings), plain())
    assert found.verdict.text().count(": here and absent") == 5
    assert found.verdict.text().endswith("and 2 more)")


def test_the_baseline_that_differs_in_the_method_alone_is_the_partner(tmp_path: Path) -> None:
    near = plain(method="near", step_ms=10.0)
    far = plain(method="far", step_ms=40.0, facts={"threads": 2})
    newer = plain(method="also_near", step_ms=20.0, provenance=OTHER_GIT)
    method = Recorded()
    data = judged(tmp_path, method, near, far, newer)
    own = data.runs["run"] == method.name
    for seed in range(4):
        runs = data.runs.sample(frac=1.0, random_state=seed)
        found = versus(data, runs[runs["run"] == method.name], runs[runs["run"] != method.name])
        assert (found.verdict.state, found.found.ratio) == ("valid", pytest.approx(2.0))
    assert versus(data, data.runs[own], data.runs[own]) == Versus()


def test_nothing_is_said_of_a_comparison_that_does_not_exist(tmp_path: Path) -> None:
    method, elsewhere = Recorded(), plain(benchmark="qa")
    kept = plain(result={"recorded": True})
    found = compared(tmp_path, method, elsewhere, kept)
    assert found == Versus()
    assert (found.row("vs")["vs_verdict"], found.row("vs")["vs_why"]) == (None, None)


def test_one_invalid_run_spoils_the_pooled_comparison_and_no_other(tmp_path: Path) -> None:
    runs = [Recorded(), plain(), Recorded(benchmark="qa", others=CORES), plain(benchmark="qa")]
    table = summary(judged(tmp_path, *runs))
    found = table[table["method"] == "evict"].set_index("benchmark")
    assert dict(found["vs_plain_verdict"]) == {
        "gsm8k": "valid",
        "qa": "invalid",
        "all": "invalid",
    }
    assert found["vs_plain"].notna().to_dict() == {"gsm8k": True, "qa": False, "all": False}


def test_speeds_of_two_machines_are_not_pooled(tmp_path: Path) -> None:
    there: dict[str, Any] = {"benchmark": "qa", "provenance": {"cpu": "another"}}
    methods, baselines = [Recorded(), Recorded(**there)], [plain(), plain(**there)]
    data = judged(tmp_path, *methods, *baselines)
    for method in methods:
        assert against(data, [method], baselines).verdict.state == "valid"
    found = against(data, methods, baselines)
    assert (found.verdict.state, found.verdict.codes) == ("invalid", ["not_comparable"])
    assert "runs that are pooled differ: machine.cpu: sample processor and another" in (
        found.verdict.text()
    )


def again(step_ms: float) -> Recorded:
    return plain(method="vanilla_aa", baseline=None, step_ms=step_ms, result={"replica": 1})


def drafting(step_ms: float) -> Recorded:
    return Recorded(step_ms=step_ms)


@pytest.mark.parametrize(
    ("replica_ms", "method_ms", "valid"),
    [
        (10.0, 19.9, True),  # equal arms are equal: 0.5 % is a difference
        (9.5, 19.5, False),  # equal arms differ by 5 %, the method by 3 %
        (9.5, 18.0, True),  # the method by 11 %
        (10.5, 20.4, False),  # both are slower
        (9.5, 20.4, True),  # not in the range of what equal arms show
    ],
)
def test_a_difference_no_larger_than_that_of_equal_arms_is_none(
    tmp_path: Path, replica_ms: float, method_ms: float, valid: bool
) -> None:
    runs = [drafting(method_ms), plain(), again(replica_ms)]
    table = summary(judged(tmp_path, *runs)).set_index("method")
    found = table.loc["evict"]
    assert found["vs_plain_verdict"] == ("valid" if valid else "invalid")
    assert ("aa_floor (two equal arms differ by [" in found["vs_plain_why"]) is not valid
    itself = table.loc["vanilla_aa"]
    assert itself["vs_plain_verdict"] == "valid"
    assert itself["vs_plain"] == pytest.approx(10.0 / replica_ms)


def test_the_floor_is_that_of_the_runs_own_block(tmp_path: Path) -> None:
    other = {"experiment": "other"}
    elsewhere = [
        replace(again(9.5), result={"replica": 1, **other}, benchmark="qa"),
        plain(benchmark="qa", result=other),
    ]
    runs = [drafting(19.5), plain()]
    data = judged(tmp_path, *runs, *elsewhere)
    assert row(data, elsewhere[0])["floor_low"] == pytest.approx(10 / 9.5)
    assert against(data, runs[:1], runs[1:]).verdict.state == "valid"
    assert collect(tmp_path).runs["floor_low"].notna().sum() == 2


RATIOS = st.floats(0.5, 2.0)
INTERVALS = st.tuples(RATIOS, RATIOS).map(sorted)


def spread(interval: list[float]) -> Speedup:
    return Speedup(None, interval[0], interval[1], None, 9, 0)


@given(INTERVALS, INTERVALS)
def test_the_floor_speaks_only_where_equal_arms_differ(
    equal: list[float], found: list[float]
) -> None:
    reasons = list(aa_floor(spread(equal), spread(found)))
    holds_one = equal[0] <= 1.0 <= equal[1]
    apart = found[0] > max(1.0, equal[1]) or found[1] < min(1.0, equal[0])
    assert bool(reasons) is not (holds_one or apart)
    assert not list(aa_floor(Speedup(None, None, None, None, 1, 0), spread(found)))

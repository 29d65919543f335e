"""Runs of older versions, and frames without rows or columns: unknown, and nothing crashes."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path

import pandas as pd
import pytest

from harness.collect import collect
from harness.collection import Collection
from harness.records import RequestRecord, RunResult
from harness.report.tables import summary
from harness.validity.judge import judge
from tests.support.collection import sample_collection
from tests.support.recorded_run import Recorded, plain
from tests.support.verdicts import against, judged, row

ADDED = ("drafter", "replica", "fingerprint", "warmup", "absent", "outputs", "requests_missing")
ADDED_TO_ROWS = ("started_ms", "ended_ms", "cached_tokens")
VERDICTS = ("verdict", "counts_verdict", "verdict_codes", "counts_codes", "verdict_text")


def older(data: Collection) -> Collection:
    """The same runs as a version wrote them that knew none of the new fields."""
    runs = data.runs.drop(columns=[*ADDED, *VERDICTS, "gpu_clock_mhz"], errors="ignore")
    requests = data.requests.drop(columns=list(ADDED_TO_ROWS))
    return replace(data, runs=runs, requests=requests, telemetry=pd.DataFrame())


def test_the_columns_that_older_versions_lack_are_those_of_the_schema() -> None:
    assert set(ADDED) <= {item.name for item in fields(RunResult)}
    assert set(ADDED_TO_ROWS) <= {item.name for item in fields(RequestRecord)}


def test_an_older_run_is_unknown_and_its_counts_are_judged(tmp_path: Path) -> None:
    runs = (Recorded(), plain())
    data = judge(older(judged(tmp_path, *runs)))
    for run in runs:
        found = row(data, run)
        assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["not_recorded"])
        assert "no fingerprint, no start times" in found["verdict_text"]
        assert found["counts_verdict"] == "valid"


def test_older_runs_are_paired_by_their_hashes_and_stay_unknown(tmp_path: Path) -> None:
    method, base = Recorded(), plain()
    found = against(judge(older(judged(tmp_path, method, base))), [method], [base])
    assert found.found.ratio == pytest.approx(2.0)
    assert (found.verdict.state, found.verdict.codes) == ("unknown", ["not_recorded"])


@pytest.mark.parametrize("name", ["pair_hash", "machine_hash"])
def test_older_runs_of_other_hashes_are_not_compared(tmp_path: Path, name: str) -> None:
    method, base = Recorded(), plain(result={name: "0123456789abcdef"})
    found = against(judge(older(judged(tmp_path, method, base))), [method], [base])
    assert (found.verdict.state, found.verdict.codes) == ("invalid", ["not_comparable"])
    assert f"{name}: " in found.verdict.text()
    assert "and 01234567" in found.verdict.text()


def test_an_older_run_beside_a_new_one_keeps_its_own_verdict(tmp_path: Path) -> None:
    method, base = Recorded(), plain()
    new = judged(tmp_path / "new", method)
    old = older(judged(tmp_path / "old", base))
    joined = Collection(
        runs=pd.concat([new.runs, old.runs], ignore_index=True),
        requests=pd.concat([new.requests, old.requests], ignore_index=True),
        steps=pd.concat([new.steps, old.steps], ignore_index=True),
        telemetry=new.telemetry,
    )
    data = judge(joined)
    assert row(data, method)["verdict"] == "valid"
    assert row(data, base)["verdict_codes"] == ["not_recorded"]
    assert against(data, [method], [base]).verdict.state == "unknown"


def test_a_run_that_lacks_only_its_start_times_is_not_valid(tmp_path: Path) -> None:
    run = Recorded(alter=lambda record, own: setattr(record, "started_ms", None))
    found = row(judged(tmp_path, run), run)
    assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["not_recorded"])
    assert "no fingerprint" not in found["verdict_text"]


def test_nothing_collected_is_judged_as_nothing(tmp_path: Path) -> None:
    for data in (judge(collect(tmp_path)), judge(Collection(*[pd.DataFrame()] * 3))):
        assert data.runs.empty
        assert set(VERDICTS) <= set(data.runs.columns)
        assert summary(data).empty


def test_older_runs_of_every_kind_are_judged_in_place() -> None:
    sample = older(sample_collection(temperatures=(0.0,)))
    data = judge(sample)
    assert list(data.runs["run"]) == list(sample.runs["run"])
    assert set(data.runs["counts_verdict"]) == {"valid"}
    timed = ~data.runs["recorded"] & (data.runs["engine"] != "replay")
    assert set(data.runs.loc[timed, "verdict"]) == {"unknown"}
    assert set(data.runs.loc[~timed, "verdict"]) == {"valid"}
    assert "verdict" not in sample.runs


def test_runs_that_were_never_judged_are_compared_as_unknown() -> None:
    table = summary(older(sample_collection(temperatures=(0.0,))))
    found = table[(table["method"] == "evict") & (table["experiment"] == "paper")]
    assert found["vs_plain"].notna().all()
    assert set(found["vs_plain_verdict"]) == {"unknown"}
    assert found["vs_plain_why"].str.contains("not_recorded").all()

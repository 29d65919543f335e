"""Cases 21, 22: prompts that a cache or a warm-up has met before."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from harness.collect import collect
from harness.engines.base import Method, Observer, Request, RequestTrace
from harness.records import RequestRecord, StepRecord
from harness.report.tables import summary
from tests.support.bench import Bench
from tests.support.fake_engine import FakeEngine
from tests.support.recorded_run import Alter, Recorded, failed
from tests.support.verdicts import judged, row


@dataclass
class Remembering(FakeEngine):
    """Keeps every prompt in a prefix cache, and says how much of one it found there."""

    flushes: bool = False
    cached: set[tuple[int, ...]] = field(default_factory=set)

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        trace = super().generate(request, method, seed, observer)
        trace.cached_tokens = len(request.prompt_ids) if request.prompt_ids in self.cached else 0
        if not self.flushes:
            self.cached.add(request.prompt_ids)
        return trace


def test_case_21_an_arm_that_met_a_warm_cache_is_invalid(bench: Bench) -> None:
    """Careless: the second arm wins because its prompts lay in the cache."""
    bench.engine = Remembering()
    bench.run("method=evict", "compare=[vanilla]", "temperature=1")
    data = collect(bench.results)
    for codes, text in zip(data.runs["verdict_codes"], data.runs["verdict_text"], strict=True):
        assert "warm_prefix_cache" in codes
        assert "2 of 4 prompts lay in the prefix cache" in text
    table = summary(data)
    (found,) = table[table["method"] == "evict"].to_dict("records")
    assert pd.isna(found["vs_plain"])
    assert found["vs_plain_verdict"] == "invalid"
    assert "run_invalid" in found["vs_plain_why"]


def test_case_21_a_flushed_cache_is_none(bench: Bench) -> None:
    """Careless: an engine that has a prefix cache is never trusted."""
    bench.engine = Remembering(flushes=True)
    bench.run("method=evict", "compare=[vanilla]", "temperature=1")
    for text in collect(bench.results).runs["verdict_text"]:
        assert "prefix_cache" not in text


def cached(tokens: int | None) -> Alter:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        record.cached_tokens = tokens

    return alter


def test_case_21_a_shared_prefix_may_be_cached_and_no_more(tmp_path: Path) -> None:
    """Careless: any cached token is forgiven, or none."""
    facts = {"settings": {"shared_prefix": 4}}
    runs = [
        Recorded(method="within", facts=facts, alter=cached(4)),
        Recorded(method="beyond", facts=facts, alter=cached(5)),
        Recorded(method="silent", alter=cached(None)),
    ]
    data = judged(tmp_path, *runs)
    within, beyond, silent = (row(data, run) for run in runs)
    assert within["verdict"] == "valid"
    assert (beyond["verdict"], beyond["verdict_codes"]) == ("invalid", ["warm_prefix_cache"])
    assert "at most 5 tokens (allowed 4)" in beyond["verdict_text"]
    assert (silent["verdict"], silent["verdict_codes"]) == ("unknown", ["prefix_cache_unknown"])


def test_case_21_a_request_refused_for_a_warm_cache_spoils_its_run(tmp_path: Path) -> None:
    """Careless: the refused request is left out, and those before it count."""

    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        if record.prompt_id.endswith("3"):
            failed(record, own, "WarmPrefixCache", "warm prefix cache: 12 of 12 prompt tokens")

    run = Recorded(alter=alter)
    found = row(judged(tmp_path, run), run)
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["warm_prefix_cache"])
    assert "1 of 4 prompts" in found["verdict_text"]


def warmed(*prompts: str, began: float | None, ended: float) -> dict[str, Any]:
    span = {"part": "part-0", "prompts": list(prompts), "ended_ms": ended}
    return {"warmup": [span if began is None else {**span, "started_ms": began}]}


def test_case_22_a_measured_warm_up_prompt_spoils_the_run(tmp_path: Path) -> None:
    """Careless: the first question three times, then measured."""
    clean = Recorded(method="clean")
    data = judged(tmp_path / "one", clean)
    met = str(data.requests["input_hash"].iloc[2])
    run = Recorded(result=warmed("warm", met, began=0.0, ended=50.0))
    found = row(judged(tmp_path / "two", run), run)
    assert row(data, clean)["verdict"] == "valid"
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["warmup_prompt_measured"])
    assert found["counts_verdict"] == "invalid"
    assert met in found["verdict_text"]


@pytest.mark.parametrize(
    ("began", "ended", "verdict"),
    [
        (0.0, 100.0, "valid"),  # the first request begins at 100 ms
        (0.0, 101.0, "invalid"),
        (None, 100.0, "valid"),
        (None, 101.0, "invalid"),
        (1010.0, 1090.0, "valid"),  # a new server's, after the first request has ended
        (990.0, 1090.0, "invalid"),
        (None, 1090.0, "invalid"),
    ],
)
def test_case_22_a_warm_up_ends_before_it_is_measured(
    tmp_path: Path, began: float | None, ended: float, verdict: str
) -> None:
    """Careless: warm-up requests still in flight when the clock is started."""
    run = Recorded(result=warmed("warm", began=began, ended=ended))
    found = row(judged(tmp_path, run), run)
    assert found["verdict"] == verdict
    assert ("warmup_overlap" in found["verdict_codes"]) is (verdict == "invalid")
    assert found["counts_verdict"] == "valid"


def test_case_22_what_a_real_run_warms_up_with_is_not_what_it_measures(bench: Bench) -> None:
    """Careless: nothing is written down of the warm-up, so nothing can be held against it."""
    bench.run("method=evict", "compare=[vanilla]", "temperature=1")
    data = collect(bench.results)
    for spans, text in zip(data.runs["warmup"], data.runs["verdict_text"], strict=True):
        assert spans
        assert spans[0]["prompts"]
        assert "warmup" not in text

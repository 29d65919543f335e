"""Each rule about a run: what breaks it, and that nothing else is said."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.consistency import InconsistentTrace, check_trace
from harness.engines.sglang.metadata import check_metadata, read_metadata
from harness.records import RequestRecord, StepRecord
from harness.validity.codes import CODES
from tests.support.recorded_run import CORES, FACTS, Recorded, failed, plain
from tests.support.steps import steps, trace
from tests.support.verdicts import judged, row


def verdict(results: Path, run: Recorded) -> dict[str, Any]:
    found = row(judged(results, run), run)
    assert set(found["verdict_codes"]) <= CODES.keys()
    assert set(found["counts_codes"]) <= CODES.keys()
    return found


def test_nothing_speaks_against_a_clean_run(tmp_path: Path) -> None:
    for run in (Recorded(), plain()):
        found = verdict(tmp_path / run.method, run)
        assert (found["verdict"], found["counts_verdict"], found["verdict_text"]) == (
            "valid",
            "valid",
            "valid",
        )
        assert (found["verdict_codes"], found["counts_codes"]) == ([], [])


@pytest.mark.parametrize(("share", "loaded"), [(0.099, False), (0.101, True), (0.6, True)])
def test_others_may_use_a_tenth_of_the_cores(tmp_path: Path, share: float, loaded: bool) -> None:
    found = verdict(tmp_path, Recorded(others=share * CORES))
    assert found["verdict"] == ("invalid" if loaded else "valid")
    if loaded:
        assert found["verdict_codes"] == ["cpu_load"]
        assert f"others used {share * CORES:.1f} of {CORES} cores" in found["verdict_text"]
        assert found["counts_verdict"] == "valid"


@pytest.mark.parametrize(
    ("run", "why"),
    [
        (Recorded(window=list, result={"absent": {"cpu.load": "no /proc"}}), "no /proc"),
        (Recorded(window=list), "not sampled"),
        (Recorded(provenance={"cores": None}), "number of cores not recorded"),
    ],
)
def test_a_load_that_nobody_saw_is_unknown(tmp_path: Path, run: Recorded, why: str) -> None:
    found = verdict(tmp_path, run)
    assert (found["verdict"], found["verdict_codes"]) == ("unknown", ["cpu_load_unknown"])
    assert why in found["verdict_text"]


def test_rows_of_two_machines_are_no_measurement(tmp_path: Path) -> None:
    found = verdict(tmp_path, Recorded(result={"machine_hash": None}))
    assert (found["verdict"], found["verdict_codes"]) == ("invalid", ["mixed_session"])
    assert found["counts_verdict"] == "valid"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"accepted": 4}, "step 1: accepted 4, verified 4, drafted 7 (4 such steps)"),
        ({"drafted": 2}, "step 1: accepted 1, verified 4, drafted 2 (4 such steps)"),
        ({"committed": 1}, "gsm8k-0: steps commit 7 tokens, decode returned 8"),
    ],
)
def test_counters_in_the_files_contradict_each_other(
    tmp_path: Path, change: dict[str, int], named: str
) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        for name, value in change.items():
            setattr(own[1], name, value)

    found = verdict(tmp_path, Recorded(alter=alter))
    assert (found["counts_verdict"], found["counts_codes"]) == (
        "invalid",
        ["counters_inconsistent"],
    )
    assert named in found["verdict_text"]


def no_counters() -> None:
    check_metadata(read_metadata({"completion_tokens": 9}), draft_tokens=4)


def too_many_experts() -> None:
    own = steps((3, 4, 1))
    own[0].expert_union = 33.0
    check_trace(trace(own), replace(FACTS, experts=128, experts_per_token=8))


def too_many_tokens() -> None:
    check_trace(trace(steps(*[(5, 6, 1)] * 4, (5, 6, 1, 5))))


@pytest.mark.parametrize(
    ("check", "code"),
    [
        (too_many_tokens, "counters_inconsistent"),
        (no_counters, "counters_missing"),
        (too_many_experts, "experts_out_of_bounds"),
    ],
)
def test_a_request_refused_for_its_counters_spoils_the_run(
    tmp_path: Path, check: Callable[[], None], code: str
) -> None:
    with pytest.raises(InconsistentTrace) as refusal:
        check()

    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        if record.prompt_id.endswith("1"):
            failed(record, own, type(refusal.value).__name__, str(refusal.value))

    found = verdict(tmp_path, Recorded(alter=alter))
    assert (found["counts_verdict"], found["counts_codes"]) == ("invalid", [code])


def test_a_generation_that_ended_with_prefills_token_needs_no_step(tmp_path: Path) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        own.clear()
        record.decode_tokens, record.output_ids = 0, record.output_ids[:1]

    found = verdict(tmp_path, Recorded(alter=alter))
    assert found["counts_codes"] == []


def broken(record: RequestRecord, own: list[StepRecord]) -> None:
    if record.prompt_id.endswith("1"):
        failed(record, own, "RuntimeError", "boom")


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (
            Recorded(alter=broken, result={"reasons": ["1 of 4 requests: RuntimeError"]}),
            "3 of 4 requests: 1 of 4 requests: RuntimeError",
        ),
        (Recorded(result={"status": "partial", "requests_missing": 2}), "4 of 6 requests"),
        (Recorded(result={"requests_missing": 2}), "4 of 6 requests"),
    ],
)
def test_a_run_that_is_not_whole_is_unknown(tmp_path: Path, run: Recorded, said: str) -> None:
    found = verdict(tmp_path, run)
    assert (found["verdict"], found["counts_verdict"]) == ("unknown", "unknown")
    assert found["verdict_codes"] == ["partial"]
    assert said in found["verdict_text"]


def outputs(**counts: int) -> dict[str, Any]:
    differences = [
        {"prompt_id": "gsm8k-2", "kind": "near_tie", "first_divergence": 3, "gap": 0.001},
        {"prompt_id": "gsm8k-1", "kind": "fault", "first_divergence": 7, "gap": 2.1},
    ]
    return {"outputs": {"pairs": 4, "counts": counts, "differences": differences}}


def test_outputs_that_differ_without_an_excuse_spoil_the_run(tmp_path: Path) -> None:
    found = verdict(tmp_path, Recorded(result=outputs(equal=2, near_tie=1, fault=1)))
    assert (found["counts_verdict"], found["verdict_codes"]) == ("invalid", ["outputs_differ"])
    assert "1 of 4 greedy outputs differ" in found["verdict_text"]
    assert "token 7 of gsm8k-1 (log-probability gap 2.1)" in found["verdict_text"]


def test_near_ties_and_stop_rules_are_no_fault(tmp_path: Path) -> None:
    found = verdict(tmp_path, Recorded(result=outputs(equal=1, near_tie=2, stop_rule=1, fault=0)))
    assert found["verdict"] == "valid"


def test_a_run_keeps_every_reason_and_names_those_of_its_state(tmp_path: Path) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        broken(record, own)
        if record.error_class is None:
            record.cached_tokens = None

    found = verdict(tmp_path, Recorded(alter=alter, others=CORES))
    assert found["verdict_codes"] == ["cpu_load"]
    assert found["counts_codes"] == ["partial"]
    for code in ("cpu_load", "partial", "prefix_cache_unknown"):
        assert code in found["verdict_text"]


@pytest.mark.parametrize("kind", ["recorded", "replayed"])
def test_rules_about_time_are_for_times_that_were_measured(tmp_path: Path, kind: str) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        record.started_ms = record.cached_tokens = None
        if kind == "replayed":
            record.finish_reason = "replayed"

    timeless = {"recorded": kind == "recorded", "machine_hash": None}
    run = Recorded(alter=alter, others=CORES, result=timeless)
    assert verdict(tmp_path / "timeless", run)["verdict"] == "valid"
    own = Recorded(alter=lambda record, own: setattr(record, "cached_tokens", None), others=CORES)
    assert verdict(tmp_path / "timed", own)["verdict"] == "invalid"


def test_counts_of_a_recorded_run_are_judged(tmp_path: Path) -> None:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        own[:] = steps((7, 4, 4))

    found = verdict(tmp_path, Recorded(alter=alter, result={"recorded": True}))
    assert found["counts_verdict"] == "invalid"

"""Cases 9, 25, 32, 37: counters and samples that cannot be what they are said to be."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harness.records import RequestRecord, StepRecord
from tests.support.recorded_run import Alter, Recorded, failed, plain
from tests.support.steps import steps
from tests.support.verdicts import judged, row

Ids = Callable[[RequestRecord], list[int]]


def answers(ids: Ids) -> Alter:
    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        own[:] = steps(*[(0, 1, 0)] * 63)
        record.output_ids = ids(record)
        record.decode_tokens = 63

    return alter


GREEDY = list(range(64))


@pytest.mark.parametrize(
    ("temperature", "repeats", "ids", "found"),
    [
        (1.0, 5, lambda record: GREEDY, True),
        (0.0, 5, lambda record: GREEDY, False),
        (1.0, 4, lambda record: GREEDY, False),
        (1.0, 5, lambda record: [*GREEDY[:-1], 100 + record.repeat], False),
        # one prompt that varies shows that the sampler draws
        (1.0, 5, lambda r: [*GREEDY[:-1], 99 + r.repeat * (r.prompt_id[-1] == "2")], False),
    ],
)
def test_case_25_five_equal_samples_of_every_prompt_look_greedy(
    tmp_path: Path, temperature: float, repeats: int, ids: Ids, found: bool
) -> None:
    """Careless: temperature 1 in the configuration, top-k 1 in the sampler."""
    run = plain(temperature=temperature, repeats=repeats, prompts=3, alter=answers(ids))
    said = row(judged(tmp_path, run), run)
    assert ("looks_greedy" in said["verdict_codes"]) is found
    assert said["counts_verdict"] == ("invalid" if found else "valid")
    assert ("sampling looks greedy: 5 seeds, one output of 64" in said["verdict_text"]) is found


def test_case_09_absent_counters_are_missing_and_not_one(tmp_path: Path) -> None:
    """Careless: a reply without a verify count has a Mat of 1.0, or is left out."""

    def silent(record: RequestRecord, own: list[StepRecord]) -> None:
        if record.prompt_id.endswith("0"):
            own.clear()

    def refused(record: RequestRecord, own: list[StepRecord]) -> None:
        if record.prompt_id.endswith("0"):
            failed(
                record, own, "InconsistentTrace", "missing counters: 9 tokens, no spec_verify_ct"
            )

    runs = [
        Recorded(method="silent", prompts=3, alter=silent),
        Recorded(method="refused", prompts=3, alter=refused),
    ]
    data = judged(tmp_path, *runs)
    for run in runs:
        found = row(data, run)
        assert (found["counts_verdict"], found["verdict_codes"]) == (
            "invalid",
            ["counters_missing"],
        )
        assert "missing counters (1 of 3)" in found["verdict_text"]


def test_case_09_a_baseline_that_verifies_drafts_is_none(tmp_path: Path) -> None:
    """Careless: the baseline speculates, and every speedup over it is too small."""

    def speculating(record: RequestRecord, own: list[StepRecord]) -> None:
        own[:] = steps(*[(3, 4, 1)] * 4)

    run = plain(alter=speculating)
    found = row(judged(tmp_path, run), run)
    assert (found["counts_verdict"], found["verdict_codes"]) == (
        "invalid",
        ["counters_inconsistent"],
    )
    assert "the baseline is speculating: it verified 4 nodes a step" in found["verdict_text"]


@pytest.mark.parametrize(
    ("union", "inside"), [(1.9, False), (2.0, True), (8.0, True), (8.1, False)]
)
def test_case_32_expert_counts_out_of_bounds_spoil_the_run(
    tmp_path: Path, union: float, inside: bool
) -> None:
    """Careless: padded tokens choose experts that no token of the step can have chosen."""

    def counted(record: RequestRecord, own: list[StepRecord]) -> None:
        own[1].expert_union = union

    run = Recorded(alter=counted)
    found = row(judged(tmp_path, run), run)
    assert found["counts_verdict"] == ("valid" if inside else "invalid")
    if not inside:
        assert found["verdict_codes"] == ["experts_out_of_bounds"]
        assert f"expert union {union:g} outside 2..8 (4 tokens" in found["verdict_text"]


def kept(accepted: int, every: int, nodes: int = 4) -> Alter:
    """100 steps per request; one in `every` keeps `accepted` drafts."""

    def alter(record: RequestRecord, own: list[StepRecord]) -> None:
        own[:] = steps(*[(nodes - 1, nodes, 0 if i % every else accepted) for i in range(100)])
        record.decode_tokens = sum(step.committed for step in own)

    return alter


@pytest.mark.parametrize(
    ("drafter", "prompts", "alter", "near_one"),
    [
        ("eagle3", 3, kept(1, 25), True),  # Mat 1.04 over 300 steps
        ("eagle3", 3, kept(1, 20), False),  # Mat 1.05
        ("eagle3", 2, kept(1, 25), False),  # 200 steps
        ("trie", 3, kept(1, 25), False),  # a trie that has seen nothing alike
        ("eagle3", 3, kept(0, 1, nodes=1), False),  # nothing was offered
    ],
)
def test_case_37_mat_near_one_with_a_trained_drafter_is_flagged(
    tmp_path: Path, drafter: str, prompts: int, alter: Alter, near_one: bool
) -> None:
    """Careless: a wrong vocabulary map reads as a drafter that does not help."""
    run = Recorded(drafter=drafter, prompts=prompts, alter=alter)
    found = row(judged(tmp_path, run), run)
    assert found["counts_verdict"] == ("unknown" if near_one else "valid")
    if near_one:
        assert found["verdict_codes"] == ["mat_near_one"]
        assert "check d2t, template, hidden-state layers" in found["verdict_text"]

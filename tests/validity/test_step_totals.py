"""Totals of all runs at once are those of each run alone."""

from __future__ import annotations

import pandas as pd
from hypothesis import given
from hypothesis import strategies as st

from harness.validity.step_totals import StepTotals, step_totals, tokens_by_request

EXPERTS = {"a": (8, 2), "b": (0, 0), "c": (16, 4)}
STEPS = st.fixed_dictionaries(
    {
        "run": st.sampled_from(sorted(EXPERTS)),
        "prompt_id": st.sampled_from(["p", "q"]),
        "turn": st.integers(0, 1),
        "repeat": st.just(0),
        "step": st.integers(0, 9),
        "drafted": st.integers(0, 8),
        "verified": st.integers(1, 9),
        "accepted": st.integers(0, 8),
        "committed": st.integers(1, 9),
        "expert_union": st.one_of(st.none(), st.floats(0, 20)),
    }
)


def impossible(row: dict[str, int]) -> bool:
    return not 0 <= row["accepted"] < row["verified"] <= row["drafted"] + 1


def outside(row: dict[str, float], experts: int, top_k: int) -> bool:
    union, highest = row["expert_union"], min(experts, top_k * row["verified"])
    return bool(experts) and union is not None and not top_k - 1e-3 <= union <= highest + 1e-3


@given(st.lists(STEPS, max_size=40))
def test_every_run_adds_up_as_if_it_were_alone(rows: list[dict[str, int]]) -> None:
    found = step_totals(pd.DataFrame(rows), EXPERTS)
    assert set(found) == {row["run"] for row in rows}
    for run, totals in found.items():
        own = [row for row in rows if row["run"] == run]
        assert totals.steps == len(own)
        assert totals.verified == sum(row["verified"] for row in own)
        assert totals.committed == sum(row["committed"] for row in own)
        assert totals.longest == max(row["verified"] for row in own)
        odd = [row for row in own if impossible(row)]
        assert (totals.impossible.count if totals.impossible else 0) == len(odd)
        assert not odd or totals.impossible.step == odd[0]["step"]  # type: ignore[union-attr]
        far = [row for row in own if outside(row, *EXPERTS[str(run)])]
        assert (totals.outside.count if totals.outside else 0) == len(far)


@given(st.lists(STEPS, max_size=40))
def test_every_request_gets_its_own_steps_tokens(rows: list[dict[str, int]]) -> None:
    keys = [(run, prompt, turn, 0) for run in EXPERTS for prompt in "pq" for turn in (0, 1)]
    requests = pd.DataFrame(keys, columns=["run", "prompt_id", "turn", "repeat"])
    found = tokens_by_request(requests, pd.DataFrame(rows))
    for key, tokens in zip(keys, found, strict=True):
        own = [
            row["committed"]
            for row in rows
            if (row["run"], row["prompt_id"], row["turn"], row["repeat"]) == key
        ]
        assert tokens == sum(own) if own else tokens != tokens


def test_no_step_no_mat() -> None:
    assert StepTotals().mat is None
    assert step_totals(pd.DataFrame(), EXPERTS) == {}

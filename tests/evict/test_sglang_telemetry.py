"""Step records inside SGLang: right values, read late, no wait for the device while decoding."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from evict.sglang.session import Session
from evict.sglang.stage_timer import StageTimer
from evict.sglang.step_ring import StepFacts, StepRing, StepTensors, TreeTensors
from tests.support.no_sync import NoSync
from tests.support.scripted_clock import ScriptedClock, quick_step, step

FACTS = StepFacts(epoch=3, rids=("a",), context=(10,), k=2, drafted=31, depth=4, graph=False)


def tensors(*lens: int) -> StepTensors:
    return StepTensors(torch.ones(len(lens)), torch.ones(len(lens)), torch.tensor(lens))


@given(st.data(), st.lists(st.integers(1, 4), min_size=1, max_size=12), st.integers(1, 4))
@settings(deadline=None)
def test_records_keep_what_a_step_had_although_its_tensors_are_overwritten(
    data: st.DataObject, batches: list[int], capacity: int
) -> None:
    """Static buffers, batches that grow and shrink, with and without union and tree."""
    timer = StageTimer("cpu", 2)
    ring = StepRing(capacity, timer)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 2**31)))
    score_BN = torch.zeros(4, 6)
    count_BN = torch.zeros(4, 6, dtype=torch.int64)
    expected = []
    for number, batch in enumerate(batches):
        score_BN.copy_(torch.rand(4, 6, generator=generator))
        count_BN.copy_(torch.randint(1, 9, (4, 6), generator=generator))
        tree = TreeTensors(count_BN[:batch], count_BN[:batch] - 1, score_BN[:batch])
        facts = StepFacts(
            epoch=1,
            rids=tuple(f"r{index}" for index in range(batch)),
            context=tuple(range(batch)),
            k=3,
            drafted=5,
            depth=2,
            graph=bool(batch % 2),
        )
        values = StepTensors(
            expected=score_BN[:batch, 2],
            full=score_BN[:batch, 5].mean(),
            accept_lens_B=count_BN[:batch, 0],
            union_L=count_BN[0] if data.draw(st.booleans()) else None,
            tree=tree if data.draw(st.booleans()) else None,
        )
        assert quick_step(timer) == number
        ring.push(facts, values)
        expected.append(as_json(number, facts, values))
    score_BN.zero_()
    count_BN.zero_()
    assert len(ring) == len(batches)
    records = [
        {name: value for name, value in one.items() if not name.endswith("_ms")}
        for one in ring.drain()
    ]
    assert records == expected
    assert ring.drain() == []


def as_json(number: int, facts: StepFacts, values: StepTensors) -> dict[str, Any]:
    tree = values.tree
    lists = tree and (tree.tokens_BN, tree.parents_BN, tree.scores_BN)
    return {
        "epoch": 1,
        "step": number,
        "rids": list(facts.rids),
        "batch": len(facts.rids),
        "k": 3,
        "drafted": 5,
        "depth": 2,
        "expected": pytest.approx(values.expected.mean().item()),
        "full": pytest.approx(values.full.mean().item()),
        "accepted": [tokens - 1 for tokens in values.accept_lens_B.tolist()],
        "context": list(facts.context),
        "graph": facts.graph,
        "union": None if values.union_L is None else values.union_L.tolist(),
        "tree": lists
        and dict(
            zip(("tokens", "parents", "scores"), (one.tolist() for one in lists), strict=True)
        ),
    }


def test_records_reach_the_harness_through_the_session(tmp_path: Path) -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", 2, clock)
    ring = StepRing(2, timer)
    for lens in range(1, 6):
        step(timer, clock, (5, 6, 7, 2))
        ring.push(FACTS, tensors(lens))
    Session(tmp_path).append(ring.drain())
    records = Session(tmp_path).take()
    assert [one["accepted"] for one in records] == [[0], [1], [2], [3], [4]]
    assert [one["step_ms"] for one in records] == [20, 20, 20, 20, None]
    stages = [records[0][f"{name}_ms"] for name in ("draft", "verify", "extend", "gap")]
    assert stages == [5, 6, 7, 2]


def test_a_full_ring_waits_only_for_copies_as_old_as_itself() -> None:
    clock = ScriptedClock()
    timer = StageTimer("cpu", 64, clock)
    ring = StepRing(3, timer)
    made = clock.made
    for number in range(8):
        step(timer, clock, (1, 1, 1, 1))
        ring.push(FACTS, tensors(1))
        assert len(clock.waits) == max(0, number - 2)
    assert clock.made == made
    assert [one["step"] for one in ring.drain()] == list(range(8))


def test_steps_without_a_record_leave_the_others_their_times() -> None:
    timer = StageTimer("cpu", 2)
    ring = StepRing(4, timer)
    for number in range(6):
        quick_step(timer)
        if number % 2:
            ring.push(FACTS, tensors(1))
    assert [one["step"] for one in ring.drain()] == [1, 3, 5]


def test_records_without_a_complete_step_of_their_own_are_refused() -> None:
    timer = StageTimer("cpu")
    ring = StepRing(4, timer)
    with pytest.raises(InputError, match="no complete step"):
        ring.push(FACTS, tensors(1))
    timer.start()
    with pytest.raises(InputError, match=r"no complete step.*after_extend\(\)"):
        ring.push(FACTS, tensors(1))
    timer.break_run()
    quick_step(timer)
    with pytest.raises(InputError, match=r"seen: \(2,\); allowed: \(1,\)"):
        ring.push(FACTS, tensors(1, 2))
    ring.push(FACTS, tensors(1))
    with pytest.raises(InputError, match="step 1 again"):
        ring.push(FACTS, tensors(1))
    with pytest.raises(InputError, match="1 requests, 2 lengths"):
        replace(FACTS, context=(1, 2))
    with pytest.raises(InputError, match="a slot; seen: 0"):
        StepRing(0, timer)


def test_times_taken_by_somebody_else_are_noticed() -> None:
    timer = StageTimer("cpu")
    ring = StepRing(4, timer)
    quick_step(timer)
    ring.push(FACTS, tensors(1))
    timer.drain(synchronize=True)
    with pytest.raises(InputError, match="drained by somebody else; seen: 0"):
        ring.drain()


def test_a_recorded_step_never_waits_for_the_device() -> None:
    """More steps than the timer and the ring hold, so that both have to make room."""
    timer = StageTimer("cpu", 2)
    ring = StepRing(2, timer)
    tree = TreeTensors(*torch.ones(3, 1, 4))
    values = replace(tensors(1), tree=tree, union_L=torch.ones(3))
    with NoSync():
        for _ in range(5):
            quick_step(timer)
            ring.push(FACTS, values)
    assert len(ring.drain()) == 5


@pytest.mark.gpu
def test_events_and_pinned_copies_on_cuda() -> None:
    timer = StageTimer("cuda", 2)
    ring = StepRing(2, timer)
    lens_B = torch.ones(1, dtype=torch.int32, device="cuda")
    matrix = torch.rand(512, 512, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for _ in range(6):
            timer.start()
            timer.after_draft()
            matrix = (matrix @ matrix).clamp(max=1)
            timer.after_verify()
            timer.after_extend()
            ring.push(FACTS, StepTensors(lens_B.float(), lens_B.float(), lens_B))
            lens_B.add_(1)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    records = ring.drain()
    assert [one["accepted"] for one in records] == [[number] for number in range(6)]
    assert all(one["verify_ms"] > 0 for one in records)
    assert records[-1]["step_ms"] is None

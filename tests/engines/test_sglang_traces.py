"""Steps from streams and from the EVICT worker's records."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.consistency import InconsistentTrace
from harness.engines.sglang.metadata import UnreadableReply
from harness.engines.sglang.trace import Traced, worker_trace
from tests.support.asking import PLAIN, TREE, ask, request, step_lines, traced, words
from tests.support.fake_replies import Script, plain, spec_fields, speculative
from tests.support.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


def test_steps_come_from_the_stream(server: FakeServer) -> None:
    found = traced(server, speculative([2, 0]), TREE, 0.0, 1.0, 1.5, 1.75)
    assert (found.step_times, found.notes) == ("stream", ())
    first, second = found.trace.steps
    assert (first.drafted, first.verified, first.depth_drawn) == (31, 32, 4)
    assert (first.accepted, first.committed, first.context_len) == (2, 3, 3)
    assert (second.accepted, second.committed, second.context_len) == (0, 1, 6)
    assert (first.total_ms, second.total_ms) == (500.0, 250.0)
    assert math.isnan(first.verify_ms)
    assert first.expected is None
    assert (found.trace.prefill_ms, found.trace.decode_ms) == (1000.0, 750.0)


def test_merged_events_give_exact_counts_and_no_times(server: FakeServer) -> None:
    """Careless: five steps booked as three, or a mean gap passed off as five measurements."""
    script = speculative([2, 0, 3, 1, 3], cut=2)
    found = traced(server, script.merged(1, 4, 6, 2), TREE, 0.0, 1.0, 2.0, 3.0, 4.0)
    assert found.step_times == "none"
    assert found.notes == ("merged events: 3 for 5 steps", "order of the steps unknown")
    steps = found.trace.steps
    assert sorted(step.accepted for step in steps) == [0, 1, 2, 3, 3]
    assert sum(step.committed for step in steps) == 12
    assert all(math.isnan(step.total_ms) for step in steps)
    assert found.trace.decode_ms == 3000.0
    with pytest.raises(InconsistentTrace, match="merged events of 5 steps, and no histogram"):
        traced(
            server,
            script.merged(1, 4, 6, 2).counted(spec_correct_drafts_histogram=None),
            TREE,
        )


def test_merged_events_of_a_plain_server(server: FakeServer) -> None:
    found = traced(server, plain(5).merged(1, 1, 2, 1), PLAIN)
    assert found.notes == ("merged events: 3 for 4 steps",)
    assert [step.committed for step in found.trace.steps] == [1, 1, 1, 1]
    assert [step.verified for step in found.trace.steps] == [1, 1, 1, 1]
    assert all(math.isnan(step.total_ms) for step in found.trace.steps)


def test_more_events_than_steps_are_refused(server: FakeServer) -> None:
    with pytest.raises(InconsistentTrace, match="3 events for 2 verify steps"):
        traced(server, speculative([2, 1]).merged(1, 2, 1, 2), TREE)


def test_prefill_merged_with_the_first_step_is_refused(server: FakeServer) -> None:
    """Careless: a decoded token counted, its time booked as prefill's."""
    with pytest.raises(InconsistentTrace, match="the first event holds 4 tokens"):
        traced(server, speculative([2, 1]).merged(4, 2), TREE)


def test_a_request_that_was_taken_back_is_refused(server: FakeServer) -> None:
    with pytest.raises(InconsistentTrace, match="took the request back 1 times"):
        traced(server, plain(3).counted(num_retractions=1), PLAIN)


WIDTHS = (8, 1, 20, 8)
EVICT = speculative([2, 0, 3, 1], cut=1).counted(
    spec_cap_length=sum(WIDTHS) / 4,
    spec_cap_lens_histogram=[WIDTHS.count(k) for k in range(21)],
)


def evict(server: FakeServer, script: Script, lines: Sequence[dict[str, Any]]) -> Traced:
    reply = ask(server, script, 0.0, 1.0, 1.1, 1.2, 1.3, 1.5)
    return worker_trace(reply, request(len(script.ids)), TREE, words, lines)


def test_the_workers_records_give_widths_times_and_unions(server: FakeServer) -> None:
    found = evict(server, EVICT, step_lines(EVICT, WIDTHS))
    steps = found.trace.steps
    assert (found.step_times, found.notes) == ("worker", ())
    assert [step.verified for step in steps] == [8, 1, 20, 8]
    assert [step.accepted for step in steps] == [2, 0, 3, 1]
    assert [step.committed for step in steps] == [3, 1, 4, 1]
    measured = [4.0, 4.0, 4.0, math.nan]
    assert [step.total_ms for step in steps] == pytest.approx(measured, nan_ok=True)
    assert [step.context_len for step in steps] == [3, 6, 7, 11]
    assert (steps[0].draft_ms, steps[0].verify_ms, steps[0].extend_ms) == (1.0, 2.0, 0.5)
    assert (steps[0].other_ms, steps[0].expected, steps[0].expert_union) == (0.5, 2.5, 9.0)
    assert found.trace.expert_union_layers == [[8, 10], [8, 11], [8, 12], [8, 13]]


def test_records_of_other_requests_are_left_alone(server: FakeServer) -> None:
    others = step_lines(EVICT, WIDTHS, rid="q")
    lines = [*others, *step_lines(EVICT, WIDTHS), *others]
    assert len(evict(server, EVICT, lines).trace.steps) == 4


def test_merged_events_do_not_matter_where_the_worker_records(server: FakeServer) -> None:
    found = evict(server, EVICT.merged(1, 3, 5, 1), step_lines(EVICT, WIDTHS))
    assert found.notes == ("merged events: 3 for 4 steps",)
    assert [step.committed for step in found.trace.steps] == [3, 1, 4, 1]
    assert math.isnan(found.trace.steps[-1].total_ms)


def test_one_step_past_the_end_is_dropped_and_noted(server: FakeServer) -> None:
    """Overlap scheduling has begun it before the end was seen; the server does not count it."""
    lines = step_lines(EVICT, WIDTHS)
    found = evict(server, EVICT, [*lines, {**lines[-1], "step": 14}])
    assert found.notes == ("one step past the end dropped",)
    assert len(found.trace.steps) == 4
    with pytest.raises(InconsistentTrace, match="recorded 6 steps, the server counted 4"):
        evict(server, EVICT, [*lines, {**lines[-1], "step": 14}, {**lines[-1], "step": 15}])


@pytest.mark.parametrize(
    ("place", "change", "named"),
    [
        (None, {}, "the worker recorded 3 steps, the server counted 4"),
        (1, {"accepted": [0, 1]}, "the worker accepted 7 drafts, the server counted 6"),
        (2, {"step": 11}, "step 11 recorded after step 11"),
        (2, {"k": 21}, "steps by verified nodes"),
        (1, {"rids": ["other", "r"], "accepted": [0]}, "step record of 'r': no "),
    ],
)
def test_records_that_disagree_with_the_server_are_refused(
    server: FakeServer, place: int | None, change: dict[str, Any], named: str
) -> None:
    lines = step_lines(EVICT, WIDTHS)
    if place is None:
        lines.pop()
    else:
        lines[place] = {**lines[place], **change}
    with pytest.raises((InconsistentTrace, UnreadableReply), match=named):
        evict(server, EVICT, lines)


def test_records_that_disagree_with_the_stream_are_refused(server: FakeServer) -> None:
    """Two steps exchanged: sums and histograms agree, the events do not."""
    lines = step_lines(EVICT, WIDTHS)
    lines[0]["accepted"], lines[2]["accepted"] = [9, 3], [9, 2]
    with pytest.raises(InconsistentTrace, match=r"events hold \[3, 1, 4, 1\] tokens, steps commit"):
        evict(server, EVICT, lines)


def test_a_stop_rule_cuts_the_last_step_only(server: FakeServer) -> None:
    """Three tokens are missing, and the last step had one: some step lost tokens midway."""
    script = speculative([5, 0])
    lines = step_lines(script, (32, 32))
    short = script.but(ids=script.ids[:5], chunks=(1, 3, 1))
    with pytest.raises(InconsistentTrace, match="2 steps commit 7 tokens, decode returned 4"):
        evict(server, short, lines)


def test_widths_must_hold_what_was_accepted(server: FakeServer) -> None:
    script = EVICT.counted(spec_cap_length=None, spec_cap_lens_histogram=None)
    with pytest.raises(InconsistentTrace, match="accepted 3, verified 3"):
        evict(server, script, step_lines(script, (8, 1, 3, 8)))


accepted_lists = st.lists(st.integers(0, 5), min_size=1, max_size=12)


@settings(max_examples=60, deadline=None)
@given(accepted_lists, st.integers(0, 5), st.data())
def test_any_stream_gives_the_same_steps_or_says_that_they_were_merged(
    accepted: list[int], cut: int, data: st.DataObject
) -> None:
    """Totals are exact however events merge; times exist only where each event is one step."""
    script = speculative(accepted, cut=min(cut, accepted[-1]))
    chunks = [script.chunks[0], *_merge(script.chunks[1:], data)]
    with FakeServer() as server:
        found = traced(server, script.merged(*chunks), TREE)
    steps = found.trace.steps
    assert sorted(step.accepted for step in steps) == sorted(accepted)
    assert sum(step.committed for step in steps) == len(script.ids) - 1
    whole = len(chunks) == len(script.chunks)
    assert found.step_times == ("stream" if whole else "none")
    if whole:
        assert [step.accepted for step in steps] == accepted
    assert spec_fields(accepted, len(script.ids), 32)["spec_verify_ct"] == len(steps)


def _merge(chunks: Sequence[int], data: st.DataObject) -> list[int]:
    merged = [chunks[0]]
    for tokens in chunks[1:]:
        if data.draw(st.booleans()):
            merged.append(tokens)
        else:
            merged[-1] += tokens
    return merged

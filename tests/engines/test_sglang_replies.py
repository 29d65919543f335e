"""Streams, counters and ends of generations, as a server of SGLang's shape reports them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from evict.errors import InputError
from harness.consistency import InconsistentTrace
from harness.counting import Shares, tau
from harness.engines.sglang.metadata import UnreadableReply, read_metadata
from harness.engines.sglang.trace import Arm, stock_trace
from tests.support.asking import PLAIN, TREE, ask, request, traced, words
from tests.support.fake_replies import plain, speculative
from tests.support.fake_server import FakeServer


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


@pytest.mark.parametrize("incremental", [False, True])
def test_all_ids_and_new_ids_streams_read_the_same(server: FakeServer, incremental: bool) -> None:
    server.incremental = incremental
    reply = ask(server, speculative([2, 0, 3]), 1.0, 1.5, 1.6, 1.7, 1.9, 9.0)
    assert reply.ids == tuple(range(100, 109))
    assert reply.sent_ms == 1000.0
    assert [chunk.at_ms for chunk in reply.chunks] == pytest.approx([1500, 1600, 1700, 1900])
    assert [chunk.tokens for chunk in reply.chunks] == [1, 3, 1, 4]


def test_case_16_chunks_of_many_tokens_give_time_per_token_and_step_gap(server: FakeServer) -> None:
    """Careless: the 30 ms between events printed as the time per token."""
    reply = ask(server, speculative([2, 1, 2]), 0.0, 0.0, 0.03, 0.06, 0.09)
    trace = stock_trace(reply, request(9), TREE, words).trace
    assert trace.decode_ms / trace.decode_tokens == pytest.approx(11.25)
    assert [step.total_ms for step in trace.steps] == pytest.approx([30.0, 30.0, 30.0])


def test_case_20_the_first_token_is_the_first_of_any_kind(server: FakeServer) -> None:
    """Careless: the clock starts at the first token of the answer, 5 s late."""
    script = speculative([1, 1]).but(reasoning=3)
    reply = ask(server, script, 0.0, 0.2, 1.0, 5.0)
    assert reply.times.first_token_ms == pytest.approx(200.0)
    assert reply.first_answer_ms == pytest.approx(5000.0)
    trace = stock_trace(reply, request(5), TREE, words).trace
    assert (trace.prefill_ms, trace.decode_ms) == pytest.approx((200.0, 4800.0))
    assert len(trace.output_ids) == 5
    assert trace.decode_tokens == 4
    assert ask(server, script.but(reasoning=5)).first_answer_ms is None
    assert ask(server, plain(2), 0.0, 0.1, 0.2).first_answer_ms == pytest.approx(100.0)


def test_empty_events_are_no_steps(server: FakeServer) -> None:
    script = plain(3).but(chunks=(0, 1, 0, 1, 1))
    found = traced(server, script, PLAIN, 0.0, 0.1, 0.2, 0.3, 0.4, 0.5)
    assert [step.total_ms for step in found.trace.steps] == pytest.approx([200.0, 100.0])
    assert found.trace.prefill_ms == pytest.approx(200.0)


def test_case_02_the_prefill_token_belongs_to_no_step() -> None:
    """Completion 200, verify 188, accepted 11: 199 / 188, and not 200 / 188."""
    meta = read_metadata(
        {
            "completion_tokens": 200,
            "spec_verify_ct": 188,
            "spec_num_correct_drafts": 11,
            "spec_accept_length": 200 / 188,
        }
    )
    counters = meta.counters()
    assert counters is not None
    assert tau(counters) == pytest.approx(1.0585, abs=1e-4)


CASE_3 = (0,) * 11 + (1,) * 14 + (2,) * 11 + (3,) * 4 + (5,) * 3


def test_case_03_identities_are_checked_per_request(server: FakeServer) -> None:
    """Completion 106, verify 43, accepted 63: the last step lost one token."""
    script = speculative(CASE_3, draft_tokens=6, cut=1)
    arm = Arm(draft_tokens=6, depth=5)
    assert script.fields["spec_correct_drafts_histogram"] == [11, 14, 11, 4, 0, 3]
    trace = traced(server, script, arm).trace
    assert (len(trace.output_ids), len(trace.steps)) == (106, 43)
    assert Shares.of(trace.steps).accepted == 63
    assert (trace.steps[-1].accepted, trace.steps[-1].committed) == (5, 5)
    for name, value, named in [
        ("spec_num_correct_drafts", 60, "histogram holds 63 accepted, reported 60"),
        ("spec_verify_ct", 42, "histogram holds 43 steps, reported 42"),
        ("spec_num_proposed_drafts", 214, "drafted 214 is not steps 43 x 5"),
        ("spec_correct_drafts_histogram", [10, 16, 10, 4, 0, 3], "steps by accepted drafts"),
    ]:
        with pytest.raises(InconsistentTrace, match=named):
            traced(server, script.counted(**{name: value}), arm)


def test_case_09_missing_counters_are_neither_one_nor_zero(server: FakeServer) -> None:
    meta = ask(server, plain(3)).meta
    assert (meta.verify_steps, meta.correct_drafts, meta.accepted_histogram) == (None,) * 3
    assert meta.counters() is None
    with pytest.raises(InconsistentTrace, match="missing counters: 3 tokens, no spec_verify_ct"):
        traced(server, plain(3), TREE)
    with pytest.raises(InconsistentTrace, match="missing counters: no spec_num_correct_drafts"):
        traced(server, speculative([1]).counted(spec_num_correct_drafts=None), TREE)


def test_case_09_a_baseline_that_verifies_is_speculating(server: FakeServer) -> None:
    with pytest.raises(InputError, match="baseline is speculating; seen: 2 verify steps"):
        traced(server, speculative([1, 2]), PLAIN)


def test_one_token_needs_no_counters(server: FakeServer) -> None:
    """A speculative server that never came to verify leaves all of its counters out."""
    trace = traced(server, speculative([]), TREE, 0.0, 0.5).trace
    assert (trace.steps, trace.output_ids, trace.decode_ms) == ([], [100], 0.0)
    assert trace.prefill_ms == pytest.approx(500.0)


@pytest.mark.parametrize(
    "broken",
    [
        {"spec_verify_ct": "12"},
        {"spec_verify_ct": True},
        {"e2e_latency": "0.5"},
        {"spec_correct_drafts_histogram": {"1": 3}},
        {"spec_cap_lens_histogram": [1, -2]},
        {"finish_reason": "length"},
    ],
)
def test_a_field_of_another_type_is_named(broken: dict[str, Any]) -> None:
    (name,) = broken
    with pytest.raises(UnreadableReply, match=name):
        read_metadata(broken)


def test_case_10_tokens_are_counted_by_the_server_whatever_the_text(server: FakeServer) -> None:
    """Careless: n from the text, which reads back as fewer tokens than were generated."""
    reply = ask(server, plain(10))
    trace = stock_trace(reply, request(10), PLAIN, lambda ids: "one")
    assert (trace.trace.text, trace.trace.decode_tokens) == ("one", 9)


@pytest.mark.parametrize(
    ("finish", "asked", "expected"),
    [
        ({"type": "length", "length": 6}, 6, "length"),
        ({"type": "length", "length": 6}, 7, "context"),
        ({"type": "stop", "matched": 2}, 64, "eos"),
        ({"type": "stop", "matched": [1, 2]}, 64, "eos"),
        ({"type": "stop", "matched": "END"}, 64, "stop"),
    ],
)
def test_finish_reasons(
    server: FakeServer, finish: dict[str, Any], asked: int, expected: str
) -> None:
    script = speculative([1, 4], cut=2).but(finish=finish)
    trace = traced(server, script, TREE, tokens=asked, stop=("END",)).trace
    assert trace.finish_reason == expected
    assert [step.committed for step in trace.steps] == [2, 3]
    assert [step.accepted for step in trace.steps] == [1, 4]
    assert trace.text == "100 101 102 103 104 105"


def test_broken_logits_are_no_stop(server: FakeServer) -> None:
    finish = {"type": "stop", "matched": "NaN happened"}
    with pytest.raises(InconsistentTrace, match="NaN happened"):
        traced(server, plain(3).but(finish=finish), PLAIN)

"""Cases 15, 16, 17, 20: times come from stamps of one request, and a chunk is not a token."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import accumulate, pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.collect import collect
from harness.latency import Rate, stream_times, token_rate
from harness.report.tables import TABLES
from harness.report.tables.rates import peak_speed
from tests.cases.served import ServedEngine
from tests.support.asking import PLAIN, TREE, ask, request, traced, words
from tests.support.bench import Bench, only, rows
from tests.support.fake_replies import plain, speculative
from tests.support.fake_server import FakeServer
from tests.support.steps import ScriptedEngine, steps, trace

Compared = Callable[[], dict[str, dict[str, Any]]]
streams = st.lists(
    st.tuples(st.floats(0, 1000, allow_nan=False), st.integers(0, 8)), min_size=1, max_size=30
).filter(lambda chunks: any(n for _, n in chunks))


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with FakeServer() as fake:
        yield fake


def test_case_15_aggregates_that_contradict_each_other_give_no_number(
    bench: Bench, compared: Compared
) -> None:
    """Careless: total minus prefill is taken as it is: decode of -80 ms, negative throughput."""
    times = {"gsm8k-0": (900.0, 1000.0), "gsm8k-1": (920.0, 980.0)}

    def subtracting(found: Any, method: Any) -> Any:
        total, prefill = times.get(found.prompt_id, (100.0, 20.0))
        made = trace(steps(*[(0, 1, 0)] * 8, step_ms=10.0), prefill_ms=prefill)
        made.decode_ms = total - prefill
        return made

    bench.questions = [["one?"], ["two?"], ["three?"]]
    bench.engine = ScriptedEngine(script=subtracting)
    first, second, third = rows(only(bench, "method=vanilla"))
    for row, decode in ((first, "-100.000"), (second, "-60.000")):
        assert row["error_class"] == "InconsistentTrace"
        assert row["error_message"] == f"decode took {decode} ms: prefill exceeds total"
        assert (row["prefill_ms"], row["decode_ms"], row["engine_ms"]) == (None, None, None)
    assert third["decode_ms"] == 80.0
    assert compared()["vanilla"]["decode_tokens_per_s"] is None


def test_case_15_decode_time_comes_from_the_same_requests_stamps(server: FakeServer) -> None:
    """Careless: one request's prefill is taken from another's total."""
    asked = [(0.0, 0.85, 0.90), (1.0, 1.82, 1.92)]
    found = [traced(server, plain(2), PLAIN, *seconds).trace for seconds in asked]
    assert [one.decode_ms for one in found] == pytest.approx([50.0, 100.0])
    assert [one.prefill_ms for one in found] == pytest.approx([850.0, 820.0])


def test_case_16_time_per_output_token_is_not_the_gap_between_chunks(
    server: FakeServer, bench: Bench, compared: Compared
) -> None:
    """Careless: the 30 ms between chunks are printed as the time per token (real: 11.25)."""
    server.default = speculative([2, 1, 2])
    seconds = (0.0, 0.0, 0.03, 0.06, 0.09)
    bench.engine = ServedEngine(server=server, seconds=seconds, widths={"eagle3": 32})
    path = only(bench, "method=eagle3", "max_new_tokens=9")
    assert [row["decode_ms"] for row in rows(path)] == pytest.approx([90.0] * 4)
    assert [row["decode_tokens"] for row in rows(path)] == [8] * 4
    assert compared()["eagle3"]["decode_tokens_per_s"] == pytest.approx(1000 / 11.25)
    written = collect(bench.results).steps["total_ms"]
    assert written.tolist() == pytest.approx([30.0] * 12)


def test_case_16_all_tokens_of_the_first_chunk_are_first_tokens() -> None:
    """Careless: decode time begins with the sending, as if the first chunk were decoded."""
    found = stream_times(5.0, [20.0, 60.0], [4, 4])
    assert (found.first_token_ms, found.decode_ms, found.step_gap_ms) == (15.0, 40.0, [40.0])
    alone = stream_times(0.0, [20.0], [4])
    assert (alone.decode_ms, alone.step_gap_ms) == (0.0, [])


def test_case_16_chunks_without_tokens_are_no_steps() -> None:
    """Careless: a keep-alive passes for the first token, or final statistics for a step."""
    found = stream_times(0.0, [5.0, 20.0, 50.0, 80.0], [0, 1, 3, 0])
    assert (found.first_token_ms, found.decode_ms, found.step_gap_ms) == (20.0, 30.0, [30.0])


@given(streams)
@settings(deadline=None)
def test_case_16_gaps_add_up_and_none_is_invented(chunks: list[tuple[float, int]]) -> None:
    """Careless: every further token of a chunk adds a gap of zero."""
    arrivals, tokens = sorted(at for at, _ in chunks), [n for _, n in chunks]
    found = stream_times(0.0, arrivals, tokens)
    times = [at for at, n in zip(arrivals, tokens, strict=True) if n]
    assert found.step_gap_ms == [after - before for before, after in pairwise(times)]
    assert sum(found.step_gap_ms) == pytest.approx(found.decode_ms, abs=1e-6)


@pytest.mark.parametrize(
    ("arrivals", "tokens", "match"),
    [
        ([0.0, 1.0], [1], "one arrival per chunk"),
        ([0.0, 1.0], [1, -1], "negative token count"),
        ([0.0, 1.0], [0, 0], "without tokens"),
        ([], [], "without tokens"),
        ([2.0, 1.0], [1, 1], r"go back in time; seen: \(2\.0, 1\.0\)"),
        ([-1.0], [1], r"go back in time; seen: \(0\.0, -1\.0\)"),
    ],
)
def test_case_16_a_broken_stream_is_refused(
    arrivals: list[float], tokens: list[int], match: str
) -> None:
    with pytest.raises(InputError, match=match):
        stream_times(0.0, arrivals, tokens)


def test_case_17_peak_and_mean_are_both_in_tokens(server: FakeServer, bench: Bench) -> None:
    """Careless: the peak counts chunks: 100 a second beside a mean of 400 tokens."""
    assert token_rate([10.0 * i for i in range(1, 301)], [4] * 300, 3000.0) == Rate(400.0, 400.0)
    server.default = speculative([3] * 300)
    seconds = tuple(accumulate([0.0, 0.0, *[0.01] * 300]))
    bench.engine = ServedEngine(server=server, seconds=seconds, widths={"eagle3": 32})
    bench.run("method=eagle3", "max_new_tokens=1201", "warmup_prompts=0")
    data = collect(bench.results)
    assert peak_speed(data, data.runs) == pytest.approx(400.0, rel=0.01)


def test_case_17_the_peak_stands_beside_the_mean(bench: Bench) -> None:
    bench.run("method=evict", "compare=[vanilla]")
    frame = TABLES["spread"].build(collect(bench.results))
    assert dict(zip(frame["method"], frame["peak_tokens_per_s"], strict=True)) == pytest.approx(
        {"vanilla": 100.0, "evict": 1000 / 6}
    )


@given(
    st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 9)), max_size=60),
    st.floats(5000, 9000),
    st.sampled_from([200.0, 1000.0, 20_000.0]),
)
@settings(deadline=None)
def test_case_17_no_mean_exceeds_its_peak(
    events: list[tuple[float, int]], span: float, window: float
) -> None:
    """Careless: windows leave a part of the run out, or are counted in chunks."""
    found = token_rate([at for at, _ in events], [n for _, n in events], span, window)
    assert found is not None
    assert found.mean == pytest.approx(1e3 * sum(n for _, n in events) / span)
    assert found.peak >= found.mean * (1 - 1e-12)
    assert found.peak <= sum(n for _, n in events) / min(window, span) * 1e3 * (1 + 1e-9)


def test_case_17_a_burst_is_a_peak() -> None:
    found = token_rate([500.0, 1500.0, 1600.0, 1700.0], [1, 5, 5, 5], 2000.0)
    assert found is not None
    assert (found.mean, found.peak) == (8.0, 15.0)
    assert token_rate([], [], 0.0) is None
    for at, tokens, match in [
        ([1.0], [1, 2], "one count per time"),
        ([1.0], [-1], "one count per time"),
        ([9.0], [1], "outside the span"),
    ]:
        with pytest.raises(InputError, match=match):
            token_rate(at, tokens, 5.0)


def test_case_20_reasoning_tokens_are_the_first_tokens(
    server: FakeServer, bench: Bench, compared: Compared
) -> None:
    """Careless: the clock starts at the first token of the answer, 5 s late."""
    script = speculative([1, 1]).but(reasoning=3)
    server.default, seconds = script, (0.0, 0.2, 1.0, 5.0)
    bench.engine = ServedEngine(server=server, seconds=seconds, widths={"eagle3": 32})
    row = rows(only(bench, "method=eagle3", "max_new_tokens=5"))[0]
    assert (row["prefill_ms"], row["decode_ms"]) == pytest.approx((200.0, 4800.0))
    assert row["first_answer_ms"] == pytest.approx(5000.0)
    assert (row["decode_tokens"], len(row["output_ids"])) == (4, 5)  # type: ignore[arg-type]
    assert compared()["eagle3"]["decode_tokens_per_s"] == pytest.approx(4 / 4.8)


def test_case_20_an_answer_that_never_begins_has_no_time(server: FakeServer) -> None:
    script = speculative([1, 1])
    assert ask(server, script.but(reasoning=5)).first_answer_ms is None
    assert ask(server, script, 0.0, 0.1, 0.2, 0.3).first_answer_ms == pytest.approx(100.0)
    found = traced(server, script.but(reasoning=1), TREE, 0.0, 0.1, 0.2, 0.3).trace
    assert found.first_answer_ms == pytest.approx(200.0)
    assert found.text == words(range(100, 105))
    assert request(5).max_new_tokens == 5

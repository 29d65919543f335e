"""Cases 15, 16: times come from stamps of one request, and a chunk is not a token."""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.latency import Stamps, chunk_times, decode_from_aggregates, decode_ms

streams = st.lists(
    st.tuples(st.floats(0, 1000, allow_nan=False), st.integers(0, 8)), min_size=1, max_size=30
).filter(lambda chunks: any(n for _, n in chunks))


def test_case_15_aggregates_that_contradict_each_other_give_no_number() -> None:
    """Careless: the difference of means, -80 ms of decode and a negative throughput."""
    total, prefill = [900.0, 920.0], [1000.0, 980.0]
    assert decode_from_aggregates(total, prefill) == (None, "invalid: prefill exceeds total")
    assert decode_from_aggregates([5.0], [5.0]).value is None
    assert decode_from_aggregates([5.0], []) == (None, "invalid: no times")
    assert decode_from_aggregates([900.0, 920.0], [100.0]) == (810.0, "difference of means")


def test_case_15_decode_time_comes_from_the_same_requests_stamps() -> None:
    """Careless: total of one request minus prefill of another, or the time since it was sent."""
    requests = [Stamps(0.0, 850.0, 900.0), Stamps(1000.0, 1820.0, 1920.0)]
    assert [decode_ms(one) for one in requests] == [50.0, 100.0]
    with pytest.raises(InputError, match=r"out of order; seen: \(0\.0, 1000\.0, 900\.0\)"):
        decode_ms(Stamps(0.0, 1000.0, 900.0))


def test_case_16_time_per_output_token_is_not_the_gap_between_chunks() -> None:
    """Careless: 30 ms between chunks printed as the time per token (real: 11.25)."""
    found = chunk_times([0.0, 30.0, 60.0, 90.0], [1, 3, 2, 3])
    assert found.time_per_output_token_ms == 11.25
    assert found.step_gap_ms == [30.0, 30.0, 30.0]
    assert found.first_token_ms == 0.0


def test_case_16_all_tokens_of_the_first_chunk_are_first_tokens() -> None:
    """Careless: n - 1 tokens after the first, as if the first chunk held one."""
    found = chunk_times([20.0, 60.0], [4, 4])
    assert (found.first_token_ms, found.time_per_output_token_ms) == (20.0, 10.0)
    alone = chunk_times([20.0], [4])
    assert (alone.time_per_output_token_ms, alone.step_gap_ms) == (None, [])


def test_case_16_chunks_without_tokens_are_no_steps() -> None:
    """Careless: a keep-alive taken for the first token, a final statistics chunk for a step."""
    found = chunk_times([5.0, 20.0, 50.0, 80.0], [0, 1, 3, 0])
    assert (found.first_token_ms, found.step_gap_ms) == (20.0, [30.0])
    assert found.time_per_output_token_ms == 10.0


@given(streams)
@settings(deadline=None)
def test_case_16_gaps_times_add_up_and_none_is_invented(chunks: list[tuple[float, int]]) -> None:
    """Careless: one zero gap for every further token of a chunk."""
    arrivals, tokens = sorted(at for at, _ in chunks), [n for _, n in chunks]
    found = chunk_times(arrivals, tokens)
    times = [at for at, n in zip(arrivals, tokens, strict=True) if n]
    assert found.step_gap_ms == [after - before for before, after in pairwise(times)]
    later = sum(n for n in tokens if n) - next(n for n in tokens if n)
    if later:
        assert found.time_per_output_token_ms is not None
        per_chunk = fmean(found.step_gap_ms) * len(found.step_gap_ms)
        assert found.time_per_output_token_ms * later == pytest.approx(per_chunk, abs=1e-6)


@pytest.mark.parametrize(
    ("arrivals", "tokens", "match"),
    [
        ([0.0, 1.0], [1], "one arrival per chunk"),
        ([0.0, 1.0], [1, -1], "negative token count"),
        ([0.0, 1.0], [0, 0], "without tokens"),
        ([], [], "without tokens"),
        ([2.0, 1.0], [1, 1], r"go back in time; seen: \(2\.0, 1\.0\)"),
    ],
)
def test_case_16_a_broken_stream_is_refused(
    arrivals: list[float], tokens: list[int], match: str
) -> None:
    """Careless: numbers from a stream whose clock goes back."""
    with pytest.raises(InputError, match=match):
        chunk_times(arrivals, tokens)

"""Cases 10, 13: both arms counted alike, and each kind of speedup under its own name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.engines.base import Method, Request, RequestTrace
from harness.stats import Pair, speedup
from tests.support.bench import Bench
from tests.support.fake_engine import FakeEngine
from tests.support.steps import ScriptedEngine, steps, trace

Compared = Callable[[], dict[str, dict[str, Any]]]
BOTH = ("method=eagle3", "compare=[vanilla]")


def decoded(method: Method, tokens: int, ms: float) -> RequestTrace:
    """`tokens` decode tokens in `ms`, three a step where the method drafts."""
    one, size = ((4, 5, 2), 3) if method.speculative else ((0, 1, 0), 1)
    found = trace(steps(*[one] * (tokens // size), *[(0, 1, 0)] * (tokens % size)))
    found.decode_ms = ms
    return found


def test_case_10_identical_arms_have_a_speedup_of_exactly_one(
    bench: Bench, compared: Compared
) -> None:
    """Careless: the baseline's ids counted minus one, or by another counter: 1.11."""
    bench.questions = [["first?", "second?"]]
    bench.engine = ScriptedEngine(script=lambda request, method: decoded(method, 9, 1000.0))
    bench.run(*BOTH)
    rows = compared()
    assert rows["eagle3"]["decode_tokens_per_s"] == rows["vanilla"]["decode_tokens_per_s"] == 9.0
    assert rows["eagle3"]["vs_plain"] == 1.0
    assert rows["eagle3"]["vs_plain_time_ratio"] == 1.0
    assert rows["eagle3"]["vs_plain_excluded"] == 0


def test_case_10_a_text_that_reads_back_as_fewer_ids_changes_no_count(
    bench: Bench, compared: Compared
) -> None:
    """Careless: n_out from the text, tokenised again, in one of the arms."""

    def merged(request: Request, method: Method) -> RequestTrace:
        found = decoded(method, 9, 1000.0)
        if not method.speculative:
            found.text = found.text[:4]
        return found

    bench.engine = ScriptedEngine(script=merged)
    bench.run(*BOTH)
    rows = compared()
    assert rows["vanilla"]["decode_tokens_per_s"] == 9.0
    assert rows["eagle3"]["vs_plain"] == 1.0


def test_case_13_the_headline_is_the_paired_geometric_mean(
    bench: Bench, compared: Compared
) -> None:
    """Careless: the ratio of mean speeds, 1.571, or total time alone, without a name."""
    times = {"gsm8k-0": (100, 1e3, 2e3), "gsm8k-1": (1000, 20e3, 22e3)}

    def script(request: Request, method: Method) -> RequestTrace:
        tokens, method_ms, plain_ms = times.get(request.prompt_id, (3, 1.0, 1.0))
        return decoded(method, tokens, method_ms if method.speculative else plain_ms)

    bench.questions = [["short?"], ["long?"]]
    bench.engine = ScriptedEngine(script=script)
    bench.run(*BOTH)
    row = compared()["eagle3"]
    assert row["vs_plain"] == pytest.approx(1.483, abs=5e-4)
    assert row["vs_plain_time_ratio"] == pytest.approx(1.143, abs=5e-4)
    assert row["vs_plain_prompts"] == 2


def test_case_13_pairs_of_different_length_compare_time_per_token() -> None:
    """Careless: 400 ms / 100 ms = 4 although the baseline wrote twice as much."""
    found = speedup([Pair("p", 100.0, 10, 400.0, 20)])
    assert (found.ratio, found.time_ratio) == (pytest.approx(2.0), pytest.approx(2.0))


def test_case_13_a_missing_partner_is_left_out_and_counted(
    bench: Bench, compared: Compared
) -> None:
    """Careless: the lone generation is averaged into one arm, or dropped without a word."""

    def fail(request: Request, method: Method) -> None:
        if request.prompt_id == "gsm8k-2" and not method.speculative:
            raise RuntimeError("no partner")

    bench.engine = FakeEngine(fail=fail)
    bench.run(*BOTH)
    row = compared()["eagle3"]
    assert (row["vs_plain_prompts"], row["vs_plain_excluded"]) == (3, 1)
    assert row["vs_plain"] == pytest.approx(10 / 6)
    found = speedup([Pair("p", 1.0, 5, 2.0, 5), Pair("q", 1.0, 0, 2.0, 5)], missing=2)
    assert (found.clusters, found.excluded, found.ratio) == (1, 3, pytest.approx(2.0))

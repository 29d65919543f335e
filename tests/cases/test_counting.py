"""Cases 2, 3, 4, 6, 7, 9: what counters say about tokens and acceptance."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.errors import InputError
from harness.collect import collect
from harness.counting import (
    Counters,
    Shares,
    acceptance_histogram,
    check_counters,
    conditional_rates,
    engine_tau,
    length_from_marginal,
    marginal_from_conditional,
    marginal_rates,
    pooled_length,
    position_rates,
    tau,
)
from harness.records import StepRecord
from tests.cases.served import ServedEngine
from tests.support.bench import Bench, rows
from tests.support.fake_replies import speculative
from tests.support.fake_server import FakeServer
from tests.support.steps import counters, steps

CASE_2 = Counters(completion=200, steps=188, accepted=11)
CASE_3 = Counters(106, 43, 63, 215, dict(enumerate([11, 14, 11, 4, 0, 3])))
MARGINAL, CONDITIONAL = [0.73, 0.52, 0.35], [0.73, 0.712, 0.673]
accepted_lists = st.lists(st.integers(0, 6), min_size=1, max_size=40)


@st.composite
def requests(draw: st.DrawFn) -> list[StepRecord]:
    """Steps of one request, the last one cut by a stop rule or not."""
    accepted = draw(accepted_lists)
    last = draw(st.integers(1, accepted[-1] + 1))
    return steps(*((6, 7, a) for a in accepted[:-1]), (6, 7, accepted[-1], last))


def test_case_02_one_tau_without_the_prefill_token() -> None:
    """Careless: tau = completion / steps = 1.0638, prefill's token counted as decoded."""
    assert tau(CASE_2) == pytest.approx(1.0585, abs=5e-5)
    assert tau(CASE_2) == pytest.approx(1 + 11 / 188)
    assert tau(Counters(1, 0, 0)) is None


def test_case_02_an_offset_of_one_is_recognised() -> None:
    """Careless: requiring completion = steps + accepted, which marks every honest request."""
    assert 188 + 11 + 1 == 200
    assert check_counters(CASE_2) == []
    assert len(check_counters(replace(CASE_2, completion=201))) == 1


@given(requests())
@settings(deadline=None)
def test_case_02_tau_is_the_same_from_totals_histogram_and_steps(script: list[StepRecord]) -> None:
    """Careless: tau from accepted totals, which counts what a stop rule cut off."""
    found = counters(script)
    kept = acceptance_histogram(step.committed - 1 for step in script)
    by_hand = sum(step.committed for step in script) / len(script)
    assert tau(found) == pytest.approx(by_hand)
    assert length_from_marginal(marginal_rates(kept)) == pytest.approx(by_hand)
    assert check_counters(found, trimmed=script[-1].accepted) == []


def test_case_03_identities_hold_and_each_broken_one_names_its_numbers() -> None:
    """Careless: fields trusted blindly; accepted 60 for 63 goes unnoticed."""
    assert check_counters(CASE_3, per_step=5) == []
    found = check_counters(replace(CASE_3, accepted=60), per_step=5)
    assert len(found) == 2
    assert all(line.startswith("inconsistent: ") for line in found)
    assert all(number in found[0] for number in ("106", "43", "60", "= 3"))
    assert all(number in found[1] for number in ("63", "60"))


@pytest.mark.parametrize(
    ("broken", "named"),
    [
        ({"steps": 42}, ("histogram holds 43 steps", "reported 42")),
        ({"drafted": 216}, ("216", "43 x 5")),
        ({"drafted": 62}, ("accepted 63 exceeds drafted 62",)),
        ({"completion": -1}, ("completion -1 is negative",)),
        ({"histogram": {0: 43}}, ("histogram holds 0 accepted", "reported 63")),
    ],
)
def test_case_03_every_counter_is_checked(broken: dict, named: tuple[str, ...]) -> None:  # type: ignore[type-arg]
    """Careless: checking the sum of completions only."""
    text = "\n".join(check_counters(replace(CASE_3, **broken), per_step=5))
    assert all(part in text for part in named)


def test_case_03_the_request_and_the_run_say_so(bench: Bench) -> None:
    """Careless: the message stays in a log, and the run is as good as any other."""
    script = speculative([1, 0, 2], draft_tokens=32)
    wrong = script.counted(spec_num_correct_drafts=2)
    with FakeServer(default=script) as server:
        bench.engine = ServedEngine(server=server, widths={"eagle3": 32})
        server.play([ord(letter) for letter in "<user>what is 1?"], wrong)
        (path,) = bench.run("method=eagle3", f"max_new_tokens={len(script.ids)}").runs
    marked = [row for row in rows(path) if row["error_class"]]
    assert [row["prompt_id"] for row in marked] == ["gsm8k-1"]
    said = "histogram holds 3 accepted, reported 2"
    assert said in str(marked[0]["error_message"])
    (run,) = collect(bench.results).runs.to_dict("records")
    assert run["counts_verdict"] == "invalid"
    assert "counters_inconsistent" in run["verdict_codes"]
    assert said in run["verdict_text"]


def test_case_03_a_trimmed_finish_widens_the_bound_by_the_last_steps_accepted_count() -> None:
    """Careless: either no allowance for a cut step, or one without a limit."""
    cut = steps((5, 6, 2), (5, 6, 5, 1))
    assert check_counters(counters(cut)) != []
    assert check_counters(counters(cut), trimmed=5) == []
    lost = replace(counters(cut), completion=counters(cut).completion - 2)
    assert check_counters(lost, trimmed=5) != []
    assert check_counters(replace(CASE_2, completion=201), trimmed=5) != []


def test_case_04_marginal_and_conditional_rates_stay_apart() -> None:
    """Careless: summing the conditional rates, a length of 3.115."""
    assert length_from_marginal(MARGINAL) == pytest.approx(2.60)
    assert conditional_rates(MARGINAL) == pytest.approx(CONDITIONAL, abs=5e-4)
    assert marginal_from_conditional(CONDITIONAL) == pytest.approx(MARGINAL, abs=5e-4)
    assert length_from_marginal(marginal_from_conditional(CONDITIONAL)) == pytest.approx(
        2.60, abs=2e-3
    )
    with pytest.raises(InputError, match="marginal rates fall with depth"):
        length_from_marginal([0.5, 0.7])


def test_case_04_a_length_and_a_share_of_drafts_are_two_readings() -> None:
    """Careless: 64.5 % of the drafts printed as the length, or 2.92 as their share."""
    found = Shares(drafted=259, verified=259, accepted=167, steps=87)
    assert found.tau == pytest.approx(2.92, abs=5e-3)
    assert found.accepted_per_drafted == pytest.approx(0.645, abs=5e-4)


@given(accepted_lists)
@settings(deadline=None)
def test_case_04_both_vectors_convert_into_each_other(accepted: list[int]) -> None:
    """Careless: dividing by the first rate instead of the one before."""
    rates = position_rates(acceptance_histogram(accepted))
    assert marginal_from_conditional(rates.conditional) == pytest.approx(rates.marginal)
    assert rates.conditional == conditional_rates(rates.marginal)
    deep = [sum(a >= i for a in accepted) for i in range(max(accepted) + 1)]
    assert rates.conditional == pytest.approx([now / before for before, now in pairwise(deep)])
    assert rates.length == pytest.approx(1 + sum(accepted) / len(accepted))


def test_case_06_a_sparse_histogram_keeps_its_gaps() -> None:
    """Careless: entries read in order as depths 1, 2: marginals [0.0, 0.5], implied 1.5."""
    by_length = {1: 5, 3: 5}
    rates = position_rates({length - 1: count for length, count in by_length.items()})
    assert rates.marginal == [0.5, 0.5]
    mean = sum(length * count for length, count in by_length.items()) / 10
    assert rates.length == mean == 2.0


@given(st.dictionaries(st.integers(0, 60), st.integers(0, 9), max_size=6))
@settings(deadline=None)
def test_case_06_any_sparse_histogram_implies_its_own_mean(histogram: dict[int, int]) -> None:
    """Careless: a dense list as long as the number of entries."""
    counted = sum(histogram.values())
    if not counted:
        with pytest.raises(InputError, match="without steps"):
            marginal_rates(histogram)
        return
    rates = marginal_rates(histogram)
    mean = sum(accepted * count for accepted, count in histogram.items()) / counted
    assert sum(rates) == pytest.approx(mean)
    assert all(now <= before for before, now in pairwise([1.0, *rates]))
    assert acceptance_histogram(a for a, n in histogram.items() for _ in range(n)) == {
        a: n for a, n in sorted(histogram.items()) if n
    }


def test_case_07_ranks_are_weighted_and_empty_ones_skipped() -> None:
    """Careless: the plain mean 3.737, or rank 0 alone."""
    lengths, verified = [None, None, 2.90, 3.67, None, 4.64], [0, 0, 100, 10, 0, 10]
    found = pooled_length(lengths, verified)
    assert (found.value, found.note) == (pytest.approx(3.109, abs=5e-4), "of 3 rank(s)")
    reason = "no rank with a step reports a length"
    assert pooled_length([None, None], [0, 0]) == pooled_length([3.0], [0]) == (None, reason)
    assert pooled_length([None, 3.0], [50, 10]) == (3.0, "of 1 rank(s)")
    with pytest.raises(InputError, match="one step count per length"):
        pooled_length([1.0], [1, 2])


def test_case_09_missing_counters_are_neither_one_nor_zero() -> None:
    """Careless: judged on the first request, whose missing counter becomes 1.0 for the run."""
    reports = [None, Counters(31, 10, 20), Counters(51, 20, 30)]
    assert engine_tau(reports, speculative=True) == (None, "missing counters (1 of 3)")
    complete = engine_tau(reports[1:], speculative=True)
    assert complete.value == pytest.approx((30 + 50) / 30)
    assert engine_tau([], speculative=True).value is None


def test_case_09_plain_decoding_is_one_by_definition() -> None:
    """Careless: a baseline that drafts passes as plain decoding."""
    assert engine_tau([None, None, None], speculative=False) == (1.0, "by definition")
    assert engine_tau([Counters(10, 0, 0)], speculative=False) == (1.0, "by definition")
    with pytest.raises(InputError, match=r"baseline is speculating; seen: 10 verify steps"):
        engine_tau([None, Counters(31, 10, 20)], speculative=False)

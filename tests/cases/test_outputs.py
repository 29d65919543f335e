"""Cases 29, 30: when two outputs are the same, and what keeps a distribution the same."""

from __future__ import annotations

import pytest
import torch

from evict.acceptance import sampling
from evict.errors import InputError
from evict.tree import DraftTree
from harness import compare
from harness.equality import (
    NEAR_TIE,
    Differences,
    Equality,
    Floor,
    Kind,
    compare_outputs,
    mismatch_rate,
)
from tests.support.bench import Bench
from tests.support.enumeration import outcomes

IDS = list(range(100, 120))
OTHER = [*IDS[:7], 7, *IDS[8:]]
P, Q = (0.6, 0.3, 0.1), (0.2, 0.5, 0.3)
Weights = list[float]


def four_pairs() -> list[Equality]:
    return [
        compare_outputs(IDS, IDS, "length", "length"),
        compare_outputs(IDS, OTHER, "length", "length", gap=0.0005),
        compare_outputs(IDS, OTHER, "length", "length", gap=2.1),
        compare_outputs(IDS, IDS[:12], "length", "stop"),
    ]


def test_case_29_four_pairs_are_four_kinds() -> None:
    """Careless: one "mismatch 75 %"."""
    assert four_pairs() == [
        Equality("equal", None),
        Equality("near_tie", 7),
        Equality("fault", 7),
        Equality("stop_rule", 12),
    ]
    assert mismatch_rate(pair.kind for pair in four_pairs()) == 0.75


def test_case_29_nothing_is_excused_without_evidence() -> None:
    """Careless: an unknown gap, or any strict prefix, passes as harmless."""
    assert compare_outputs(IDS, OTHER, "eos", "eos").kind == "fault"
    assert compare_outputs(IDS, OTHER, "eos", "eos", gap=NEAR_TIE).kind == "fault"
    assert compare_outputs(IDS, IDS[:12], "eos", "eos") == Equality("fault", 12)
    assert compare_outputs(IDS, IDS[:12], "length", "eos") == Equality("fault", 12)
    assert compare_outputs(IDS, OTHER[:12], "length", "stop") == Equality("fault", 7)
    for gap in (-0.1, float("nan")):
        with pytest.raises(InputError, match="log-probability gap"):
            compare_outputs(IDS, OTHER, "eos", "eos", gap=gap)


@pytest.mark.parametrize("rule", ["stop", "length", "context"])
def test_case_29_the_shorter_output_may_stand_on_either_side(rule: str) -> None:
    """Careless: only the second output may be the one that a rule cut."""
    assert compare_outputs(IDS[:12], IDS, rule, "eos") == Equality("stop_rule", 12)
    assert compare_outputs(IDS, IDS[:12], "eos", rule) == Equality("stop_rule", 12)


def test_case_29_only_a_fault_fails_and_the_floor_stands_beside_it() -> None:
    """Careless: every mismatch fails the run, and nobody asks how often a baseline repeats."""
    kinds: list[Kind] = [pair.kind for pair in four_pairs()]
    floor = Floor.of(["equal"] * 39 + ["near_tie"])
    found = Differences.of(kinds, floor)
    assert found.failed
    assert floor.rate == 0.025
    assert found.text() == (
        "3 of 4 outputs differ (1 near_tie, 1 stop_rule, 1 fault); baseline against itself: 1 of 40"
    )
    kinds.remove("fault")
    harmless = Differences.of(kinds)
    assert not harmless.failed
    assert harmless.text().endswith("baseline against itself: not measured")
    assert (Floor.of([]).rate, mismatch_rate([])) == (None, None)


def normalised(weights: Weights) -> Weights:
    return [weight / sum(weights) for weight in weights]


def spoken(accept: Weights, residuals: list[Weights]) -> tuple[Weights, float]:
    """Exact output and acceptance when draft i, proposed with q_i, meets accept[i]."""
    output = [
        Q[j] * accept[j] + sum(Q[i] * (1 - accept[i]) * residuals[i][j] for i in range(3))
        for j in range(3)
    ]
    return output, sum(q * a for q, a in zip(Q, accept, strict=True))


RATIO = [min(1.0, p / q) for p, q in zip(P, Q, strict=True)]
SURPLUS = normalised([max(0.0, p - q) for p, q in zip(P, Q, strict=True)])
WITHOUT = [normalised([P[j] * (j != i) for j in range(3)]) for i in range(3)]


def test_case_30_two_rules_are_lossless_and_two_are_not() -> None:
    """Careless: accept by p/q, then draw from p or from p without the draft."""
    output, acceptance = spoken(RATIO, [SURPLUS] * 3)
    assert [*output, acceptance] == pytest.approx([*P, 0.60])
    output, acceptance = spoken(list(P), WITHOUT)
    assert [*output, acceptance] == pytest.approx([*P, 0.30])
    mixed, _ = spoken(RATIO, WITHOUT)
    assert mixed == pytest.approx([0.505, 0.367, 0.129], abs=6e-4)
    assert mixed != pytest.approx(list(P), abs=0.01)
    kept, _ = spoken(RATIO, [list(P)] * 3)
    assert kept == pytest.approx([0.44, 0.42, 0.14])


def test_case_30_the_package_speaks_exactly_as_the_target() -> None:
    """Careless: a rejected draft keeps its mass, or the rest is not renormalised."""
    output, acceptance = [0.0] * 3, 0.0
    probs_kV = torch.tensor([P, P], dtype=torch.float64)
    for draft, q in enumerate(Q):
        tree = DraftTree(
            tokens_N=torch.tensor([0, draft]),
            parents_N=torch.tensor([-1, 0]),
            depths_N=torch.tensor([0, 1]),
            scores_N=torch.tensor([1.0, q]),
        )
        for found, chance in outcomes(lambda c, t=tree: sampling(t, probs_kV, c)):  # type: ignore[misc]
            kept = len(found.path) - 1
            output[draft if kept else found.next_token] += q * chance
            acceptance += q * chance * kept
    assert output == pytest.approx(list(P), abs=1e-15)
    assert acceptance == pytest.approx(0.30, abs=1e-15)


def test_case_30_a_lossy_method_says_so_wherever_it_is_shown(
    bench: Bench, capsys: pytest.CaptureFixture[str]
) -> None:
    """Careless: a method that changes the distribution stands unmarked beside lossless ones."""
    bench.run("method=eagle3", "method.lossless=false", "compare=[vanilla]")
    assert compare.main([str(bench.results)]) == 0
    printed = capsys.readouterr().out
    assert "EAGLE-3 !" in printed
    assert "!: not lossless" in printed
    assert "vanilla !" not in printed

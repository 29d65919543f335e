"""Cases 29, 30: when two outputs are the same, and what keeps a distribution the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest
import torch

from evict.acceptance import sampling
from evict.errors import InputError
from evict.tree import DraftTree
from harness import compare
from harness.collect import collect
from harness.engines.base import Method, Request, RequestTrace
from harness.equality import NEAR_TIE, Equality, Floor, NextTokens, compare_outputs, near_tie
from harness.report.tables.outputs import outputs
from tests.support.bench import Bench
from tests.support.enumeration import outcomes
from tests.support.steps import ScriptedEngine, steps, trace

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
    assert Floor.of(pair.kind for pair in four_pairs()).rate == 0.75


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


def test_case_29_a_tie_is_as_wide_as_the_number_format_is_coarse() -> None:
    """Careless: one limit for all, so that each rounding of bfloat16 is a fault of the method."""
    assert near_tie("float32") == near_tie("auto") == NEAR_TIE
    assert NEAR_TIE < near_tie("float16") < near_tie("bfloat16")
    one_step = 0.125  # between neighbouring bfloat16 numbers from 16 to 32
    for dtype, kind in (("float32", "fault"), ("bfloat16", "near_tie")):
        found = compare_outputs(IDS, OTHER, "eos", "eos", one_step, near_tie(dtype))
        assert found == Equality(kind, 7)
    assert compare_outputs(IDS, OTHER, "eos", "eos", 2.1, near_tie("bfloat16")).kind == "fault"


def test_case_29_no_gap_excuses_an_output_that_just_ends() -> None:
    """Careless: a tie somewhere, and the missing half of the answer is forgiven with it."""
    assert compare_outputs(IDS, IDS[:12], "eos", "eos", gap=0.0) == Equality("fault", 12)


@pytest.mark.parametrize("rule", ["stop", "length", "context"])
def test_case_29_the_shorter_output_may_stand_on_either_side(rule: str) -> None:
    """Careless: only the second output may be the one that a rule cut."""
    assert compare_outputs(IDS[:12], IDS, rule, "eos") == Equality("stop_rule", 12)
    assert compare_outputs(IDS, IDS[:12], "eos", rule) == Equality("stop_rule", 12)


@dataclass
class Parting(ScriptedEngine):
    """Says how far every other token lies behind 7, whatever the context."""

    behind: float = 0.0

    def top_gap(self, ids: Sequence[int]) -> NextTokens:
        others = range(ord("a"), ord("z") + 1)
        return NextTokens((7, *others), (0.0, *[self.behind] * len(others)))


def parting(request: Request, method: Method) -> RequestTrace:
    """EAGLE-3's answers to four questions: equal, one other token, equal, cut by a stop string.

    The replica of plain decoding differs once as well.
    """
    found = trace(steps(*[(4, 5, 1) if method.speculative else (0, 1, 0)] * 8))
    found.output_ids = found.output_ids[:9]
    found.steps, found.finish_reason = found.steps[: 4 if method.speculative else 8], "length"
    other = {"eagle3": "gsm8k-1", "vanilla_aa": "gsm8k-2"}.get(method.name)
    if request.prompt_id == other:
        found.output_ids[5] = 7
    if request.prompt_id == "gsm8k-3" and method.speculative:
        found.output_ids, found.finish_reason = found.output_ids[:7], "stop"
        found.steps = found.steps[:3]
    return found


@pytest.mark.parametrize(("behind", "kind"), [(0.0005, "near_tie"), (2.1, "fault")])
def test_case_29_only_a_fault_fails_and_the_floor_stands_beside_it(
    bench: Bench, behind: float, kind: str
) -> None:
    """Careless: every mismatch fails the run, and nobody asks how often a baseline repeats."""
    bench.engine = Parting(script=parting, behind=behind)
    outcome = bench.run("method=eagle3", "compare=[vanilla, vanilla_aa]")
    runs = {result.method: result for result in outcome.results.values()}
    found = runs["eagle3"].outputs
    assert found is not None
    assert found["counts"] == {"near_tie": 0, "fault": 0, "equal": 2, "stop_rule": 1} | {kind: 1}
    assert [(one["first_divergence"], one["gap"]) for one in found["differences"]] == [
        (5, behind),
        (7, None),
    ]
    assert runs["eagle3"].status == ("failed" if kind == "fault" else "ok")
    assert runs["vanilla"].outputs is None
    if kind == "fault":
        return
    table = outputs(collect(bench.results))
    shown = table[table["method"] == "eagle3"].iloc[0]
    assert [shown[name] for name in ("pairs", "equal", "near_tie", "stop_rule", "fault")] == [
        4,
        2,
        1,
        1,
        0,
    ]
    assert (shown["floor"], shown["floor_pairs"]) == (1, 4)


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

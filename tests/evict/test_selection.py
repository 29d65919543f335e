"""One rule picks how much of a tree is verified; policies differ in their prices only."""

from __future__ import annotations

from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evict.cost import CostTable
from evict.errors import InputError
from evict.selection import CostAware, Coverage, Expected, FixedPrefix, Full, Selection
from evict.tree import Candidates, DraftTree

# Few distinct values, so that exact ties in S and in S / C are common.
SCORES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.0, width=32)
COSTS = st.sampled_from([1.0, 1.5, 2.0, 3.0]) | st.floats(0.5, 50.0)


def table(*step_ms: float) -> CostTable:
    return CostTable(step_ms=step_ms, ar_ms=1.0, spread_ms=(0.0,) * len(step_ms))


def expected_of(scores: list[float]) -> torch.Tensor:
    ordered = sorted(scores, reverse=True)
    return torch.tensor([1.0, *ordered], dtype=torch.float32).cumsum(0)


def best_by_loop(expected: list[float], step_ms: list[float], offset: float = 0.0) -> int:
    best = 1
    for k in range(2, len(expected) + 1):
        utility = (expected[k - 1] - offset) / step_ms[k - 1]
        if utility > (expected[best - 1] - offset) / step_ms[best - 1]:
            best = k
    return best


@st.composite
def problems(draw: st.DrawFn) -> tuple[torch.Tensor, list[float]]:
    size = draw(st.integers(1, 33))
    scores = draw(st.lists(SCORES, min_size=size - 1, max_size=size - 1))
    spare = draw(st.integers(0, 4))
    costs = draw(st.lists(COSTS, min_size=size + spare, max_size=size + spare))
    return expected_of(scores), costs


@given(problems(), st.booleans())
@settings(max_examples=300, deadline=None)
def test_cost_aware_equals_a_loop(
    problem: tuple[torch.Tensor, list[float]], count_root: bool
) -> None:
    expected, costs = problem
    select = CostAware(count_root).bind(table(*costs), len(costs))
    offset = 0.0 if count_root else 1.0
    assert select(expected).item() == best_by_loop(expected.tolist(), costs, offset)


def test_a_tie_takes_the_smallest_k() -> None:
    select = CostAware().bind(table(1.0, 2.0, 3.0, 3.0), 4)
    assert select(torch.tensor([1.0, 2.0, 3.0, 3.0])).item() == 1
    # 49 * (1 / 49) is below 1 in float64; 49 / 49 and 50 / 50 are the same number.
    select = CostAware().bind(table(2.0, 49.0, 50.0), 3)
    assert select(torch.tensor([1.0, 49.0, 50.0])).item() == 2


def test_flat_cost_verifies_everything_that_may_be_accepted() -> None:
    select = CostAware().bind(table(*[2.0] * 6), 6)
    assert select(expected_of([0.9, 0.5, 0.4, 0.2, 0.1])).item() == 6
    assert select(expected_of([0.9, 0.5, 0.0, 0.0, 0.0])).item() == 3
    assert select(expected_of([0.0] * 5)).item() == 1


def test_the_root_counts_unless_told_otherwise() -> None:
    expected, costs = expected_of([0.3, 0.2]), table(1.0, 1.4, 1.6)
    assert CostAware().bind(costs, 3)(expected).item() == 1
    assert CostAware(count_root=False).bind(costs, 3)(expected).item() == 3


@given(problems(), st.data())
@settings(max_examples=100, deadline=None)
def test_full_is_the_longest_fixed_prefix(
    problem: tuple[torch.Tensor, list[float]], data: st.DataObject
) -> None:
    expected, costs = problem
    draft_tokens, size = len(costs), expected.shape[0]
    full = Full().bind(None, draft_tokens)
    longest = FixedPrefix(draft_tokens).bind(None, draft_tokens)
    assert torch.equal(full.price_NN, longest.price_NN)
    assert full(expected).item() == longest(expected).item() == size
    k = data.draw(st.integers(1, draft_tokens))
    assert FixedPrefix(k).bind(None, draft_tokens)(expected).item() == min(k, size)


POLICIES: list[Selection] = [
    Full(),
    FixedPrefix(5),
    CostAware(),
    CostAware(count_root=False),
    Expected(),
    Coverage(0.7),
    Coverage(0.4, count_root=False),
    Coverage(1.0),
]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_batches_are_selected_row_by_row(policy: Selection) -> None:
    select = policy.bind(table(*[1 + 0.07 * k for k in range(32)]), 32)
    scores = torch.rand(3, 4, 31, generator=torch.Generator().manual_seed(1)) ** 4
    ordered = torch.cat([torch.ones(3, 4, 1), scores.sort(-1, descending=True).values], -1)
    expected = ordered.cumsum(-1)
    chosen = select(expected)
    assert chosen.shape == (3, 4)
    assert chosen.dtype == torch.int64
    rows = [[select(expected[i, j]).item() for j in range(4)] for i in range(3)]
    assert chosen.tolist() == rows


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_choosing_never_looks_at_values(policy: Selection) -> None:
    """Meta tensors have no values: any read by the host, from build to k, would raise."""
    candidates = Candidates(
        tokens_M=torch.empty(200, dtype=torch.int64, device="meta"),
        parents_M=torch.empty(200, dtype=torch.int64, device="meta"),
        depths_M=torch.empty(200, dtype=torch.int64, device="meta"),
        log_scores_M=torch.empty(200, device="meta"),
    )
    select = policy.bind(table(*[1.0] * 32), 32)
    with torch.inference_mode():
        tree = DraftTree.build(7, candidates, 32)
        chosen = select(tree.expected())
        moved = select.to("meta")(tree.expected())
    assert chosen.device.type == moved.device.type == "meta"
    assert chosen.shape == moved.shape == ()
    assert tree.mask().shape == (32, 32)


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_choosing_is_captured_in_a_cuda_graph(policy: Selection) -> None:
    generator = torch.Generator().manual_seed(5)
    expected = torch.rand(32, generator=generator).sort(descending=True).values.cumsum(0) + 1
    select = policy.bind(table(*[1 + 0.07 * k for k in range(32)]), 32)
    wanted, static = select(expected).item(), torch.ones(32, device="cuda")
    on_device = select.to("cuda")
    on_device(static)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chosen = on_device(static)
    static.copy_(expected)
    graph.replay()
    assert chosen.item() == wanted


@pytest.mark.parametrize("k", [0, -1, 9])
def test_a_fixed_prefix_outside_the_tree_is_refused(k: int) -> None:
    with pytest.raises(InputError, match=rf"seen: {k}; allowed: whole numbers in 1\.\.8"):
        FixedPrefix(k).bind(None, 8)


def test_cost_aware_needs_a_table_of_its_length() -> None:
    with pytest.raises(InputError, match=r"without a cost table; allowed: .*C\(1\)\.\.C\(8\)"):
        CostAware().bind(None, 8)
    with pytest.raises(InputError, match=r"seen: C\(1\)\.\.C\(2\); .*draft_tokens=8"):
        CostAware().bind(table(1.0, 2.0), 8)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_trees_outside_the_bound_size_are_refused(policy: Selection) -> None:
    with pytest.raises(InputError, match=r"seen: 9; allowed: 1\.\.8"):
        policy.bind(table(*[1.0] * 8), 8)(torch.ones(9))
    with pytest.raises(InputError, match=r"counts the root|fixed verify length"):
        policy.bind(table(1.0), 0)


def test_only_cost_aware_asks_for_costs() -> None:
    assert [p for p in POLICIES if p.needs_cost] == [CostAware(), CostAware(count_root=False)]


@given(problems())
@settings(max_examples=200, deadline=None)
def test_the_whole_tree_has_three_names(problem: tuple[torch.Tensor, list[float]]) -> None:
    """Trees may be smaller than the bound size, and end in nodes that add nothing to the sum."""
    expected, costs = problem
    policies = (Full(), FixedPrefix(len(costs)), Coverage(1.0), Coverage(1, count_root=False))
    chosen = [policy.bind(None, len(costs))(expected).item() for policy in policies]
    assert chosen == [expected.shape[0]] * 4


RHOS = st.sampled_from([0.25, 0.5, 0.75]) | st.floats(0.0, 1.0, exclude_min=True)


@given(problems(), RHOS, st.booleans())
@settings(max_examples=300, deadline=None)
def test_coverage_is_the_smallest_prefix_that_reaches_rho(
    problem: tuple[torch.Tensor, list[float]], rho: float, count_root: bool
) -> None:
    expected, costs = problem
    chosen = Coverage(rho, count_root).bind(None, len(costs))(expected).item()
    counted = [Fraction(s) - (0 if count_root else 1) for s in expected.tolist()]
    if rho == 1:
        assert chosen == len(counted)
    elif counted[-1] == 0:
        assert chosen == 1
    else:
        shares = [float(s / counted[-1]) for s in counted]
        assert chosen == next(k for k, share in enumerate(shares, start=1) if share >= rho)


def test_coverage_counts_the_share_of_the_tree_it_is_given() -> None:
    scores = [0.5, 0.25, 0.25]
    assert Coverage(0.5).bind(None, 9)(expected_of(scores)).item() == 1
    without_root = Coverage(0.5, count_root=False).bind(None, 9)
    assert without_root(expected_of(scores)).item() == 2
    assert without_root(expected_of([0.5, 0.25, 0.25, 1.0])).item() == 2
    assert without_root(expected_of([0.0, 0.0])).item() == 1
    assert without_root(torch.ones(1)).item() == 1
    # 7 of 100 is 0.07, though the product 0.07 * 100 of the rounded numbers is above 7.
    assert Coverage(0.07).bind(None, 3)(torch.tensor([1.0, 7.0, 100.0])).item() == 2


@given(problems(), st.booleans())
@settings(max_examples=200, deadline=None)
def test_expected_stops_only_where_the_sum_stops(
    problem: tuple[torch.Tensor, list[float]], count_root: bool
) -> None:
    expected, costs = problem
    sums = expected.tolist()
    assert Expected(count_root).bind(None, len(costs))(expected).item() == 1 + sums.index(sums[-1])


@pytest.mark.parametrize("rho", [0, 0.0, -0.1, 1.0000001, float("nan"), float("inf"), True, "0.7"])
def test_coverage_outside_its_interval_is_refused(rho: object) -> None:
    with pytest.raises(InputError, match=r"0 < rho <= 1.*method\.selection\.rho=0\.7") as caught:
        Coverage(rho)  # type: ignore[arg-type]
    assert caught.value.seen == repr(rho)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_choosing_is_one_graph_without_breaks(policy: Selection) -> None:
    select = policy.bind(table(*[1 + 0.07 * k for k in range(32)]), 32)
    expected = torch.rand(2, 31, generator=torch.Generator().manual_seed(3))
    expected = torch.cat([torch.ones(2, 1), expected.sort(-1, descending=True).values], -1)
    compiled = torch.compile(select, backend="eager", fullgraph=True)
    assert torch.equal(compiled(expected.cumsum(-1)), select(expected.cumsum(-1)))


@pytest.mark.parametrize("k", [2.5, True, "4", None])
def test_a_fixed_prefix_that_is_no_whole_number_is_refused(k: object) -> None:
    with pytest.raises(InputError, match="whole numbers"):
        FixedPrefix(k).bind(None, 8)  # type: ignore[arg-type]

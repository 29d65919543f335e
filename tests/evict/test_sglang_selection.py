"""The plugin's selector: the policies of `evict.selection`, for batches and existing widths."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.cost import CostTable
from evict.errors import InputError
from evict.selection import CostAware, Coverage, Expected, FixedPrefix, Full, Selection
from evict.sglang.selector import PrefixSelector

N, MOST = 12, 9
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
each_policy = pytest.mark.parametrize("policy", POLICIES, ids=repr)
# Multiples of 1/64: sums, and means over 1, 2, 4 or 8 trees, are exact in float32.
SIXTY_FOURTHS = st.integers(0, 64).map(lambda part: part / 64)
PROBABILITIES = st.sampled_from([0.0, 0.25, 0.5, 1.0]) | st.floats(0.0, 1.0, width=32)
COSTS = st.sampled_from([1.0, 1.5, 2.0, 3.0]) | st.floats(0.5, 50.0)


def table(*step_ms: float) -> CostTable:
    return CostTable(step_ms=step_ms, ar_ms=1.0, spread_ms=(0.0,) * len(step_ms))


def tables() -> st.SearchStrategy[CostTable]:
    return st.lists(COSTS, min_size=N, max_size=N).map(lambda costs: table(*costs))


@st.composite
def batches(draw: st.DrawFn, scores: st.SearchStrategy[float] = SIXTY_FOURTHS) -> Tensor:
    """Scores [B, n - 1] of trees of one size, best first."""
    requests, nodes = draw(st.integers(1, MOST)), draw(st.integers(0, N - 1))
    rows = st.lists(scores, min_size=nodes, max_size=nodes)
    drawn = torch.tensor([draw(rows) for _ in range(requests)], dtype=torch.float32)
    return drawn.view(requests, nodes).sort(1, descending=True).values


def following(
    policy: Selection,
    costs: Mapping[int, CostTable],
    widths: Mapping[int, Sequence[int]] | None = None,
) -> PrefixSelector:
    selector = PrefixSelector(N, MOST, "cpu")
    selector.follow(policy, costs if policy.needs_cost else {}, widths or {})
    return selector


def chosen(selector: PrefixSelector, scores_Bn: Tensor, batch: int | None = None) -> int:
    selector.prepare(batch or scores_Bn.shape[0])
    selector.select(scores_Bn)
    selector.start_read()
    return selector.read()


def expected_of(scores_Bn: Tensor) -> Tensor:
    return torch.cat([torch.ones(scores_Bn.shape[0], 1), scores_Bn], 1).cumsum(1)


def utility(scores_Bn: Tensor, cost: CostTable, k: int, offset: float = 0.0) -> float:
    sums: list[float] = expected_of(scores_Bn)[:, k - 1].tolist()
    return (sum(sums) / len(sums) - offset) / cost.step_ms[k - 1]


def serving(costs: Mapping[int, Any], batch: int) -> Any:
    """The entry of the smallest size that is not below the batch; None above all sizes."""
    return next((costs[size] for size in sorted(costs) if size >= batch), None)


def best(scores_Bn: Tensor, cost: CostTable, existing: Iterable[int], offset: float = 0.0) -> int:
    """The smallest k of the greatest utility, by a loop."""
    return max(sorted(existing), key=lambda k: utility(scores_Bn, cost, k, offset))


@each_policy
@given(scores=batches(PROBABILITIES), cost=tables())
@settings(max_examples=50, deadline=None)
def test_one_tree_is_selected_as_by_the_bound_policy(
    policy: Selection, scores: Tensor, cost: CostTable
) -> None:
    """Bit-equal, small trees included: S is the same sum in the same order."""
    selector, one = following(policy, {1: cost}), scores[:1]
    expected = expected_of(one)[0]
    assert chosen(selector, one) == policy.bind(cost, N)(expected).item()
    assert torch.equal(selector.expected_N[: expected.shape[0]], expected)
    assert torch.equal(selector.scores_BN[:1, : one.shape[1]], one)


@given(batches(), st.dictionaries(st.sampled_from([1, 2, 4, 8]), tables(), min_size=1), st.data())
@settings(max_examples=100, deadline=None)
def test_a_batch_takes_the_k_of_the_greatest_summed_utility(
    scores: Tensor, costs: dict[int, CostTable], data: st.DataObject
) -> None:
    batch, size = scores.shape[0], scores.shape[1] + 1
    count_root = data.draw(st.booleans())
    cost, offset = serving(costs, batch), 0.0 if count_root else 1.0
    k = chosen(following(CostAware(count_root), costs), scores)
    if cost is None:
        assert k == size
        return
    wanted = best(scores, cost, range(1, size + 1), offset)
    if batch in (1, 2, 4, 8):
        assert k == wanted
    highest = utility(scores, cost, wanted, offset)
    assert utility(scores, cost, k, offset) == pytest.approx(highest, rel=1e-6, abs=1e-6)


def test_batches_between_tables_take_the_next_larger_and_those_above_the_whole_tree() -> None:
    flat, dear = table(*[1.0] * N), table(*[float(k) ** 2 for k in range(1, N + 1)])
    selector = following(CostAware(), {2: flat, 4: dear})
    half = torch.full((MOST, N - 1), 0.5)
    found = {batch: chosen(selector, half[:batch]) for batch in (1, 2, 3, 4, 5, 9)}
    assert found == {1: N, 2: N, 3: 1, 4: 1, 5: N, 9: N}


@given(batches(), st.sampled_from(POLICIES), tables(), st.data())
@settings(max_examples=100, deadline=None)
def test_padding_rows_do_not_count(
    scores: Tensor, policy: Selection, cost: CostTable, data: st.DataObject
) -> None:
    """A captured graph pads the batch with rows of whatever an earlier step left."""
    spare = data.draw(st.integers(0, MOST - scores.shape[0]))
    left = data.draw(st.sampled_from([0.0, 1.0, 1e9]))
    padded = torch.cat([scores, torch.full((spare, scores.shape[1]), left)])
    alone = chosen(following(policy, {MOST: cost}), scores)
    selector = following(policy, {MOST: cost})
    assert chosen(selector, padded, batch=scores.shape[0]) == alone
    size = scores.shape[1] + 1
    mean = expected_of(scores).double().mean(0)
    assert torch.allclose(selector.expected_N[:size].double(), mean, atol=1e-5)


TIERS = st.sets(st.integers(1, N), min_size=1)


@given(batches(), tables(), TIERS, st.booleans())
@settings(max_examples=100, deadline=None)
def test_cost_aware_weighs_existing_widths_only(
    scores: Tensor, cost: CostTable, tiers: set[int], count_root: bool
) -> None:
    size = scores.shape[1] + 1
    k = chosen(following(CostAware(count_root), {MOST: cost}, {1: sorted(tiers)}), scores)
    offset = 0.0 if count_root else 1.0
    whole = utility(scores, cost, size, offset)
    assert k in tiers or k == size
    assert utility(scores, cost, k, offset) >= whole - 1e-6 * abs(whole)
    if scores.shape[0] in (1, 2, 4, 8):
        assert k == best(scores, cost, {t for t in tiers if t < size} | {size}, offset)


@given(batches(), tables(), TIERS, st.sampled_from([p for p in POLICIES if not p.needs_cost]))
@settings(max_examples=100, deadline=None)
def test_other_policies_are_raised_to_the_next_existing_width(
    scores: Tensor, cost: CostTable, tiers: set[int], policy: Selection
) -> None:
    size = scores.shape[1] + 1
    wanted = chosen(following(policy, {}), scores)
    k = chosen(following(policy, {}, {1: sorted(tiers)}), scores)
    assert k == min([t for t in tiers if wanted <= t < size], default=size)


def test_widths_of_the_next_larger_batch_size() -> None:
    widths = {1: (3, N), 2: (5, N), 8: (N,)}
    selector = following(FixedPrefix(2), {}, widths)
    rows = torch.full((MOST, N - 1), 0.5)
    found = {batch: chosen(selector, rows[:batch]) for batch in (1, 2, 3, 8, 9)}
    assert found == {1: 3, 2: 5, 3: N, 8: N, 9: N}


def test_a_refused_policy_leaves_the_old_one() -> None:
    selector, rows = following(FixedPrefix(3), {}), torch.full((1, N - 1), 0.5)
    refused: list[tuple[Selection, dict[int, CostTable], str]] = [
        (CostAware(), {}, "without a cost table"),
        (CostAware(), {1: table(1.0, 2.0)}, "shorter than the draft tree"),
        (FixedPrefix(N + 1), {}, "fixed verify length"),
    ]
    for policy, costs, why in refused:
        with pytest.raises(InputError, match=why):
            selector.follow(policy, costs, {})
        assert chosen(selector, rows) == 3


def test_selecting_before_a_policy_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="follow was not called"):
        PrefixSelector(N, MOST, "cpu").prepare(1)

"""Expert unions: uniform routing is the upper bound, one correlation explains recorded unions."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evict.cost import CostTable
from evict.errors import InputError
from harness.expert_union import uniform_union
from harness.report.published import FOLDER
from harness.simulate.overlap import fit_correlation, unions

ROUTING = st.integers(2, 300).flatmap(lambda e: st.tuples(st.just(e), st.integers(1, e)))
RHO = st.floats(0.0, 1.0)
LAB = CostTable.load(FOLDER.parent / "reference" / "lab_cost" / "cost_table.json")


@given(ROUTING, RHO, st.integers(1, 64))
def test_a_union_stays_between_one_token_and_uniform_routing(
    routing: tuple[int, int], rho: float, tokens: int
) -> None:
    experts, top_k = routing
    curve = unions(experts, top_k, rho, tokens)
    assert curve[0] == pytest.approx(top_k)
    assert (np.diff(curve) >= -1e-9).all()
    assert curve[-1] <= uniform_union(experts, top_k, tokens) * (1 + 1e-9)


@given(ROUTING, st.floats(0.01, 0.5), st.integers(2, 64))
def test_more_correlation_never_activates_more(
    routing: tuple[int, int], rho: float, tokens: int
) -> None:
    looser = unions(*routing, rho, tokens)
    tighter = unions(*routing, 1.5 * rho, tokens)
    assert (tighter <= looser + 1e-9).all()


def test_without_correlation_the_closed_form_of_uniform_routing() -> None:
    expected = [uniform_union(128, 8, k) for k in range(1, 33)]
    assert unions(128, 8, 0.0, 32) == pytest.approx(expected, rel=1e-4)


def test_the_closed_form_is_the_mean_of_drawn_routings() -> None:
    experts, top_k, rho, tokens = 64, 8, 0.2, 12
    s = 1 / rho - 1
    rng = np.random.default_rng(0)
    p = rng.beta(s * top_k / experts, s * (1 - top_k / experts), size=(40_000, 1))
    used = (rng.random((40_000, tokens)) < p).cumsum(axis=1) > 0
    assert unions(experts, top_k, rho, tokens) == pytest.approx(
        experts * used.mean(axis=0), rel=0.02
    )


def test_one_correlation_explains_the_lab_models_recorded_unions() -> None:
    """48 experts, top 4, recorded at every k = 1..32: within 3 % everywhere."""
    recorded = LAB.expert_union
    assert recorded is not None
    rho = fit_correlation(48, 4, recorded)
    assert 0.05 < rho < 0.2
    assert unions(48, 4, rho, 32) == pytest.approx(recorded, rel=0.03)
    assert unions(48, 4, 0.0, 32)[-1] > 1.25 * recorded[-1]


@given(st.floats(0.02, 0.9))
def test_recorded_unions_give_back_their_correlation(rho: float) -> None:
    assert fit_correlation(128, 8, unions(128, 8, rho, 32).tolist()) == pytest.approx(rho, abs=1e-3)


def test_requests_of_a_batch_choose_independently() -> None:
    one, two = unions(128, 8, 0.3, 32), unions(128, 8, 0.3, 32, contexts=2)
    assert two == pytest.approx(128 * (1 - (1 - one / 128) ** 2))
    assert unions(128, 8, 0.3, 32, contexts=500)[-1] == pytest.approx(128, rel=1e-3)


def test_a_dense_model_activates_no_expert() -> None:
    assert not unions(0, 0, 0.2, 32).any()


def test_impossible_routing_is_refused() -> None:
    with pytest.raises(InputError, match="top 9 of 8"):
        unions(8, 9, 0.1, 4)

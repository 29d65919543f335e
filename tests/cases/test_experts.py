"""Case 32: an expert union has bounds, and a reference line."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.errors import InputError
from harness.engines.torch.experts import Experts, route
from harness.expert_union import check_union, uniform_union

EXPERTS, TOP_K, WIDTH = 128, 8, 2
PUBLISHED = {1: 8.0, 2: 15.5, 4: 29.12, 8: 51.62, 16: 82.42, 32: 111.77, 60: 125.34, 64: 125.94}


def computed(chosen_TK: Tensor) -> int:
    """Distinct experts that the layer computes when token t's router prefers chosen_TK[t]."""
    tokens = len(chosen_TK)
    logits_TE = torch.zeros(tokens, EXPERTS).scatter_(1, chosen_TK, 1.0)
    generator = torch.Generator().manual_seed(0)
    layer = Experts(
        torch.randn(EXPERTS, WIDTH, 2 * WIDTH, generator=generator),
        torch.randn(EXPERTS, WIDTH, WIDTH, generator=generator),
    )
    x_TH = torch.randn(tokens, WIDTH, generator=generator)
    return layer(x_TH, route(logits_TE, TOP_K, normalise=True))[1]


@pytest.mark.parametrize(("tokens", "expected"), PUBLISHED.items())
def test_case_32_uniform_routing_is_the_reference_line(tokens: int, expected: float) -> None:
    """Careless: k * n, or E * (1 - k/E)^n, as the expected number of experts."""
    assert uniform_union(EXPERTS, TOP_K, tokens) == pytest.approx(expected, abs=0.05)


@pytest.mark.parametrize("tokens", [1, 2, 4, 16, 20])
def test_case_32_routers_at_both_bounds(tokens: int) -> None:
    """Careless: counting a token's expert again, or experts that nobody chose."""
    ids_TK = torch.arange(TOP_K).repeat(tokens, 1)
    assert computed(ids_TK) == TOP_K
    shifted_TK = (ids_TK + TOP_K * torch.arange(tokens)[:, None]) % EXPERTS
    assert computed(shifted_TK) == min(EXPERTS, TOP_K * tokens)


@given(st.integers(1, 32).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, 2**31))))
@settings(deadline=None)
def test_case_32_any_router_stays_inside_the_bounds(case: tuple[int, int]) -> None:
    """Careless: bounds that honest routing breaks."""
    tokens, seed = case
    logits_TE = torch.randn(tokens, EXPERTS, generator=torch.Generator().manual_seed(seed))
    chosen_TK = route(logits_TE, TOP_K, normalise=True).experts_TK
    assert check_union(len(chosen_TK.unique()), EXPERTS, TOP_K, tokens) is None
    assert check_union(uniform_union(EXPERTS, TOP_K, tokens), EXPERTS, TOP_K, tokens) is None


@pytest.mark.parametrize(
    ("union", "tokens", "bounds"),
    [(7.9, 1, "8..8"), (8.1, 1, "8..8"), (33, 4, "8..32"), (129, 64, "8..128"), (4, 64, "8..128")],
)
def test_case_32_out_of_bounds_names_the_numbers(union: float, tokens: int, bounds: str) -> None:
    """Careless: padded tokens counted, so that 4 tokens activate more than 32 experts."""
    found = check_union(union, EXPERTS, TOP_K, tokens)
    assert found is not None
    for part in (f"{union:g}", bounds, f"{tokens} tokens", "padded tokens counted?"):
        assert part in found
    assert check_union(float("nan"), EXPERTS, TOP_K, tokens) is not None


def test_case_32_a_layer_that_cannot_exist_is_refused() -> None:
    """Careless: bounds computed for a top-k larger than the layer."""
    for experts, top_k, tokens in [(8, 9, 1), (8, 0, 1), (8, 2, 0)]:
        with pytest.raises(InputError, match="no such expert layer"):
            check_union(8, experts, top_k, tokens)

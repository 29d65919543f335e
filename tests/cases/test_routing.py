"""Case 33: routing that was captured from other layers, padded rows, or ranks that differ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from evict.errors import InputError
from evict.sglang.candidates import OrderedCandidates
from evict.sglang.expert_probe import ExpertProbe, check_layers
from evict.sglang.rank_counts import LayerCounts, account
from evict.sglang.recorder import Recorder
from evict.sglang.step_ring import StepFacts

LAYERS, EXPERTS, TOPK, ROWS = 48, 16, 4, 24
K = 6


def routed(seed: int, tokens: int = K, layers: int = LAYERS) -> Tensor:
    """What the routers chose, [tokens, layers, k]; no expert twice for a token."""
    generator = torch.Generator().manual_seed(seed)
    chosen = torch.rand(tokens, layers, EXPERTS, generator=generator).argsort(-1)
    return chosen[..., :TOPK]


def unions(ids_TLK: Tensor) -> list[int]:
    return [len(ids_TLK[:, layer].unique()) for layer in range(ids_TLK.shape[1])]


def probe_with(ids_TLK: Tensor) -> ExpertProbe:
    probe = ExpertProbe(range(LAYERS), EXPERTS, TOPK, ROWS, "cpu")
    capture(probe, ids_TLK)
    return probe


def capture(probe: ExpertProbe, ids_TLK: Tensor) -> None:
    for layer in range(ids_TLK.shape[1]):
        probe.capture(layer_id=layer, topk_indices=ids_TLK[:, layer])


Gather = Callable[[Any], list[Any]]


def step_of(ids_TLK: Tensor, *others: Tensor) -> tuple[list[int], str | None]:
    """The recorded union of one step of K nodes, and the note; `others`: what other ranks saw."""
    probe = ExpertProbe(range(LAYERS), EXPERTS, TOPK, ROWS, "cpu")
    ranks = [counts(one) for one in others]
    gather: Gather = lambda own: [own, *([rank] for rank in ranks)]  # noqa: E731
    recorder = Recorder("cpu", TOPK, probe, gather)
    recorder.active = True
    recorder.start()
    recorder.after_draft()
    capture(probe, ids_TLK)
    recorder.after_verify()
    facts = StepFacts(0, ("r",), (9,), K, K - 1, 2, False)
    scores_N, ones = torch.ones(K), torch.ones(1, dtype=torch.int64)
    recorder.finish(facts, scores_N, ones, ones, nodes())
    (record,) = recorder.drain()
    return record["union"], recorder.note


def nodes() -> OrderedCandidates:
    empty = torch.zeros(1, K - 1, dtype=torch.int64)
    return OrderedCandidates(empty, empty.float(), empty, empty)


def counts(ids_TLK: Tensor) -> LayerCounts:
    probe = probe_with(ids_TLK)
    return LayerCounts(probe.unions(K, 1).tolist(), probe.loads(K, 1).tolist())


def own_experts(ids_TLK: Tensor, first: int, last: int) -> Tensor:
    """What a rank sees that holds the experts first..last only."""
    return ids_TLK.where((ids_TLK >= first) & (ids_TLK <= last), -1)


def test_case_33_layers_of_a_draft_are_refused() -> None:
    """Careless: a 49th layer is averaged in with the 48 of the target."""
    with pytest.raises(InputError, match=r"layer; seen: 48; allowed: \(0, 1, .*, 47\)"):
        probe_with(routed(0, layers=LAYERS + 1))
    with pytest.raises(InputError, match=r"\[48\]; seen: 49 MoE layers; allowed: .* has 48"):
        check_layers(range(LAYERS + 1), LAYERS)
    check_layers(range(LAYERS), LAYERS)
    check_layers(range(1, LAYERS), LAYERS)


def test_case_33_a_union_of_another_number_of_layers_names_both() -> None:
    with pytest.raises(InputError, match="seen: 49; allowed: 48 layers"):
        probe_with(routed(0)).check_union(unions(routed(0, layers=LAYERS + 1)))


@given(st.integers(0, 2**31), st.integers(1, K), st.integers(0, 4))
@settings(deadline=None, max_examples=40)
def test_case_33_padding_rows_are_dropped_and_loads_sum_to_tokens_by_k(
    seed: int, tokens: int, padding: int
) -> None:
    """Careless: the rows by which a CUDA graph pads a batch are counted."""
    ids_TLK = routed(seed, tokens + padding)
    probe = probe_with(ids_TLK)
    assert probe.unions(tokens, 1).tolist() == unions(ids_TLK[:tokens])
    assert probe.loads(tokens, 1).tolist() == [tokens * TOPK] * LAYERS
    assert probe.choices(tokens, 1) == tokens * TOPK


def test_case_33_rows_that_were_lost_are_noticed() -> None:
    """Careless: loads that do not sum to tokens x k pass: a union of fewer tokens than said."""
    with pytest.raises(InputError, match=rf"tokens x experts.*allowed: {K * TOPK};"):
        step_of(routed(1, K - 1))
    masked_TLK = routed(1)
    masked_TLK[2, 7] = -1
    with pytest.raises(InputError, match=rf"{K * TOPK - TOPK}.*summed over 1 rank"):
        step_of(masked_TLK)


def test_case_33_ranks_that_agree_are_one() -> None:
    assert step_of(routed(2), routed(2)) == (unions(routed(2)), None)


def test_case_33_ranks_that_differ_say_whose_experts_are_used_and_why() -> None:
    """Careless: a rank is taken without a word."""
    union_L, note = step_of(routed(3), routed(3), routed(4))
    assert union_L == unions(routed(3))
    assert note is not None
    assert note.startswith("experts differ on ranks [2]: rank 0's are used, because")


@pytest.mark.parametrize("borders", [(8,), (3, 9), (4, 8, 12)])
def test_case_33_experts_spread_over_ranks_add_up(borders: Sequence[int]) -> None:
    """Careless: rank 0's own experts pass for all of them."""
    ids_TLK, edges = routed(5), [0, *borders, EXPERTS]
    parts = [own_experts(ids_TLK, a, b - 1) for a, b in pairwise(edges)]
    union_L, note = step_of(*parts)
    assert union_L == unions(ids_TLK)
    assert note == "experts are spread: ranks add up"
    with pytest.raises(InputError, match=r"summed over \d rank"):
        step_of(*parts[:-1])


def test_case_33_one_account_needs_every_choice_once() -> None:
    twice = [LayerCounts([4], [8]), LayerCounts([4], [4])]
    with pytest.raises(InputError, match=r"seen: \[12\] summed over 2 rank\(s\); allowed: 16"):
        account(twice, 16)

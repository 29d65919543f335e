"""The selection ops keep the rules of `torch.cuda.graph`, shown without a GPU.

They are traced into a graph with tensors that have no values, so that any look at a value or a
shape that hangs on one raises. And they are recorded once and replayed after later orders, as a
captured graph is: addresses must stand, nothing may be baked in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensorMode,
)
from torch.fx.experimental.proxy_tensor import make_fx

from evict.cost import CostTable
from evict.selection import CostAware, Coverage, FixedPrefix, Full, Selection
from evict.sglang.candidates import order_candidates, tree_parents
from evict.sglang.selector import PrefixSelector
from tests.support.no_sync import HostSync, NoSync

TOPK, LEVELS, N, MOST = 4, 3, 24, 4
REFUSED = (DataDependentOutputException, DynamicOutputShapeException)
Step = Callable[[PrefixSelector, Tensor, Tensor, Tensor, Tensor], None]


def table(*step_ms: float) -> CostTable:
    return CostTable(step_ms=step_ms, ar_ms=1.0, spread_ms=(0.0,) * len(step_ms))


RISING = table(*[1 + 0.2 * k for k in range(N)])
STEEP = table(*[1.5**k for k in range(N)])
PROGRAMS: list[tuple[Selection, Mapping[int, CostTable], tuple[int, ...]]] = [
    (Full(), {}, (N,)),
    (FixedPrefix(7), {}, tuple(range(1, N + 1))),
    (FixedPrefix(7), {}, (4, 10, N)),
    (CostAware(), {1: RISING, 4: STEEP}, tuple(range(1, N + 1))),
    (CostAware(count_root=False), {1: RISING, 4: STEEP}, (1, 4, 10, N)),
    (Coverage(0.7), {}, tuple(range(1, N + 1))),
    (Coverage(0.4, count_root=False), {}, (2, N)),
]


def drawn(seed: int, batch: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """First level [B, 1, t] and later levels [B, t, t] of scores; tokens and parents by candidate.

    Only shapes and order matter here: any scores that fall from level to level will do.
    """
    generator = torch.Generator().manual_seed(seed)
    first = torch.rand(batch, 1, TOPK, generator=generator).sort(-1, descending=True).values
    later = torch.rand(batch, LEVELS - 1, TOPK, TOPK, generator=generator) * first.amin() * 0.9
    created = TOPK + (LEVELS - 1) * TOPK**2
    tokens = torch.randint(500, (batch, created), generator=generator)
    parents = torch.arange(-1, TOPK * LEVELS).expand(batch, -1)
    return first, later, tokens, parents


def step(
    selector: PrefixSelector, first: Tensor, later: Tensor, tokens: Tensor, parents: Tensor
) -> None:
    """What the draft graph ends with: candidates in order, then k."""
    levels = [first, *later.unbind(1)]
    token_levels = tokens.split([level[0].numel() for level in levels], dim=1)
    parent_levels = parents.split([TOPK + 1, *[TOPK] * (LEVELS - 1)], dim=1)
    nodes = order_candidates(levels, token_levels, parent_levels, N)
    selector.select(nodes.scores_Bn)
    tree_parents(nodes.indices_Bn, nodes.parents_BP, TOPK)


def reads_k(selector: PrefixSelector, *parts: Tensor) -> None:
    step(selector, *parts)
    if selector.k.item() > 3:
        selector.k.fill_(3)


def keeps_likely_nodes(selector: PrefixSelector, first: Tensor, *parts: Tensor) -> None:
    selector.select(first[:, 0][first[:, 0] > 0.5].unsqueeze(0))


def counts_likely_nodes(selector: PrefixSelector, first: Tensor, *parts: Tensor) -> None:
    step(selector, first, *parts)
    selector.k.fill_(first.nonzero().shape[0])


def slices_to_k(selector: PrefixSelector, first: Tensor, *parts: Tensor) -> None:
    step(selector, first, *parts)
    selector.expected_N[: selector.k] += 1


CARELESS = [reads_k, keeps_likely_nodes, counts_likely_nodes, slices_to_k]


def selecting(program: tuple[Any, ...] = PROGRAMS[3], batch: int = 2) -> PrefixSelector:
    selector = PrefixSelector(N, MOST, "cpu")
    selector.follow(program[0], program[1], {1: program[2]})
    selector.prepare(batch)
    return selector


def traced(one: Step, program: tuple[Any, ...] = PROGRAMS[3]) -> torch.fx.GraphModule:
    """The step as a graph of tensors without values."""
    with FakeTensorMode():
        selector, parts = selecting(program), drawn(0, 2)
        return make_fx(lambda *values: one(selector, *values), tracing_mode="fake")(*parts)


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: repr(program[0]))
def test_the_ops_are_one_graph_without_values(program: tuple[Any, ...]) -> None:
    tags = {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape}
    calls = [node for node in traced(step, program).graph.nodes if node.op == "call_function"]
    assert len(calls) > 20
    assert not [node for node in calls if tags & set(getattr(node.target, "tags", ()))]


@pytest.mark.parametrize("careless", CARELESS, ids=lambda one: one.__name__)
def test_a_look_at_values_is_refused_by_the_trace(careless: Step) -> None:
    with pytest.raises(REFUSED):
        traced(careless)


@pytest.mark.parametrize("inference", [False, True])
def test_no_wait_for_the_device(inference: bool) -> None:
    selector = selecting()
    parts = drawn(1, 2)
    with torch.inference_mode(inference), NoSync():
        step(selector, *parts)


@pytest.mark.parametrize("careless", CARELESS, ids=lambda one: one.__name__)
def test_a_wait_for_the_device_is_noticed(careless: Step) -> None:
    selector = selecting()
    parts = drawn(1, 1)
    with pytest.raises(HostSync), NoSync():
        careless(selector, *parts)


def test_one_recording_serves_every_later_order() -> None:
    """Recorded with Full for a batch of 4; then other policies, smaller batches, other scores."""
    selector = selecting(PROGRAMS[0], MOST)
    recorded = make_fx(lambda *parts: step(selector, *parts))(*drawn(0, MOST))
    found = set()
    for number, program in enumerate([*PROGRAMS, *reversed(PROGRAMS)], start=1):
        selector.follow(program[0], program[1], {1: program[2]})
        for batch in (1, 3, MOST, 1):
            selector.prepare(batch)
            parts = drawn(number, MOST)
            recorded(*parts)
            fresh = selecting(program, batch)
            step(fresh, *parts)
            assert selector.read() == fresh.read()
            assert torch.equal(selector.expected_N, fresh.expected_N)
            found.add(selector.read())
    assert len(found) > 5


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_one_cuda_graph_serves_every_later_order() -> None:
    selector = PrefixSelector(N, MOST, "cuda")
    selector.follow(Full(), {}, {})
    selector.prepare(MOST)
    static = [part.cuda() for part in drawn(0, MOST)]
    step(selector, *static)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step(selector, *static)
    for number, program in enumerate(PROGRAMS, start=1):
        selector.follow(program[0], program[1], {1: program[2]})
        for batch in (1, 3, MOST, 1):
            selector.prepare(batch)
            parts = drawn(number, MOST)
            for place, part in zip(static, parts, strict=True):
                place.copy_(part)
            graph.replay()
            selector.start_read()
            fresh = selecting(program, batch)
            step(fresh, *parts)
            assert selector.read() == fresh.read()

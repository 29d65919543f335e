"""The embedded engine in a process of its own: chosen by a setting, the same results, no slower."""

from __future__ import annotations

import time
from collections.abc import Iterator
from functools import partial
from statistics import median

import pytest

from evict.growth import FixedDepth
from evict.selection import CostAware, Full
from harness.compose import engine_opener
from harness.engines.base import Engine, Method, Request
from harness.engines.isolated.engine import IsolatedEngine
from harness.engines.torch.engine import TorchEngine
from harness.plan import engine_identity
from harness.profiling.cost import profile
from tests.engines.conftest import LAB
from tests.support.bench import composed
from tests.support.checkpoints import TinyPair

PLAIN = Method("vanilla")
EAGLE3 = Method("eagle3", "eagle3", FixedDepth(4, 8), Full(), 32)
SMALL = Method("evict", "eagle3", FixedDepth(2, 2), CostAware(), 3)


@pytest.fixture(scope="module")
def apart(tiny_pair: TinyPair) -> Iterator[IsolatedEngine]:
    model = {"name": "tiny", "target": str(tiny_pair.target), "draft": str(tiny_pair.draft)}
    engine = IsolatedEngine(partial(TorchEngine, model, device="cpu"))
    yield engine
    engine.close()


def test_outputs_steps_and_facts_are_the_same(
    apart: IsolatedEngine, tiny: TorchEngine, ids: list[int]
) -> None:
    request = Request("p", tuple(ids), 12, temperature=1.0, record_trees=True)
    here, there = (one.generate(request, EAGLE3, 7) for one in (tiny, apart))
    assert there.output_ids == here.output_ids
    assert [step.committed for step in there.steps] == [step.committed for step in here.steps]
    assert [tree.to_row() for tree in there.trees] == [tree.to_row() for tree in here.trees]
    assert there.expert_union_layers == here.expert_union_layers
    assert there.decode_ms > 0 < there.prefill_ms
    assert apart.describe() == tiny.describe()
    assert apart.top_gap(ids) == tiny.top_gap(ids)
    assert apart.read_back(EAGLE3) == tiny.read_back(EAGLE3)


def test_step_costs_are_measured_there_with_what_observers_see(
    apart: IsolatedEngine, ids: list[int]
) -> None:
    heard: list[str] = []
    table = apart.carry_out(
        profile, SMALL, [ids], 0, progress=lambda what, share: heard.append(what)
    )
    assert len(table.step_ms) == SMALL.draft_tokens
    assert set(table.score_maps) == {"0", "1"}
    assert {"profiling C(k)", "observing scores at T=1"} <= set(heard)
    apart.set_cost(table)
    trace = apart.generate(Request("p", tuple(ids), 8), SMALL, 0)
    assert all(step.utility is not None for step in trace.steps)


@pytest.mark.parametrize(("isolated", "kind"), [(True, IsolatedEngine), (False, TorchEngine)])
def test_a_setting_of_the_configuration_decides(isolated: bool, kind: type[Engine]) -> None:
    config, _ = composed("engine=torch", f"engine.process.isolated={isolated}", "machine=shared")
    engine = engine_opener(config)()
    try:
        assert type(engine) is kind
        assert engine.describe().model == "lab"
    finally:
        engine.close()


def test_how_the_process_is_kept_is_no_part_of_a_runs_identity() -> None:
    one, _ = composed("engine=torch", "engine.process.request_timeout_s=5")
    other, _ = composed("engine=torch", "engine.process.isolated=false")
    assert engine_identity(one) == engine_identity(other)


@pytest.mark.slow
def test_what_the_other_process_adds_to_a_generation(lab: TorchEngine) -> None:
    """Wall time around a generation less what the engine measured itself, interleaved."""
    apart = IsolatedEngine(partial(TorchEngine, LAB, device="cpu"))
    ids = lab.encode_chat([{"role": "user", "content": "Name the rivers of the north."}])
    around: dict[str, list[float]] = {"here": [], "apart": []}
    inside: list[float] = []
    try:
        for number in range(12):
            order: list[tuple[str, Engine]] = [("here", lab), ("apart", apart)]
            for name, engine in order if number % 2 else reversed(order):
                request = Request("p", tuple(ids), 128, ignore_eos=True)
                begin = time.perf_counter()
                trace = engine.generate(request, EAGLE3, number)
                wall_ms = (time.perf_counter() - begin) * 1e3
                around[name].append(wall_ms - trace.prefill_ms - trace.decode_ms)
                inside.append(trace.prefill_ms + trace.decode_ms)
    finally:
        apart.close()
    added_ms = median(around["apart"]) - median(around["here"])
    print(f"\nthe link adds {added_ms:.2f} ms to a generation of {median(inside):.0f} ms")
    assert added_ms < 0.01 * median(inside)

"""engine=simulated: the real selection on simulated trees, at modelled prices, called predicted."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evict.errors import InputError
from evict.growth import DynamicDepth, FixedDepth
from harness import requirements
from harness.collect import collect
from harness.collection import Collection
from harness.compose import engine_opener
from harness.engines.base import Request, RequestTrace
from harness.engines.simulated.engine import SimulatedEngine
from harness.experiment import run
from harness.plan import engine_identity
from harness.profiling.cost import profile
from harness.report.blocks import timing
from harness.report.published import published
from harness.report.tables import summary
from harness.requirements import Gpus
from tests.engines.methods import method
from tests.support.bench import composed

HERE = ("engine=simulated", "model=qwen3_30b", "hardware=a100_80")


def opened(*overrides: str) -> SimulatedEngine:
    config, _ = composed(*HERE, *overrides)
    engine = engine_opener(config)()
    assert isinstance(engine, SimulatedEngine)
    return engine


@pytest.fixture(scope="module")
def engine() -> SimulatedEngine:
    return opened()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Collection:
    """EVICT, plain decoding and EAGLE-3 on two prompts of one benchmark, from their files."""
    folder = tmp_path_factory.mktemp("simulated")
    config, methods = composed(
        "+experiment=what_if",
        "machine=shared",
        "benchmark=gsm8k",
        "limit=2",
        f"results_dir={folder}",
    )
    outcome = run(config, methods, engine_opener(config), profile)
    assert {result.status for result in outcome.results.values()} == {"ok"}
    return collect(folder)


def generated(engine: SimulatedEngine, name: str, seed: int = 1, tokens: int = 400) -> RequestTrace:
    one = method(name)
    engine.together([one])
    return engine.generate(Request("gsm8k-3", (1, 2, 3), tokens), one, seed)


def test_no_machine_is_too_small_for_it() -> None:
    config, _ = composed("engine=simulated", "model=qwen3_235b", "hardware=a100_80")
    requirements.check(config, Gpus([], "none"))
    with pytest.raises(InputError, match="GPU"):
        requirements.check(composed("model=qwen3_235b")[0], Gpus([], "none"))


def test_runs_go_through_the_experiment_and_are_called_predicted(data: Collection) -> None:
    assert set(data.runs["engine"]) == {"simulated"}
    assert summary(data)["predicted"].all()
    assert timing(data).runs.empty


def test_every_step_takes_what_the_model_says_of_its_k(data: Collection) -> None:
    for name, steps in data.steps.groupby("run"):
        if name not in data.costs:
            continue
        times = np.array(data.costs[str(name)].step_ms)[steps["verified"].to_numpy() - 1]
        assert steps["total_ms"].to_numpy() == pytest.approx(times)
        stages = steps[["draft_ms", "verify_ms", "extend_ms", "other_ms"]].sum(axis=1)
        assert stages.to_numpy() == pytest.approx(times)


def test_a_request_ends_when_its_tokens_are_committed(data: Collection) -> None:
    tokens = data.steps.groupby(["run", "prompt_id", "turn"])["committed"].sum()
    assert set(tokens) == {127}


@pytest.mark.parametrize("benchmark", ["gsm8k", "qa"])
def test_whole_trees_have_the_published_mat(engine: SimulatedEngine, benchmark: str) -> None:
    paper = published("mean_accepted_tokens").set_index(
        ["model", "temperature", "benchmark", "method"]
    )["mat"]
    eagle3 = method("eagle3")
    engine.together([eagle3])
    trace = engine.generate(Request(f"{benchmark}-1", (1,), 2000), eagle3, 7)
    assert trace.decode_tokens / len(trace.steps) == pytest.approx(
        paper["qwen3_30b", 0, benchmark, "eagle3"], rel=0.08
    )


def test_methods_share_the_luck_of_a_step(engine: SimulatedEngine) -> None:
    full, cut = generated(engine, "eagle3").steps, generated(engine, "evict").steps
    for whole, part in list(zip(full, cut, strict=False))[:-1]:
        assert part.verified <= whole.verified == 32
        assert part.accepted <= whole.accepted
        if part.verified == 32:
            assert part.accepted == whole.accepted
    assert generated(engine, "eagle3", seed=2).steps != full
    assert generated(engine, "eagle3").steps == full


def test_growth_that_decides_drafts_less_and_pays_less(engine: SimulatedEngine) -> None:
    """Stopping after the first level costs what a drafter of one level does."""
    whole = method("eagle3")
    never = replace(whole, growth=DynamicDepth(4, 8, -np.inf, [2, 3]))
    once = replace(whole, growth=DynamicDepth(4, 8, 0.0, [1]))
    shallow = replace(whole, growth=FixedDepth(1, 8), draft_tokens=9)
    request = Request("gsm8k-3", (1, 2, 3), 50)
    full, kept, cut, one = (
        engine.generate(request, each, 1).steps for each in (whole, never, once, shallow)
    )
    assert kept == full
    assert {(step.verified, step.depth_drawn) for step in cut} == {(9, 1)}
    for step in cut:
        stages = step.draft_ms + step.verify_ms + step.extend_ms + step.other_ms
        assert step.total_ms == pytest.approx(stages)
        assert step.total_ms == pytest.approx(one[0].total_ms)


def test_a_plain_step_commits_one_token_at_its_own_price(engine: SimulatedEngine) -> None:
    engine.together([method("eagle3")])
    steps = generated(engine, "vanilla", tokens=20).steps
    assert {(step.verified, step.committed) for step in steps} == {(1, 1)}
    assert {step.total_ms for step in steps} == {engine.own_costs[-1].ar_ms}


def test_evict_is_faster_than_eagle3_and_that_than_plain_decoding(engine: SimulatedEngine) -> None:
    speeds = [
        trace.decode_tokens / trace.decode_ms
        for trace in (generated(engine, name) for name in ("vanilla", "eagle3", "evict"))
    ]
    assert speeds == sorted(speeds)


def test_a_given_table_is_believed_and_the_models_price_is_paid() -> None:
    engine = opened()
    generated(engine, "evict")
    own = engine.own_costs[0]
    engine.set_cost(replace(own, step_ms=(own.step_ms[0],) * 32))
    blind = generated(engine, "evict")
    assert {step.verified for step in blind.steps} == {32}
    assert {step.total_ms for step in blind.steps} == {own.step_ms[-1]}


def test_the_batch_and_the_device_belong_to_a_runs_identity_and_what_follows_does_not() -> None:
    plain, batch, device, silent = (
        engine_identity(composed(*HERE, *more)[0])
        for more in ((), ("batch_size=8",), ("hardware=h100",), ("engine.afterwards=null",))
    )
    assert plain == silent
    assert plain != batch
    assert plain != device


def test_a_batch_costs_more_per_step_and_prefill_grows_with_the_prompt(
    engine: SimulatedEngine,
) -> None:
    busy = opened("batch_size=16")
    assert generated(busy, "eagle3").decode_ms > generated(engine, "eagle3").decode_ms
    one = method("vanilla")
    short, long = (
        engine.generate(Request("qa-1", (1,) * size, 3), one, 0).prefill_ms for size in (10, 3000)
    )
    assert long > short > 0


def test_a_local_dense_checkpoint_has_no_expert_effect(tmp_path: Path) -> None:
    facts = {
        "hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 16,
        "num_key_value_heads": 4, "intermediate_size": 8192, "vocab_size": 50000,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(facts))
    engine = opened(f"model.target={tmp_path}", "model.name=own")
    steps = generated(engine, "eagle3").steps
    assert {step.expert_union for step in steps} == {None}
    table = engine.own_costs[0]
    assert table.step_ms[-1] == pytest.approx(table.step_ms[0], rel=0.01)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("model.tensor_parallel=3",), "32 attention heads"),
        (("hardware=this", "engine.hardware=null"), "hardware=a100_80"),
        (("+hardware.memory=3",), "memory"),
        (("model.target=/nowhere", "model.name=own"), "no architecture numbers"),
    ],
)
def test_a_question_that_cannot_be_asked_says_why(overrides: tuple[str, ...], message: str) -> None:
    with pytest.raises(InputError, match=message):
        opened(*overrides)


def test_an_unreachable_mat_is_refused_at_once_with_the_attainable_range() -> None:
    with pytest.raises(InputError, match=r"7 with N = 32.*\n?.*to 5\.00"):
        opened("engine.mat=7")


@pytest.mark.parametrize("name", ["lookahead", "evict_calibrated"])
def test_a_method_without_a_model_is_refused_before_anything_runs(
    engine: SimulatedEngine, name: str
) -> None:
    with pytest.raises(InputError, match=f"method {name} is not simulated"):
        engine.together([method(name)])


def test_trees_are_not_kept(engine: SimulatedEngine) -> None:
    asked = Request("qa-1", (1,), 10, record_trees=True)
    with pytest.raises(InputError, match="not kept"):
        engine.generate(asked, method("evict"), 0)


@pytest.mark.parametrize("setting", ["hardware=h100", "batch_size=2"])
def test_what_an_engine_does_not_read_is_refused(setting: str) -> None:
    with pytest.raises(InputError, match="changes nothing on this engine"):
        composed("model=lab", setting)


def test_forced_steps_are_those_of_the_price_list(engine: SimulatedEngine) -> None:
    one = method("fixed_k:selection.k=6")
    engine.together([one])
    steps = engine.forced_step_times(one, [[1]], 5)
    assert [step.verified for step in steps] == [6] * 5
    assert pd.Series([step.total_ms for step in steps]).nunique() == 1

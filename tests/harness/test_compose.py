from __future__ import annotations

import pytest
from hydra.errors import ConfigCompositionException

from evict.errors import InputError
from harness import requirements
from harness.compose import build_method, engine_opener, with_parameter
from harness.config import known
from harness.requirements import Gpus
from tests.support.bench import composed

GROUPS = ("model", "method", "benchmark", "engine")


@pytest.mark.parametrize(
    "override",
    [f"{group}={name}" for group in GROUPS for name in known(group)]
    + [f"+experiment={name}" for name in known("experiment")],
)
def test_every_file_composes(override: str) -> None:
    _, methods = composed(override)
    for method in methods:
        assert build_method(method).name == method.name


@pytest.mark.parametrize("group", GROUPS)
def test_an_unknown_name_lists_the_known_ones(group: str) -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed(f"{group}=nope")
    assert all(name in str(caught.value) for name in known(group))


def test_an_unknown_method_in_compare_lists_the_known_ones() -> None:
    with pytest.raises(InputError) as caught:
        composed("compare=[nope]")
    assert all(name in str(caught.value) for name in known("method"))


@pytest.mark.parametrize(
    "override",
    ["lmit=3", "method.growth.foo=1", "engine.threads=2", "limit=abc", "method.draft_tokens=x"],
)
def test_an_unknown_key_or_a_wrong_type_is_refused(override: str) -> None:
    with pytest.raises(ConfigCompositionException):
        composed(override)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("profile=sometimes", "auto, only, never"),
        ("truncate=all", "error, tail, middle"),
        ("temperature=-1", ">= 0"),
        ("limit=0", ">= 1"),
        ("compare=[evict]", "compared with itself"),
    ],
)
def test_a_value_outside_its_range_names_the_range(override: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        composed(override)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (("method.draft_tokens=202",), r"seen: 202; allowed: 1..201"),
        (("method.draft_tokens=0",), r"allowed: 1..201"),
        (("method=vanilla", "method.draft_tokens=2"), r"allowed: 1..1"),
        (("method=fixed_k", "method.selection.k=33"), r"whole numbers in 1..32"),
        (("method.growth.steps=0",), "steps"),
        (("method.drafter=medusa",), "none, eagle3, trie"),
    ],
)
def test_a_method_that_cannot_work_is_refused(overrides: tuple[str, ...], message: str) -> None:
    _, methods = composed(*overrides)
    with pytest.raises(InputError, match=message):
        build_method(methods[0])


def test_scores_are_a_setting_of_the_method() -> None:
    _, methods = composed("method.scores=beta", "compare=[vanilla,evict_calibrated]")
    assert [build_method(one).scores for one in methods] == ["beta", "draft", "isotonic"]


def test_an_entry_of_compare_may_set_its_own_values() -> None:
    _, methods = composed(
        "compare=['coverage:selection.rho=0.4',coverage,'fixed_k:selection.k=4,growth.steps=3']"
    )
    assert [one.label for one in methods[1:]] == [
        "coverage rho=0.4",
        "coverage rho=0.7",
        "fixed k=4",
    ]
    assert build_method(methods[3]).growth.steps == 3
    with pytest.raises(InputError, match="compared with itself"):
        composed("compare=[coverage,'coverage:selection.rho=0.7']")
    with pytest.raises(ConfigCompositionException, match="nope"):
        composed("compare=['coverage:selection.nope=1']")


def test_a_rho_outside_its_interval_names_it() -> None:
    for rho in ("0", "1.01", "-0.2"):
        _, methods = composed("method=coverage", f"method.selection.rho={rho}")
        with pytest.raises(InputError, match=r"rho.*seen: .*allowed"):
            build_method(methods[0])


def test_a_dotted_setting_is_changed_and_an_unknown_one_names_the_known() -> None:
    _, (method,) = composed("method=best_fixed")
    assert build_method(with_parameter(method, "selection.k", 5)).selection.k == 5
    with pytest.raises(InputError, match=r"no such setting.*selection\.k"):
        with_parameter(method, "selection.width", 5)


def test_auto_becomes_the_engine_of_the_model() -> None:
    assert composed()[0].engine["name"] == "torch"
    engine = composed("model=qwen3_30b", "results_dir=elsewhere")[0].engine
    assert (engine["name"], engine["disable_cuda_graph"]) == ("sglang", False)
    assert engine["process"]["log_dir"] == "elsewhere/servers"


def test_a_model_that_needs_gpus_says_what_it_needs_and_what_runs_here() -> None:
    config, _ = composed("model=qwen3_235b")
    with pytest.raises(InputError, match=r"8 GPU\(s\) with 80 GiB.*no NVIDIA driver.*model=lab"):
        requirements.check(config, Gpus((), "no NVIDIA driver"))
    with pytest.raises(InputError, match=r"80 GiB each; seen: 24 GiB, 24 GiB"):
        requirements.check(config, Gpus((24.0, 24.0)))


def test_an_engine_that_is_not_shipped_is_said_to_be_missing() -> None:
    config, _ = composed("model=qwen3_30b", "engine=torch")
    requirements.check(config, Gpus((79.6,)))
    config.model.engines.insert(0, "vllm")
    config.engine = {"name": "vllm"}
    with pytest.raises(InputError, match=r"vllm.*does not ship yet.*engine=sglang"):
        requirements.check(config, Gpus((79.6,)))


def test_an_engine_that_cannot_run_the_model_is_refused() -> None:
    config, _ = composed("model=ling_flash", "engine=torch")
    with pytest.raises(InputError, match=r"does not run on this engine; seen: torch"):
        requirements.check(config, Gpus((80.0,) * 4))


def test_an_engine_that_runs_on_a_gpu_needs_one() -> None:
    config, _ = composed("model=lab", "engine=sglang")
    with pytest.raises(InputError, match=r"engine=sglang runs on a GPU; seen: no GPU"):
        requirements.check(config, Gpus((), "no NVIDIA driver"))
    requirements.check(config, Gpus((24.0,)))
    config, _ = composed("model=lab", "engine=sglang", "engine.device=cpu")
    requirements.check(config, Gpus((), "no NVIDIA driver"))


def test_the_engine_gets_the_model_and_its_own_settings() -> None:
    config, _ = composed("engine=torch", "engine.threads=3")
    config.engine = {"_target_": "builtins.dict", "name": "torch", "threads": 3}
    built = engine_opener(config)()
    assert built["threads"] == 3  # type: ignore[index]
    assert built["model"]["name"] == "lab"  # type: ignore[index]
    assert "name" not in built  # type: ignore[operator]

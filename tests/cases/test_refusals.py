"""Cases 25, 35, 38 where a command line is read: what cannot work is refused before it starts."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hydra.errors import ConfigCompositionException

from evict.errors import InputError
from harness.compose import build_method
from harness.config import known
from harness.engines.sglang import engine as sglang
from harness.engines.sglang.running import Running
from harness.engines.sglang.support import SUPPORTED
from harness.experiment import run
from harness.plan import engine_identity
from tests.support.bench import Bench, composed
from tests.support.fake_engine import FakeProfiler
from tests.support.sglang_arms import CPU, WEIGHTS


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What SGLang servers were asked to start; none is, and no installed SGLang is needed."""
    asked: list[object] = []
    monkeypatch.setattr(sglang, "package_version", lambda name: SUPPORTED)
    monkeypatch.setattr(Running, "start", lambda *arguments: asked.append(arguments))
    return asked


def served(folder: Path, **settings: Any) -> sglang.SGLangEngine:
    """The lab pair on SGLang, as a CPU would run it."""
    limits = {"ready_timeout_s": 1, "stop_timeout_s": 1, "live_servers": 1}
    return sglang.SGLangEngine(
        model={"name": "lab", "target": WEIGHTS.target, "draft": WEIGHTS.draft},
        process={**limits, "log_dir": str(folder)},
        **{**asdict(CPU), **settings},
    )


def test_case_21_the_cache_mode_tells_runs_apart() -> None:
    """Careless: whether prompts may be cached is known to the server alone."""
    modes = []
    for given in ("true", "false"):
        config, _ = composed("engine=sglang", f"engine.disable_radix_cache={given}")
        modes.append(engine_identity(config)["disable_radix_cache"])
    assert modes == [True, False]
    default, _ = composed("engine=sglang")
    assert default.engine["disable_radix_cache"] is True


@pytest.mark.parametrize("topk", [1, -1, 50])
def test_case_25_top_k_is_no_setting(topk: int) -> None:
    """Careless: a sampler can be made greedy at temperature 1 by a key of ours."""
    for given in (f"top_k={topk}", f"method.top_k={topk}"):
        with pytest.raises(ConfigCompositionException, match="top_k"):
            composed("temperature=1.0", given)
    for added in (f"+top_k={topk}", f"+method.top_k={topk}"):
        with pytest.raises(InputError, match=r"unknown key.*; seen: (method\.)?top_k"):
            composed("temperature=1.0", added)


@pytest.mark.parametrize(
    ("overrides", "settings", "reason"),
    [
        ((), {"page_size": 64}, r"topk 8.*page_size 64.*try: engine\.page_size=1"),
        ((), {"attention_backend": None}, r"attention_backend is not set.*=flashinfer"),
        (
            ("method.growth.topk=1", "method.draft_tokens=3"),
            {},
            r"draft_tokens.*topk 1.*allowed: 5; try: method\.draft_tokens=5",
        ),
    ],
    ids=["pages", "backend", "chain"],
)
def test_case_35_an_arm_that_cannot_run_is_refused_before_any_server_starts(
    bench: Bench,
    started: list[object],
    overrides: tuple[str, ...],
    settings: dict[str, Any],
    reason: str,
) -> None:
    """Careless: the baseline is measured for an hour, and then the tree is refused."""
    given = ("method=eagle3", "compare=[vanilla]", *overrides)
    config, methods = composed(*bench.overrides(), *given)
    with pytest.raises(InputError, match=reason):
        run(config, methods, lambda: served(bench.folder, **settings), FakeProfiler())
    assert started == []
    assert not bench.results.exists()


def test_case_35_legal_arms_pass(tmp_path: Path, started: list[object]) -> None:
    _, methods = composed("method=evict", "compare=[vanilla,eagle3]")
    engine = served(tmp_path)
    parts = engine.together([build_method(one) for one in methods])
    assert sorted(place for part in parts for place in part) == [0, 1, 2]
    assert started == []


@pytest.mark.parametrize("override", ["method.stepz=7", "stepz=7", "method.growth.stepz=7"])
def test_case_38_an_unknown_key_is_refused(override: str) -> None:
    """Careless: a misspelt setting is recorded, and the default is run."""
    with pytest.raises(ConfigCompositionException, match="stepz"):
        composed(override)


@pytest.mark.parametrize("group", ["model", "method", "benchmark", "engine"])
def test_case_38_a_group_that_does_not_exist_lists_those_that_do(group: str) -> None:
    with pytest.raises(ConfigCompositionException) as caught:
        composed(f"{group}=nope")
    assert all(name in str(caught.value) for name in known(group))

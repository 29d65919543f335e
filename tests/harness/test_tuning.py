from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from evict.errors import InputError
from harness.engines.base import Method, Observer, Request, RequestTrace
from harness.store import read_result
from tests.support.bench import Bench
from tests.support.fake_engine import FakeEngine

FASTEST = 6


@dataclass
class WidthEngine(FakeEngine):
    """A step costs more the further the fixed k lies from FASTEST."""

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        trace = super().generate(request, method, seed, observer)
        k = getattr(method.selection, "k", FASTEST)
        trace.decode_ms *= 1 + abs(k - FASTEST) / 10
        return trace


@pytest.fixture
def tuner(bench: Bench) -> Bench:
    bench.engine = WidthEngine()
    return bench


def test_the_fastest_value_on_calibration_prompts_is_used_and_stored(tuner: Bench) -> None:
    (path,) = tuner.run("method=best_fixed").runs
    result = read_result(path)
    assert result is not None
    assert (result.parameters["selection.k"], result.tuned) == (FASTEST, ["selection.k"])
    stored = json.loads((path / "tuning.json").read_text())
    assert stored["chosen"] == FASTEST
    assert stored["values"][stored["ms_per_token"].index(min(stored["ms_per_token"]))] == FASTEST
    tried = [prompt for prompt, _ in tuner.engine.calls if prompt == "tuning"]
    assert len(tried) == 1 + len(stored["values"])


def test_a_result_is_used_again_until_something_it_depends_on_changes(tuner: Bench) -> None:
    def tried() -> int:
        return sum(prompt == "tuning" for prompt, _ in tuner.engine.calls)

    tuner.run("method=best_fixed")
    first = tried()
    tuner.run("method=best_fixed", "limit=2")
    assert tried() == first
    tuner.run("method=best_fixed", "temperature=1")
    assert tried() == 2 * first
    tuner.engine.device = "another processor"
    tuner.run("method=best_fixed", "seed=0", "max_new_tokens=64")
    assert tried() == 3 * first


def test_tune_never_refuses_and_tune_only_measures_nothing_else(tuner: Bench) -> None:
    with pytest.raises(InputError, match=r"no tuning result.*tune=auto"):
        tuner.run("method=best_fixed", "tune=never")
    outcome = tuner.run("method=best_fixed", "tune=only")
    assert [prompt for prompt, _ in tuner.measured if prompt != "tuning"] == []
    (tuning,) = outcome.tunings
    assert any(f"{FASTEST}" in line and "chosen" in line for line in tuning.text())
    with pytest.raises(InputError, match="anything to tune"):
        tuner.run("method=evict", "tune=only")


def test_a_resumed_run_keeps_the_setting_it_began_with(tuner: Bench) -> None:
    (path,) = tuner.run("method=best_fixed").runs
    (path / "result.json").unlink()
    tuner.run("method=best_fixed")
    result = read_result(path)
    assert result is not None
    assert result.parameters["selection.k"] == FASTEST


def test_prompts_that_end_at_their_first_token_say_nothing_about_speed(tuner: Bench) -> None:
    class Silent(WidthEngine):
        def generate(
            self, request: Request, method: Method, seed: int, observer: Observer | None = None
        ) -> RequestTrace:
            trace = super().generate(request, method, seed, observer)
            if request.prompt_id == "tuning":
                trace.steps, trace.decode_ms = [], 0.0
            return trace

    tuner.engine = Silent()
    with pytest.raises(InputError, match="no calibration prompt gave a decode token"):
        tuner.run("method=best_fixed")

"""Case 24: the second turn of a question is asked, after the right history."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from omegaconf import OmegaConf

from harness.engines.base import Method, Observer, Request, RequestTrace
from harness.stats import Pair, speedup
from tests.support.bench import Bench, only, rows, write_jsonl
from tests.support.fake_engine import FakeEngine

BOTH = ("method=evict", "compare=[vanilla]")
Compared = Callable[[], dict[str, dict[str, Any]]]


@dataclass
class OneAnswer(FakeEngine):
    """Every method writes the same text, as lossless methods do."""

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        found = super().generate(request, method, seed, observer)
        found.text = f"answer to {request.prompt_id}"
        return found


@dataclass
class OwnAnswers(FakeEngine):
    """A method's text is its own, so the second turns of two methods differ."""

    def generate(
        self, request: Request, method: Method, seed: int, observer: Observer | None = None
    ) -> RequestTrace:
        found = super().generate(request, method, seed, observer)
        found.text = f"{method.name} says so"
        return found


@pytest.fixture
def turns(bench: Bench) -> Bench:
    bench.questions = [["first?", "second?"], ["third?", "fourth?"]]
    bench.engine = OneAnswer()
    return bench


@pytest.fixture
def answered(turns: Bench) -> str:
    """The same questions with a reference answer for each turn."""
    path = write_jsonl(
        turns.folder / "answered.jsonl",
        [
            {"turns": ["first?", "second?"], "reference": ["one", "two"]},
            {"turns": ["third?", "fourth?"], "reference": ["three", "four"]},
        ],
    )
    return f"benchmark.path={path}"


def test_case_24_two_questions_of_two_turns_are_four_generations(turns: Bench) -> None:
    """Careless: the first turn only, or the second asked without the answer before it."""
    path = only(turns, "method=vanilla")
    assert [(row["prompt_id"], row["turn"]) for row in rows(path)] == [
        ("gsm8k-0", 0),
        ("gsm8k-0", 1),
        ("gsm8k-1", 0),
        ("gsm8k-1", 1),
    ]
    prompts = turns.engine.prompts[-4:]
    assert prompts == [
        "<user>first?",
        "<user>first?<assistant>answer to gsm8k-0<user>second?",
        "<user>third?",
        "<user>third?<assistant>answer to gsm8k-1<user>fourth?",
    ]


@pytest.mark.parametrize("policy", ["own", "reference"])
def test_case_24_the_run_records_whose_answers_its_turns_saw(
    turns: Bench, answered: str, policy: str
) -> None:
    """Careless: two policies of history give runs that nobody can tell apart."""
    (path,) = (outcome := turns.run("method=vanilla", answered, f"history={policy}")).runs
    assert OmegaConf.load(path / "config.yaml")["history"] == policy
    assert outcome.results[path].history == policy
    other = turns.run("method=vanilla", answered, "history=own")
    assert (other.runs == [path]) == (policy == "own")


def test_case_24_reference_answers_make_every_turn_a_pair(
    turns: Bench, answered: str, compared: Compared
) -> None:
    """Careless: a recorded policy that feeds the method's own answers all the same."""
    turns.engine = OwnAnswers()
    turns.run(*BOTH, answered, "history=reference")
    asked = [prompt for prompt in turns.engine.prompts if "second?" in prompt]
    assert asked == ["<user>first?<assistant>one<user>second?"] * 2
    row = compared()["evict"]
    assert (row["requests"], row["vs_plain_prompts"], row["vs_plain_excluded"]) == (4, 2, 0)


def test_case_24_turns_after_different_histories_are_not_paired(
    turns: Bench, compared: Compared
) -> None:
    """Careless: a second turn is paired by its number, whatever was said before it."""
    turns.engine = OwnAnswers()
    outcome = turns.run(*BOTH)
    first, second = ([row["input_hash"] for row in rows(path)] for path in outcome.runs)
    assert [one == other for one, other in zip(first, second, strict=True)] == [True, False] * 2
    row = compared()["evict"]
    assert row["vs_plain_prompts"] == 2
    assert row["vs_plain_excluded"] == 4
    assert row["vs_plain"] == pytest.approx(10 / 6)


def test_case_24_both_turns_of_a_question_are_one_cluster(turns: Bench, compared: Compared) -> None:
    """Careless: four independent points from two questions, an interval too narrow."""
    turns.run(*BOTH)
    row = compared()["evict"]
    assert row["requests"] == 4
    assert (row["vs_plain_prompts"], row["vs_plain_excluded"]) == (2, 0)
    pairs = [Pair("a", 1.0, 1, 2.0, 1), Pair("a", 1.0, 1, 8.0, 1), Pair("b", 1.0, 1, 4.0, 1)]
    found = speedup(pairs)
    assert (found.clusters, found.ratio) == (2, pytest.approx(4.0))

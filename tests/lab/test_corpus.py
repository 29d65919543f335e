"""The corpus is deterministic, split by construction, and its answers follow from its prompts."""

from __future__ import annotations

import ast
import re
from collections import Counter
from itertools import islice

import pytest

from harness.lab.corpus import FAMILIES, Dialogue, dialogues, fingerprint, keyed, mixture
from harness.lab.corpus.lexicon import FIRST, MONTHS, PLACES, SURNAMES

DRAWS = 1500
NAMES = {*FIRST, *SURNAMES, *PLACES, *MONTHS}
WORDS = {
    "alpaca": (36, 110), "gsm8k": (30, 110), "humaneval": (18, 70), "qa": (34, 90),
    "mt_bench": (40, 100), "cnn_dm": (42, 90),
}  # fmt: skip


def _answers(family: str, count: int) -> list[tuple[str, str]]:
    return [turn for d in islice(dialogues(family, "heldout", 5), count) for turn in d.turns]


def _first(family: str, split: str, seed: int, count: int = 50) -> list[Dialogue]:
    return list(islice(dialogues(family, split, seed), count))


@pytest.mark.parametrize("family", FAMILIES)
def test_same_seed_gives_the_same_text_and_another_seed_does_not(family: str) -> None:
    prints = [fingerprint(_first(family, "train", seed)) for seed in (3, 3, 4)]
    assert prints[0] == prints[1] != prints[2]


@pytest.mark.parametrize("family", FAMILIES)
def test_splits_share_no_key_and_no_prompt(family: str) -> None:
    train, held = (list(islice(keyed(family, s, 1), DRAWS)) for s in ("train", "heldout"))
    assert not {key for key, _ in train} & {key for key, _ in held}
    assert not {d.turns[0][0] for _, d in train} & {d.turns[0][0] for _, d in held}
    assert len({d.turns[0][0] for _, d in train}) > 0.9 * DRAWS


@pytest.mark.parametrize("family", FAMILIES)
def test_answers_stay_within_length_and_do_not_repeat(family: str) -> None:
    low, high = WORDS[family]
    repeated = 0
    pairs = _answers(family, 300)
    for _, answer in pairs:
        words = answer.split()
        assert low <= len(words) <= high
        most = max(Counter(zip(*(words[i:] for i in range(8)), strict=False)).values())
        assert most < 3
        repeated += most == 2
    assert repeated < 0.05 * len(pairs)


def test_equations_and_final_number_of_word_problems_are_right() -> None:
    for _, answer in _answers("gsm8k", 300):
        equations = re.findall(r"(\d+) ([-+*]) (\d+) = (\d+)", answer)
        assert len(equations) >= 3
        for left, operator, right, result in equations:
            value = {"+": int(left) + int(right), "-": int(left) - int(right)}
            assert value.get(operator, int(left) * int(right)) == int(result)
        assert answer.rsplit("#### ", 1)[1] == equations[-1][3]
        assert all(int(row[3]) < 200 for row in equations)


def test_completed_functions_parse_and_pass_their_own_check() -> None:
    for prompt, answer in _answers("humaneval", 300):
        code = prompt[prompt.index("def ") :] + answer
        functions = [n for n in ast.parse(code).body if isinstance(n, ast.FunctionDef)]
        assert len(functions) == 2
        scope: dict[str, object] = {}
        exec(f"{code}\n{functions[1].name}()", scope)


def test_names_and_numbers_of_summaries_stand_in_the_article() -> None:
    for prompt, answer in _answers("cnn_dm", 300):
        assert set(re.findall(r"\d+", answer)) <= set(re.findall(r"\d+", prompt))
        assert all(name in prompt for name in re.findall(r"[A-Z][a-z]+", answer) if name in NAMES)


def test_facts_do_not_contradict_each_other() -> None:
    answers: dict[tuple[str, str], str] = {}
    for key, d in islice(keyed("qa", "train", 2), DRAWS):
        entity, attribute = key.split("|")[:2]
        first = d.turns[0][1].split(".")[0]
        assert answers.setdefault((entity, attribute), first) == first


def test_mixture_follows_its_weights_and_rejects_unknown_names() -> None:
    drawn = Counter(d.family for d in islice(mixture("train", 7, {"qa": 1, "gsm8k": 3}), 400))
    assert set(drawn) == {"qa", "gsm8k"}
    assert 250 < drawn["gsm8k"] < 350
    with pytest.raises(ValueError, match="unknown"):
        next(dialogues("poetry", "train", 0))
    with pytest.raises(ValueError, match="weights"):
        next(mixture("train", 0, {"poetry": 1.0}))

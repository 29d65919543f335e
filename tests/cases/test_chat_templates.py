"""Case 26: a chat template that is missing, doubles something, or leaves thinking to chance."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from evict.errors import InputError
from harness.config import CONF
from harness.engines.base import Message
from harness.engines.tokenizer import ChatTokenizer
from harness.identity import input_hash
from harness.plan import model_identity
from tests.support.bench import Bench, composed, rows
from tests.support.fake_engine import FakeEngine

TURN = "{{ '<' + m['role'] + '>' + m['content'] + '<end>' }}"
TURNS = "{% for m in messages %}" + TURN + "{% endfor %}"
ASKED = "{% if add_generation_prompt %}<assistant>{% endif %}"
THOUGHT = "{% if enable_thinking is defined and not enable_thinking %}<none>{% endif %}"
BOS = "{{ bos_token }}"
GOOD = BOS + TURNS + ASKED
MARKS = ["<s>", "<unk>", "<user>", "<assistant>", "<end>", "<none>"]
HI: list[Message] = [{"role": "user", "content": "hi"}]
CHAT = [*HI, {"role": "assistant", "content": "hello"}, {"role": "user", "content": "hi"}]
Write = Callable[..., Path]


@pytest.fixture
def checkpoint(tmp_path: Path) -> Write:
    """Writes a toy tokenizer; `adds`: it puts a BOS before every plain text of its own accord."""

    def write(template: str | None, adds: bool = True) -> Path:
        vocab = {word: i for i, word in enumerate([*MARKS, "hi", "hello"])}
        tokenizer = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.add_special_tokens(MARKS)
        if adds:
            tokenizer.post_processor = processors.TemplateProcessing(
                single="<s> $A", special_tokens=[("<s>", 0)]
            )
        tokenizer.save(str(tmp_path / "tokenizer.json"))
        settings = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
        given = {} if template is None else {"chat_template": template}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(settings | given))
        return tmp_path

    return write


def words(ids: list[int]) -> str:
    return " ".join([*MARKS, "hi", "hello"][i] for i in ids)


@dataclass
class ChattingEngine(FakeEngine):
    """The fake engine with a real tokenizer."""

    tokenizer: ChatTokenizer = field(kw_only=True)

    def encode_chat(self, messages: list[Message]) -> list[int]:  # type: ignore[override]
        return self.tokenizer.encode_chat(messages)

    def decode(self, ids: object) -> str:
        return ""


@pytest.mark.parametrize("adds", [True, False])
@pytest.mark.parametrize("template", [GOOD, TURNS + ASKED])
def test_case_26_one_beginning_and_one_generation_prompt(
    checkpoint: Write, template: str, adds: bool
) -> None:
    """Careless: the tokenizer's BOS comes on top of the template's, or no prompt is asked for."""
    ids = ChatTokenizer(checkpoint(template, adds)).encode_chat(HI)
    begins = adds or template == GOOD
    assert words(ids) == ("<s> " if begins else "") + "<user> hi <end> <assistant>"


def test_case_26_a_conversation_begins_once_and_asks_once(checkpoint: Write) -> None:
    found = words(ChatTokenizer(checkpoint(GOOD)).encode_chat(CHAT))
    asked = "<s> <user> hi <end> <assistant> hello <end> <user> hi <end> <assistant>"
    assert found == asked


@pytest.mark.parametrize(
    ("template", "reason"),
    [
        (None, "no chat template"),
        (BOS + GOOD, "more than one beginning-of-text token; seen: 2; allowed: 1"),
        (GOOD + "<assistant>", "generation prompts .*seen: two: .*<assistant><assistant>"),
        (BOS + TURNS, "generation prompts .*seen: none: .*hi<end>"),
        (GOOD + THOUGHT, r"thinking to chance.*null.*try: model\.enable_thinking=false"),
    ],
    ids=["missing", "two BOS", "two prompts", "no prompt", "thinking not told"],
)
def test_case_26_a_template_that_would_spoil_prompts_is_refused(
    checkpoint: Write, template: str | None, reason: str
) -> None:
    """Careless: the prompt goes out as the template happens to make it."""
    with pytest.raises(InputError, match=reason):
        ChatTokenizer(checkpoint(template))


def test_case_26_a_template_whose_answer_follows_directly_needs_no_prompt(
    checkpoint: Write,
) -> None:
    answering = (
        BOS + "{% for m in messages %}{% if m['role'] == 'user' %}<user>{{ m['content'] }}<end>"
        "{% else %}{{ ' ' + m['content'] }}{% endif %}{% endfor %}"
    )
    ids = ChatTokenizer(checkpoint(answering)).encode_chat(HI)
    assert words(ids) == "<s> <user> hi <end>"


@pytest.mark.parametrize(("thinking", "mark"), [(True, ""), (False, " <none>")])
def test_case_26_the_template_is_told_whether_to_think(
    checkpoint: Write, thinking: bool, mark: str
) -> None:
    tokenizer = ChatTokenizer(checkpoint(GOOD + THOUGHT), enable_thinking=thinking)
    assert words(tokenizer.encode_chat(HI)).endswith(f"<assistant>{mark}")


@pytest.mark.parametrize("thinking", [True, False])
def test_case_26_an_option_that_the_template_does_not_know_is_refused(
    checkpoint: Write, thinking: bool
) -> None:
    """Careless: the option is dropped without a word."""
    with pytest.raises(InputError, match=r"knows no enable_thinking; .*; allowed: null"):
        ChatTokenizer(checkpoint(GOOD), enable_thinking=thinking)


def test_case_26_thinking_is_stated_for_every_model_and_tells_runs_apart() -> None:
    """Careless: two runs that thought differently pass for one."""
    for file in (CONF / "model").glob("*.yaml"):
        assert "enable_thinking" in OmegaConf.load(file), file
    hashes = []
    for value in ("null", "true", "false"):
        config, _ = composed(f"model.enable_thinking={value}")
        hashes.append(json.dumps(model_identity(config.model)))
    assert len(set(hashes)) == 3
    assert "enable_thinking" not in hashes[0]


def test_case_26_both_arms_are_asked_with_the_same_ids(checkpoint: Write, bench: Bench) -> None:
    """Careless: an arm's prompts are made by other means."""
    tokenizer = ChatTokenizer(checkpoint(GOOD))
    bench.engine = ChattingEngine(tokenizer=tokenizer)
    bench.questions = [["hi"], ["hello hi"]]
    outcome = bench.run("method=evict", "compare=[vanilla]")
    first, second = ([row["input_hash"] for row in rows(path)] for path in outcome.runs)
    asked = [[{"role": "user", "content": text}] for (text,) in bench.questions]
    assert first == second == [input_hash(tokenizer.encode_chat(one)) for one in asked]
    assert OmegaConf.load(outcome.runs[0] / "config.yaml")["model"]["enable_thinking"] is None

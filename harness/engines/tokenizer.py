"""Chat text to ids and back, through the checkpoint's own tokenizer and template."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import takewhile
from pathlib import Path
from typing import Any, Self

from evict.errors import InputError
from harness.engines.base import Message

PROBE: list[Message] = [{"role": "user", "content": "hi"}]
ANSWER = "hello"


class ChatTokenizer:
    """A Hugging Face tokenizer with its chat template, checked once on a short conversation.

    enable_thinking: what the template is told; None for a template without that option. InputError
    for no template, an option it does not know or is not told, and a beginning-of-text token or a
    generation prompt that prompts would hold twice or, the latter, not at all.
    """

    def __init__(
        self, folder: Path, trust_remote_code: bool = False, enable_thinking: bool | None = None
    ) -> None:
        from transformers import AutoTokenizer

        self._tokenizer: Any = AutoTokenizer.from_pretrained(
            folder, trust_remote_code=trust_remote_code
        )
        self._tokenizer.model_max_length = int(1e9)  # the engine checks lengths, with a reason
        if not self._tokenizer.chat_template:
            raise InputError(
                "the checkpoint's tokenizer has no chat template",
                seen=folder.name,
                allowed="a chat_template in tokenizer_config.json",
            )
        self._options = {} if enable_thinking is None else {"enable_thinking": enable_thinking}
        self._check_thinking(enable_thinking)
        self._check_generation_prompt()
        self._begin = self._missing_bos()
        eos = self._tokenizer.eos_token_id
        self.eos_ids: tuple[int, ...] = () if eos is None else (int(eos),)

    @classmethod
    def of(cls, model: Mapping[str, Any], folder: Path) -> Self:
        """A model's tokenizer in `folder`, told what the model's settings say."""
        trust = bool(model.get("trust_remote_code"))
        return cls(folder, trust, model.get("enable_thinking"))

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the templated conversation, one generation prompt included.

        One beginning-of-text token where the template or the tokenizer asks for it, else none.
        """
        return [*self._begin, *self._plain_ids(self._text(messages))]

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

    def _text(self, messages: Sequence[Message], prompt: bool = True, **options: Any) -> str:
        text: str = self._tokenizer.apply_chat_template(
            list(messages),
            tokenize=False,
            add_generation_prompt=prompt,
            **{**self._options, **options},
        )
        return text

    def _plain_ids(self, text: str) -> list[int]:
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def _check_thinking(self, told: bool | None) -> None:
        on, off = (self._text(PROBE, enable_thinking=value) for value in (True, False))
        if on != off and told is None:
            raise InputError(
                "the chat template leaves thinking to chance",
                seen="model.enable_thinking=null",
                allowed="true, false",
                hint="model.enable_thinking=false",
            )
        if on == off and told is not None:
            raise InputError(
                "the chat template knows no enable_thinking",
                seen=f"model.enable_thinking={str(told).lower()}",
                allowed="null",
                hint="model.enable_thinking=null",
            )

    def _check_generation_prompt(self) -> None:
        """The option adds one; where it adds nothing, an answer must follow the prompt as it is."""
        asked, bare = self._text(PROBE), self._text(PROBE, prompt=False)
        added = asked.removeprefix(bare)
        twice = bool(added) and bare.endswith(added)
        if twice or not (added or self._answer_follows(asked)):
            raise InputError(
                "generation prompts after a user's turn, by the chat template",
                seen=f"two: {asked!r}" if twice else f"none: {asked!r}",
                allowed="one",
                hint="a template that adds it for add_generation_prompt only",
            )

    def _answer_follows(self, prompt: str) -> bool:
        answered = self._text([*PROBE, {"role": "assistant", "content": ANSWER}], prompt=False)
        rest = answered.removeprefix(prompt)
        return rest != answered and rest.lstrip().startswith(ANSWER)

    def _missing_bos(self) -> list[int]:
        """The beginning-of-text token if the tokenizer asks for it and the template lacks it."""
        bos = self._tokenizer.bos_token_id
        if bos is None:
            return []
        leading = list(takewhile(lambda one: one == bos, self._plain_ids(self._text(PROBE))))
        if len(leading) > 1:
            raise InputError(
                "the chat template begins with more than one beginning-of-text token",
                seen=len(leading),
                allowed=1,
            )
        wanted = self._tokenizer.encode("hi")[:1] == [bos]
        return [bos] if wanted and not leading else []

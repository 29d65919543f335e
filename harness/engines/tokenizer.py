"""Chat text to ids and back, through the checkpoint's own tokenizer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from evict.errors import InputError
from harness.engines.base import Message


class ChatTokenizer:
    """A Hugging Face tokenizer with its chat template; thinking is switched off explicitly."""

    def __init__(self, folder: Path, trust_remote_code: bool = False) -> None:
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
        eos = self._tokenizer.eos_token_id
        self.eos_ids: tuple[int, ...] = () if eos is None else (int(eos),)

    def encode_chat(self, messages: Sequence[Message]) -> list[int]:
        """Ids of the templated conversation, generation prompt included, one BOS at most."""
        text = self._tokenizer.apply_chat_template(
            list(messages), tokenize=False, add_generation_prompt=True, enable_thinking=False
        )
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False)
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        """Text without special tokens."""
        text: str = self._tokenizer.decode(list(ids), skip_special_tokens=True)
        return text

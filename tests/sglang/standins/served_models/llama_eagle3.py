"""The EAGLE-3 head's class, SGLang's own."""

from sglang.srt.models.llama_eagle3 import EntryClass

__all__ = ["EntryClass"]

"""The target's class, SGLang's own."""

from sglang.srt.models.qwen3_moe import EntryClass

__all__ = ["EntryClass"]

"""Prompts that are too long for the context: refused, or cut by an explicit rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from evict.errors import InputError
from harness.engines.base import Message

Encode = Callable[[Sequence[Message]], list[int]]
Cut = Callable[[str, int], str]


def _head(text: str, keep: int) -> str:
    return text[:keep]


def _ends(text: str, keep: int) -> str:
    head = (keep + 1) // 2
    return text[:head] + text[len(text) - (keep - head) :]


CUTS: dict[str, Cut] = {"tail": _head, "middle": _ends}


def fit(
    encode: Encode, messages: Sequence[Message], limit: int, rule: str, prompt_id: str
) -> tuple[list[int], int]:
    """Token ids of the chat, at most `limit` of them, and how many tokens were dropped.

    `rule` "error" refuses; "tail" drops the end and "middle" the middle of the last user text.
    """
    ids = encode(messages)
    if len(ids) <= limit:
        return ids, 0
    if rule == "error":
        raise InputError(
            f"prompt {prompt_id} is too long",
            seen=f"{len(ids)} tokens",
            allowed=f"<= {limit} (context minus max_new_tokens)",
            hint="truncate=tail, truncate=middle, or a smaller max_new_tokens",
        )
    shorter = _longest(encode, messages, limit, CUTS[rule])
    if shorter is None:
        raise InputError(
            f"prompt {prompt_id} is too long even without its last user text",
            seen=f"{len(ids)} tokens",
            allowed=f"<= {limit}",
        )
    return shorter, len(ids) - len(shorter)


def _longest(encode: Encode, messages: Sequence[Message], limit: int, cut: Cut) -> list[int] | None:
    """Bisect the number of characters kept; None when not even one fits."""
    *before, last = messages
    low, high, best = 1, len(last["content"]), None
    while low <= high:
        keep = (low + high) // 2
        ids = encode([*before, {**last, "content": cut(last["content"], keep)}])
        if len(ids) <= limit:
            best, low = ids, keep + 1
        else:
            high = keep - 1
    return best

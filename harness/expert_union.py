"""Bounds and the reference line of an expert union: distinct experts of one layer in a step."""

from __future__ import annotations

from evict.errors import InputError

ROUNDING = 1e-6


def uniform_union(experts: int, top_k: int, tokens: int) -> float:
    """Expected union when `tokens` tokens choose top_k of `experts` uniformly and independently.

    E * (1 - (1 - k/E)^n) (EVICT, appendix A); measured routing overlaps more.
    """
    _check_layer(experts, top_k, tokens)
    return experts * (1.0 - (1.0 - top_k / experts) ** tokens)


def check_union(union: float, experts: int, top_k: int, tokens: int) -> str | None:
    """What is wrong with a union of `tokens` tokens, a count or a mean over layers; None if fine.

    top_k <= union <= min(experts, top_k * tokens): one token alone activates top_k, and no more
    than all can be active.
    """
    _check_layer(experts, top_k, tokens)
    highest = min(experts, top_k * tokens)
    if top_k - ROUNDING <= union <= highest + ROUNDING:
        return None
    return (
        f"expert union {union:g} outside {top_k}..{highest} "
        f"({tokens} tokens, top {top_k} of {experts}); padded tokens counted?"
    )


def _check_layer(experts: int, top_k: int, tokens: int) -> None:
    if not 1 <= top_k <= experts or tokens < 1:
        raise InputError(
            "no such expert layer",
            seen=f"top {top_k} of {experts}, {tokens} tokens",
            allowed="1 <= top_k <= experts, tokens >= 1",
        )

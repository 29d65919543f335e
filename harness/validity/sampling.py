"""Whether a sampler drew, or only took the likeliest token although it was told to draw."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from harness.validity.limits import LIMITS
from harness.validity.verdict import Reason
from harness.validity.view import RunView


def looks_greedy(outputs_S: Sequence[Sequence[int]], temperature: float) -> str | None:
    """A warning when one prompt under several seeds gives the same ids though it should vary.

    outputs_S: ids per seed. None at temperature 0, for fewer than 5 seeds or under 64 tokens.
    """
    if temperature == 0.0 or len(outputs_S) < LIMITS.greedy_repeats:
        return None
    first = list(outputs_S[0])
    if len(first) < LIMITS.greedy_tokens or any(list(other) != first for other in outputs_S):
        return None
    return f"sampling looks greedy: {len(outputs_S)} seeds, one output of {len(first)} tokens"


def always_greedy(view: RunView) -> Iterable[Reason]:
    """Every prompt that was repeated often enough, with answers long enough, looks greedy."""
    if view.result.repeats < LIMITS.greedy_repeats:
        return
    judged = [outputs for outputs in _repeated(view) if _tells(outputs)]
    found = [looks_greedy(outputs, view.result.temperature) for outputs in judged]
    if judged and all(found):
        text = f"{found[0]}, for all {len(judged)} prompts that tell; check top_k and the seeds"
        yield Reason("looks_greedy", text)


def _repeated(view: RunView) -> Iterable[list[list[int]]]:
    groups: dict[tuple[str, ...], list[list[int]]] = {}
    names = ("prompt_id", "turn", "input_hash", "output_ids")
    for *key, ids in zip(*(view.of_good(name) for name in names), strict=True):
        groups.setdefault(tuple(map(str, key)), []).append(ids)
    return groups.values()


def _tells(outputs_S: Sequence[Sequence[int]]) -> bool:
    enough = len(outputs_S) >= LIMITS.greedy_repeats
    return enough and max(map(len, outputs_S)) >= LIMITS.greedy_tokens

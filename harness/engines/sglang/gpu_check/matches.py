"""Points on outputs: whether two arms give the same tokens, and where they part."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from harness.engines.sglang.gpu_check.arms import FULL, POLICY, Arms
from harness.engines.sglang.reply import Reply
from harness.equality import compare_outputs

SHOWN = 3
Prompts = Sequence[Sequence[int]]
Outputs = Callable[[], Sequence[Reply]]


def full_equals_stock(arms: Arms, prompts: Prompts, tokens: int, stock: Outputs) -> dict[str, Any]:
    """The whole tree verified by the plugin against SGLang's EAGLE-3, prompt by prompt."""
    reference = stock()
    return {
        "arms": ["EAGLE3", "EVICT full"],
        **match([one.ids for one in reference], by_policy(arms, FULL, prompts, tokens)),
        "worker": regime(arms),
    }


def match_by_width(
    arms: Arms, prompts: Prompts, tokens: int, widths: Sequence[int], plain: Outputs
) -> dict[str, Any]:
    """Every forced k against plain decoding, and how the server itself differs on a repetition."""
    reference = [one.ids for one in plain()]
    rows = []
    for k in widths:
        outputs = by_policy(arms, {"name": "fixed_k", "k": k}, prompts, tokens)
        rows.append({"k": k, **match(reference, outputs)})
    again = by_policy(arms, {"name": "fixed_k", "k": widths[-1]}, prompts, tokens)
    return {
        "arms": ["plain", "EVICT fixed_k"],
        "by_width": rows,
        "repeated": {"k": widths[-1], **match(outputs, again)},
        "worker": regime(arms),
    }


def by_policy(
    arms: Arms, policy: dict[str, Any], prompts: Prompts, tokens: int
) -> list[tuple[int, ...]]:
    """Output ids of the EVICT server under a policy."""
    running = arms.follow(policy)
    return [arms.generate(running, prompt, tokens).ids for prompt in prompts]


def regime(arms: Arms) -> dict[str, Any]:
    """What the EVICT worker says it ran with: facts, and steps by replay and by launch."""
    running = arms.get(POLICY)
    running.client.flush_cache()
    state = (running.session.state() if running.session else None) or {}
    return {name: state.get(name) for name in ("resolved", "graph_steps", "eager_steps")}


def match(reference: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]) -> dict[str, Any]:
    """How far outputs agree with a reference of the same prompts.

    token_rate: tokens before the first difference, over all of the reference's; after one, outputs
    go on from another text. first_divergences: index per prompt, None where equal.
    """
    at = [
        compare_outputs(one, other, "length", "length").first_divergence
        for one, other in zip(reference, outputs, strict=True)
    ]
    agreed = [len(one) if d is None else d for one, d in zip(reference, at, strict=True)]
    return {
        "outputs": len(at),
        "equal": at.count(None),
        "token_rate": sum(agreed) / sum(len(one) for one in reference),
        "first_divergences": at,
        "differences": [
            {
                "prompt": i,
                "at": d,
                "reference": _from(reference[i], d),
                "seen": _from(outputs[i], d),
            }
            for i, d in enumerate(at)
            if d is not None
        ],
    }


def _from(ids: Sequence[int], at: int) -> list[int]:
    return list(ids[at : at + SHOWN])

"""Whether what was measured is what was meant: prompts not met before, outputs that are right."""

from __future__ import annotations

from collections.abc import Iterable

from harness.validity.verdict import Reason
from harness.validity.view import RunView


def warmup_prompt_measured(view: RunView) -> Iterable[Reason]:
    """A warm-up prompt is measured as well: it met a warm machine, its trie, its cache."""
    warm = {str(prompt) for one in view.result.warmup for prompt in one.get("prompts", ())}
    both = sorted(warm & set(map(str, view.requests["input_hash"])) - {""})
    if both:
        text = f"{len(both)} warm-up prompts are measured as well, the first {both[0]}"
        yield Reason("warmup_prompt_measured", f"{text}; change calibration=")


def outputs_differ(view: RunView) -> Iterable[Reason]:
    """Greedy outputs that differ from plain decoding's, and no near-tie or stop rule excuses it."""
    outputs = view.result.outputs or {}
    faults = int(outputs.get("counts", {}).get("fault", 0))
    if not faults:
        return
    wrong = [one for one in outputs.get("differences", ()) if one.get("kind") == "fault"]
    text = f"{faults} of {outputs.get('pairs', '?')} greedy outputs differ from plain decoding's"
    if wrong:
        at = wrong[0]
        text += (
            f", the first at token {at.get('first_divergence')} of {at.get('prompt_id')} "
            f"(log-probability gap {at.get('gap')})"
        )
    yield Reason("outputs_differ", text)

"""Every threshold of a verdict in one place: its unit in its name, and where it comes from."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Beyond these a number is in doubt.

    busy_samples, busy_share: a median over fewer samples, or over a GPU that idles half of the
    time, says nothing of its clocks (10 samples and a share of 0.3 are public examples of both).
    clocks_share: GPU clocks of two arms, as a share of the higher one; a warm GPU wanders by 1-2 %,
    public faults lie at 20 % (1965 and 1580 MHz).
    others_cores_share: cores that other processes keep busy; a tenth of a small machine is one
    background job.
    greedy_repeats, greedy_tokens: so many equal samples of so many tokens do not happen by chance
    at a temperature above 0 (SpecForge 741: five seeds, 64 tokens).
    mat_near_one_tokens_per_step, mat_steps: a drafter whose vocabulary map or template is wrong
    commits just the target's own token (EAGLE 222); below 200 steps that may be the prompts.
    mat_verified_nodes: fewer nodes per step, root included, leave nothing to accept.
    union_rounding_experts: means over layers are stored in single precision.
    named_keys, named_texts: how much of a long list a reason spells out.
    """

    busy_samples: int = 20
    busy_share: float = 0.5
    clocks_share: float = 0.03
    others_cores_share: float = 0.10
    greedy_repeats: int = 5
    greedy_tokens: int = 64
    mat_near_one_tokens_per_step: float = 1.05
    mat_steps: int = 200
    mat_verified_nodes: float = 2.0
    union_rounding_experts: float = 1e-3
    named_keys: int = 5
    named_texts: int = 2


LIMITS = Limits()

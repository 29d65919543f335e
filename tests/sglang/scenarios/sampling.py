"""Is what a session samples distributed as the checkpoint's own probabilities say?

Every sampled token is turned into its place in the exact distribution it should come from (given
by transformers for the tokens before it): a number that is uniform on [0, 1) and independent of all
others exactly when the sampling is right.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tests.sglang.scheduler import InProcess

if TYPE_CHECKING:
    import torch

BINS = 20


def sampling_p_value(
    session: InProcess, target: str, prompts: Sequence[Sequence[int]], length: int
) -> float:
    """p-value of a chi-square test on temperature 1, length tokens after each prompt."""
    from scipy.stats import chisquare

    outputs = session.generate(prompts, length, temperature=1.0)
    places = exact_places(target, prompts, outputs)
    counts = [0] * BINS
    for place in places:
        counts[min(int(place * BINS), BINS - 1)] += 1
    return float(chisquare(counts).pvalue)


def exact_places(
    target: str, prompts: Sequence[Sequence[int]], outputs: Sequence[Sequence[int]]
) -> list[float]:
    """Mass of all likelier tokens plus a random share of the token's own, for each output token."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(target, dtype=torch.float32).eval()
    share, places = random.Random(0), []
    for prompt, output in zip(prompts, outputs, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *output]])).logits[0]
        probs = logits[len(prompt) - 1 : -1].double().softmax(-1)
        own = probs.gather(1, torch.tensor(output)[:, None])
        likelier = torch.where(probs > own, probs, 0.0).sum(1)
        pairs = zip(likelier.tolist(), own[:, 0].tolist(), strict=True)
        places += [mass + share.random() * chance for mass, chance in pairs]
    return places


def tree_law(seeds: Sequence[int]) -> dict[str, list[float]]:
    """p-values, by seed, of the tokens that sampling one small tree many times gives.

    Below the root (slot 0) hang slots 1 and 2, below slot 1 hang 3 and 4; random probabilities over
    five tokens. first: law of the first token against the root's; second: law of what follows an
    accepted slot 1 against that slot's own.
    """
    import torch
    from scipy.stats import chisquare

    first: list[float] = []
    second: list[float] = []
    for seed in seeds:
        generator = torch.Generator().manual_seed(seed)
        target_nV = (torch.randn(5, 5, generator=generator) * 1.5).softmax(-1)
        drafts = [0, *torch.randperm(5, generator=generator)[:2].tolist(), 3, 1]
        tokens = _sampled_many(target_nV, drafts, generator)
        after = [pair[1] for pair in tokens if pair[0] == drafts[1]]
        for values, found, slot in ((first, [pair[0] for pair in tokens], 0), (second, after, 1)):
            counts = [found.count(token) for token in range(5)]
            expected = target_nV[slot].double() / target_nV[slot].double().sum() * len(found)
            values.append(float(chisquare(counts, expected.numpy()).pvalue))
    return {"first": first, "second": second}


def _sampled_many(
    target_nV: torch.Tensor, drafts: list[int], generator: torch.Generator, runs: int = 4000
) -> list[list[int]]:
    """The first tokens of every run: accepted drafts and the bonus."""
    import torch

    from tests.sglang.sampling import sample_tree

    predicts = torch.zeros(runs * 5, dtype=torch.int32)
    accepted = torch.full((runs, 3), -1, dtype=torch.int32)
    count = torch.zeros(runs, dtype=torch.int32)
    target = target_nV.repeat(runs, 1, 1)
    child, sibling = torch.tensor([[1, 3, -1, -1, -1], [-1, 2, -1, 4, -1]]).unbind()
    sample_tree(
        predicts,
        accepted,
        count,
        torch.tensor(drafts).repeat(runs, 1),
        torch.arange(runs * 5).view(runs, 5),
        child.repeat(runs, 1),
        sibling.repeat(runs, 1),
        torch.rand(runs, 5, generator=generator),
        torch.rand(runs, generator=generator),
        target,
        torch.zeros_like(target),
    )
    rows = zip(accepted.tolist(), count.tolist(), strict=True)
    return [[int(predicts[slot]) for slot in path[: kept + 1]] for path, kept in rows]

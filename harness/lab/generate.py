"""The target's own answers to training prompts, decoded in batches of equal prompt length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor

from harness.lab.corpus import Dialogue, dialogues
from harness.lab.rows import Row, to_row
from harness.lab.target import LabTarget

END = 2


def own_rows(
    model: LabTarget,
    tokenizer: Tokenizer,
    weights: Mapping[str, float],
    count: int,
    seed: int,
    max_new_tokens: int = 160,
    group: int = 24,
) -> list[Row]:
    """About `count` rows whose last answer is the target's, families in proportion to `weights`.

    Half are greedy, half sampled at temperature 1. Prompts are those of the most frequent prompt
    lengths of a pool, so that no batch needs padding.
    """
    generator = torch.Generator().manual_seed(seed)
    rows: list[Row] = []
    for family in sorted(weights):
        quota = round(count * weights[family] / sum(weights.values()))
        for number, prompts in enumerate(_equal_lengths(tokenizer, family, seed, quota, group)):
            ids = torch.tensor(prompts)
            temperature = float(number % 2)
            answers = _generate(model, ids, max_new_tokens, temperature, generator)
            for prompt, answer in zip(prompts, answers, strict=True):
                mask = [False] * len(prompt) + [True] * len(answer)
                rows.append(Row(prompt + answer, mask, family))
    return rows


def prompt_ids(dialogue: Dialogue, tokenizer: Tokenizer) -> list[int]:
    """Ids up to the last answer, generation prompt included."""
    row = to_row(dialogue, tokenizer)
    last = len(row.ids) - row.answer[::-1].index(True)
    while last and row.answer[last - 1]:
        last -= 1
    return row.ids[:last]


def _equal_lengths(
    tokenizer: Tokenizer, family: str, seed: int, quota: int, group: int, pool: int = 1500
) -> Iterator[list[list[int]]]:
    """Groups of prompts of one length, fullest first, until `quota` prompts were given."""
    by_length: dict[int, list[list[int]]] = defaultdict(list)
    for dialogue in islice(dialogues(family, "train", seed), pool):
        prompt = prompt_ids(dialogue, tokenizer)
        by_length[len(prompt)].append(prompt)
    groups = [
        prompts[i : i + group]
        for _, prompts in sorted(by_length.items())
        for i in range(0, len(prompts), group)
    ]
    for prompts in sorted(groups, key=len, reverse=True):
        if quota <= 0:
            return
        yield prompts[:quota]
        quota -= len(prompts)


@torch.inference_mode()
def _generate(
    model: LabTarget, ids_BT: Tensor, limit: int, temperature: float, generator: torch.Generator
) -> list[list[int]]:
    past = [[torch.empty(0), torch.empty(0)] for _ in model.layers]
    answers: list[list[int]] = [[] for _ in ids_BT]
    done = torch.zeros(len(ids_BT), dtype=torch.bool)
    current = ids_BT
    for _ in range(limit):
        logits_BV = model(current, None, past).logits_BTV[:, -1]
        if temperature == 0.0:
            token_B = logits_BV.argmax(-1)
        else:
            probs = (logits_BV / temperature).softmax(-1)
            token_B = torch.multinomial(probs, 1, generator=generator).squeeze(1)
        for row, token in enumerate(token_B.tolist()):
            if not done[row]:
                answers[row].append(token)
        done |= token_B == END
        if bool(done.all()):
            break
        current = token_B.unsqueeze(1)
    return answers

"""The target's own answers to training prompts, decoded in batches of equal prompt length."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import islice

import torch
from tokenizers import Tokenizer
from torch import Tensor

from harness.lab.corpus import Dialogue
from harness.lab.rows import Row, to_row
from harness.lab.target import LabTarget

END = 2


def own_rows(
    model: LabTarget,
    tokenizer: Tokenizer,
    source: Iterator[Dialogue],
    count: int,
    seed: int,
    max_new_tokens: int = 160,
    group: int = 24,
    pool: int = 9000,
) -> list[Row]:
    """`count` rows whose last answer is the target's: half greedy, half sampled at temperature 1.

    Prompts come from the pool's most frequent prompt lengths, so that no batch needs padding.
    """
    by_length: dict[int, list[tuple[list[int], str]]] = defaultdict(list)
    for dialogue in islice(source, pool):
        prompt = prompt_ids(dialogue, tokenizer)
        by_length[len(prompt)].append((prompt, dialogue.family))
    generator = torch.Generator().manual_seed(seed)
    rows: list[Row] = []
    for prompts in _spread(by_length, count, group):
        temperature = 0.0 if len(rows) % (2 * group) < group else 1.0
        ids = torch.tensor([prompt for prompt, _ in prompts])
        answers = _generate(model, ids, max_new_tokens, temperature, generator)
        for (prompt, family), answer in zip(prompts, answers, strict=True):
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


def _spread(
    by_length: dict[int, list[tuple[list[int], str]]], count: int, group: int
) -> Iterator[list[tuple[list[int], str]]]:
    """Full groups of one family and one length, families taking turns, until `count` rows."""
    families: dict[str, list[list[tuple[list[int], str]]]] = defaultdict(list)
    for length in sorted(by_length):
        split: dict[str, list[tuple[list[int], str]]] = defaultdict(list)
        for prompt in by_length[length]:
            split[prompt[1]].append(prompt)
        for family, prompts in split.items():
            families[family] += [prompts[i : i + group] for i in range(0, len(prompts), group)]
    for groups in families.values():
        groups.sort(key=len)
    drawn = 0
    while drawn < count and any(families.values()):
        for family in sorted(families):
            if families[family] and drawn < count:
                chosen = families[family].pop()
                drawn += len(chosen)
                yield chosen


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

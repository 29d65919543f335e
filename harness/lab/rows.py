"""Training rows: one dialogue a row, a weight per token, batches of similar length."""

from __future__ import annotations

import random
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer
from torch import Tensor

from harness.lab.corpus import Dialogue


@dataclass(frozen=True)
class Row:
    """One dialogue as token ids; `answer[i]` says whether token i was written by the assistant."""

    ids: list[int]
    answer: list[bool]
    family: str


@dataclass(frozen=True)
class Batch:
    """Right-padded rows: ids_BT int64, answer_BT bool (False on padding), real_BT bool."""

    ids_BT: Tensor
    answer_BT: Tensor
    real_BT: Tensor
    families: tuple[str, ...]


def to_row(dialogue: Dialogue, tokenizer: Tokenizer) -> Row:
    """Render with the chat markup; the assistant's tokens include its closing marker."""
    ids: list[int] = []
    answer: list[bool] = []
    for user, assistant in dialogue.turns:
        asked = f"<|im_start|>user\n{user}<|im_end|>\n<|im_start|>assistant\n"
        for text, is_answer in ((asked, False), (f"{assistant}<|im_end|>", True), ("\n", False)):
            part = tokenizer.encode(text, add_special_tokens=False).ids
            ids += part
            answer += [is_answer] * len(part)
    return Row(ids, answer, dialogue.family)


def mix(own: Sequence[Row], corpus: Iterator[Row], share: float, seed: int) -> Iterator[Row]:
    """Endless rows: `share` of them drawn from `own` (reshuffled each pass), the rest new."""
    rng = random.Random(seed)
    while True:
        order = list(range(len(own)))
        rng.shuffle(order)
        for index in order:
            while rng.random() >= share:
                yield next(corpus)
            yield own[index]


def collate(rows: Sequence[Row]) -> Batch:
    """Pad on the right with id 0."""
    width = max(len(row.ids) for row in rows)
    ids_BT = torch.zeros(len(rows), width, dtype=torch.long)
    answer_BT = torch.zeros(len(rows), width, dtype=torch.bool)
    real_BT = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        ids_BT[i, : len(row.ids)] = torch.tensor(row.ids)
        answer_BT[i, : len(row.ids)] = torch.tensor(row.answer)
        real_BT[i, : len(row.ids)] = True
    return Batch(ids_BT, answer_BT, real_BT, tuple(row.family for row in rows))


def batches(
    rows: Iterable[Row], tokens_per_batch: int, seed: int, pool: int = 768
) -> Iterator[Batch]:
    """Group a pool of rows by length, cut it into batches within the budget, shuffle those.

    `rows` is endless: the row after each full pool is passed over, and the shipped weights were
    trained on exactly that stream.
    """
    rng = random.Random(seed)
    source = iter(rows)
    while True:
        drawn = [row for row, _ in zip(source, range(pool), strict=False)]
        if not drawn:
            return
        drawn.sort(key=lambda row: len(row.ids))
        groups: list[list[Row]] = [[]]
        for row in drawn:
            if len(row.ids) * (len(groups[-1]) + 1) > tokens_per_batch and groups[-1]:
                groups.append([])
            groups[-1].append(row)
        rng.shuffle(groups)
        yield from (collate(group) for group in groups)

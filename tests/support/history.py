"""A retrieval store beside plain lists of the tokens that it was told."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import torch

from evict.lookahead import Retrieval, Store
from evict.tree import DraftTree
from evict.trie import Path

# Prompt, pushes, and whether the request was finished.
Requests = list[tuple[list[int], list[list[int]], bool]]


@dataclass
class History:
    """A store beside plain lists of what it was told."""

    rule: Retrieval
    store: Store
    prompt: list[int] = field(default_factory=list)
    outputs: list[list[int]] = field(default_factory=list)
    context: list[int] = field(default_factory=list)

    def start(self, prompt: list[int]) -> None:
        self.store.start(prompt)
        self.prompt, self.context = list(prompt), list(prompt)
        self.outputs.append([])

    def push(self, tokens: list[int], tail: int) -> None:
        self.store.push(tokens)
        if tokens and not self.outputs[-1]:
            self.outputs[-1] = self.prompt[max(0, len(self.prompt) - tail) :]
        self.outputs[-1] += tokens
        self.context += tokens

    def finish(self) -> None:
        self.store.finish()
        self.prompt, self.context = [], []


def play(rule: Retrieval, requests: Requests) -> History:
    history = History(rule, rule.new_store())
    for prompt, pushes, finished in requests:
        history.start(prompt)
        for tokens in pushes:
            history.push(tokens, getattr(rule, "branch_length", 10**6))
        if finished:
            history.finish()
    return history


def drafted(store: Store) -> dict[Path, float]:
    """Path -> score, after checking what any list of candidates must be."""
    found = store.retrieve()
    tokens, parents, depths, scores = (
        getattr(found, name).tolist()
        for name in ("tokens_M", "parents_M", "depths_M", "log_scores_M")
    )
    assert found.tokens_M.dtype == found.parents_M.dtype == found.depths_M.dtype == torch.int64
    assert found.log_scores_M.dtype == torch.float32
    paths: list[Path] = []
    for index, (token, parent) in enumerate(zip(tokens, parents, strict=True)):
        assert -1 <= parent < index
        paths.append((*(paths[parent] if parent >= 0 else ()), token))
        assert depths[index] == len(paths[-1])
        assert scores[index] <= (scores[parent] if parent >= 0 else 0.0)
    assert len(set(paths)) == len(paths)
    assert DraftTree.build(7, found, len(tokens) + 1).is_closed()
    return dict(zip(paths, (math.exp(score) for score in scores), strict=True))


def occurrences(sequences: list[list[int]], run: Path) -> int:
    size = len(run)
    return sum(
        tuple(sequence[at : at + size]) == run
        for sequence in sequences
        for at in range(len(sequence) - size + 1)
    )

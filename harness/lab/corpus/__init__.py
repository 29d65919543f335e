"""A deterministic chat corpus of six families, with held-out prompts by construction."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterable, Iterator, Mapping

from . import alpaca, cnn_dm, gsm8k, humaneval, mt_bench, qa
from .dialogue import Dialogue
from .stable import number, source

Sampler = Callable[[random.Random], tuple[str, Dialogue]]

SAMPLERS: dict[str, Sampler] = {
    "alpaca": alpaca.sample,
    "gsm8k": gsm8k.sample,
    "humaneval": humaneval.sample,
    "qa": qa.sample,
    "mt_bench": mt_bench.sample,
    "cnn_dm": cnn_dm.sample,
}
FAMILIES: tuple[str, ...] = tuple(SAMPLERS)
SPLITS = ("train", "heldout")


def split_of(family: str, key: str) -> str:
    """The split that a prompt key belongs to: one key in ten is held out."""
    return SPLITS[number(family, key) % 10 == 0]


def keyed(family: str, split: str, seed: int) -> Iterator[tuple[str, Dialogue]]:
    """Endless pairs (key, dialogue) of one family and one split; ValueError for unknown names."""
    if family not in SAMPLERS or split not in SPLITS:
        raise ValueError(
            f"unknown family or split: {family!r}, {split!r}; allowed: {FAMILIES}, {SPLITS}"
        )
    rng, sample = source("corpus", family, split, seed), SAMPLERS[family]
    while True:
        key, dialogue = sample(rng)
        if split_of(family, key) == split:
            yield key, dialogue


def dialogues(family: str, split: str, seed: int) -> Iterator[Dialogue]:
    """Endless dialogues of one family and one split ('train' or 'heldout')."""
    return (dialogue for _, dialogue in keyed(family, split, seed))


def mixture(split: str, seed: int, weights: Mapping[str, float]) -> Iterator[Dialogue]:
    """Endless dialogues whose families are drawn in proportion to `weights`."""
    names = [name for name in FAMILIES if weights.get(name, 0.0) > 0.0]
    unknown = set(weights) - set(FAMILIES)
    if unknown or not names:
        raise ValueError(
            f"weights need known families above 0; seen: {dict(weights)}; allowed: {FAMILIES}"
        )
    streams = {name: dialogues(name, split, seed) for name in names}
    rng, total = source("mixture", split, seed), sum(weights[name] for name in names)
    while True:
        mark = rng.random() * total
        for name in names:
            mark -= weights[name]
            if mark < 0.0:
                break
        yield next(streams[name])


def fingerprint(dialogues: Iterable[Dialogue]) -> str:
    """sha256 over families and texts, in order."""
    digest = hashlib.sha256()
    for dialogue in dialogues:
        for part in (dialogue.family, *(text for turn in dialogue.turns for text in turn)):
            digest.update(part.encode() + b"\x00")
        digest.update(b"\x01")
    return digest.hexdigest()


__all__ = [
    "FAMILIES",
    "SPLITS",
    "Dialogue",
    "dialogues",
    "fingerprint",
    "keyed",
    "mixture",
    "split_of",
]

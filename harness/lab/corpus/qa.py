"""Questions about a small fictional world whose facts never change."""

from __future__ import annotations

import random

from .dialogue import Dialogue
from .grammar import articles
from .lexicon import AUDIENCES, FIRST, PLACES
from .stable import number, pick
from .world import ENTITIES, KINDS, facts

_PREFACES = (
    "I am reading about {e} at the moment.", "My friend {n} from {p} often talks about {e}.",
    "We had a quiz in {p} and one question was about {e}.", "{n} is preparing a talk about {e}.",
    "For a school project in {p} I study {e}.", "Here is a question from {n} about {e}.",
    "I forgot some facts about {e}, please help me.", "{n} and I had an argument about {e} in {p}.",
)  # fmt: skip
_REQUESTS = (
    "Answer in a few full sentences.", "Please add some background.", "Give the answer and then more facts.",
    "Start with the answer and go on with related facts.", "Write it for {a}.",
    "Explain it to {a} in full sentences.",
)  # fmt: skip


def order(kind: str, attribute: str, style: int) -> list[str]:
    """The attributes told in an answer: the asked one first, then five or six others."""
    names = list(KINDS[kind].attributes)
    first, step = names.index(attribute), (1, 2, 4)[style % 3]
    size = 6 + number(kind, attribute) % 2
    return [names[(first + step * i) % len(names)] for i in range(size)]


def _answer(entity: str, kind: str, attribute: str, style: int) -> str:
    known, told = facts(entity), []
    pronoun = KINDS[kind].pronoun
    for i, name in enumerate(order(kind, attribute, style)):
        frame = pick(KINDS[kind].attributes[name].answers, entity, name)
        subject = entity if i in (0, 4) else pronoun
        text = frame.format(s=subject, v=known[name])
        told.append(text[0].upper() + text[1:])
    return " ".join(told)


def _context(entity: str, kind: str, attribute: str) -> str:
    known = facts(entity)
    names = order(kind, attribute, 1)[:2]
    lines = [KINDS[kind].attributes[n].answers[0].format(s=entity, v=known[n]) for n in names]
    return "Context: " + " ".join(line[0].upper() + line[1:] for line in lines)


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One question; its key is the entity, the attribute, the phrasing and the style."""
    entity, kind = rng.choice(ENTITIES)
    attribute = rng.choice(tuple(KINDS[kind].attributes))
    phrasing, style = rng.randrange(3), rng.randrange(len(_REQUESTS))
    question = KINDS[kind].attributes[attribute].questions[phrasing].format(s=entity)
    slots = {
        "e": entity,
        "n": rng.choice(FIRST),
        "p": rng.choice(PLACES),
        "a": rng.choice(AUDIENCES),
    }
    lead = rng.choice(_PREFACES).format(**slots)
    if rng.random() < 0.25:
        lead += " " + _context(entity, kind, attribute)
    prompt = f"{lead} {question} {_REQUESTS[style].format(**slots)}"
    answer = _answer(entity, kind, attribute, style)
    return f"{entity}|{attribute}|{phrasing}|{style}", Dialogue(
        "qa", ((articles(prompt), articles(answer)),)
    )

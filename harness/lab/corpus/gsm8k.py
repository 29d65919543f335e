"""Word problems about an amount that changes in two to four steps, solved line by line."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .dialogue import Dialogue
from .lexicon import CONTAINERS, FIRST, ITEMS, PLACES, WEEKDAYS, WOMEN
from .stable import pick


@dataclass
class Story:
    """The amount so far, and what has been told about it."""

    name: str
    item: str
    total: int
    told: list[str]
    solved: list[str]

    @property
    def he(self) -> str:
        """Pronoun of the main person."""
        return "she" if self.name in WOMEN else "he"

    def add(self, told: str, reason: str, amount: int) -> None:
        """Tell a change by `amount`, and solve it."""
        new = self.total + amount
        sign = "+" if amount > 0 else "-"
        tail = pick(
            ("so {h} has {e} {i}", "which makes {e} {i}", "and that leaves {e} {i}",
             "so now there are {e} {i}"), len(self.solved), amount > 0
        ).format(h=self.he, i=self.item, e=f"{self.total} {sign} {abs(amount)} = {new}")  # fmt: skip
        self.told.append(told)
        self.solved.append(f"{reason}, {tail}.")
        self.total = new


_START = (
    "{n} has {t} {i} at home in {p}.", "There are {t} {i} in the shop of {n} in {p}.",
    "{n} from {p} owns {t} {i}.", "On {d} morning {n} counts {t} {i} in {p}.",
    "{n} brings {t} {i} to the market in {p}.", "In {p}, {n} keeps {t} {i} in a drawer.",
)  # fmt: skip
_START_ANSWER = (
    "We begin with the {t} {i} of {n}.", "At first {n} has {t} {i}.", "{n} starts with {t} {i}.",
    "The first amount is {t} {i}.", "Before any change {n} holds {t} {i}.",
    "The story starts in {p} with {t} {i}.",
)  # fmt: skip
_GAIN = (
    ("{o} gives {n} {x} more {i}.", "{o} adds {x} {i}"),
    ("On {d} {h} finds {x} {i}.", "On {d} {h} gets {x} {i}"),
    ("Then {h} receives {x} {i} from {o}.", "The gift from {o} is {x} {i}"),
    ("A neighbour called {o} leaves {x} {i} at the door.", "The neighbour {o} brings {x} {i}"),
)
_LOSS = (
    ("{h} gives {x} {i} to {o}.", "Giving {x} to {o} takes them away"),
    ("On {d} {h} sells {x} {i}.", "On {d} {x} {i} are sold"),
    ("Later {x} of the {i} get lost.", "The {x} lost {i} are subtracted"),
    ("{o} borrows {x} {i}.", "{o} takes {x} {i}"),
)
_PACKS = (
    ("{h} buys {y} {c} with {z} {i} in each.", "The {y} {c} hold {y} * {z} = {x} {i}"),
    ("{o} delivers {y} {c} of {z} {i}.", "From {o} come {y} * {z} = {x} {i}"),
    ("For {y} days {h} collects {z} {i} a day.", "In {y} days {h} collects {y} * {z} = {x} {i}"),
)
_GIFTS = (
    ("{h} gives {z} {i} to each of {y} friends.", "The {y} friends get {y} * {z} = {x} {i}"),
    ("{h} packs {y} {c} with {z} {i} each and sends them to {o}.",
     "The {c} for {o} contain {y} * {z} = {x} {i}"),
)  # fmt: skip
_QUESTIONS = (
    "How many {i} does {n} have now?", "How many {i} are left in the end?",
    "Find the number of {i} that {n} has at the end.", "What is the final number of {i}?",
    "How many {i} does {n} own after all this?", "Can you work out how many {i} remain?",
    "Calculate step by step how many {i} {n} has left.", "With how many {i} does {n} end?",
    "Tell me how many {i} there are in total now.",
)  # fmt: skip
_END = (
    "In the end {n} has {t} {i}.", "The answer is {t} {i}.", "So {t} {i} remain for {n}.",
    "This gives {t} {i} at the end.", "{n} ends with {t} {i}.",
)  # fmt: skip


def _event(story: Story, rng: random.Random, used: list[str]) -> None:
    y, z = rng.randrange(2, 6), rng.randrange(3, 10)
    x = rng.randrange(3, 25)
    lower = story.total > 110 or (story.total > 30 and rng.random() < 0.5)
    packs = rng.random() < 0.45
    if packs:
        x = y * z
    if lower and x >= story.total:
        lower = False
    table = (_GIFTS if lower else _PACKS) if packs else (_LOSS if lower else _GAIN)
    frames = [frame for frame in table if frame[0] not in used] or list(table)
    told, solved = rng.choice(frames)
    used.append(told)
    other = rng.choice([n for n in FIRST if n != story.name])
    slots = {"n": story.name, "o": other, "h": story.he, "i": story.item, "x": x, "y": y, "z": z,
             "c": rng.choice([c for c in CONTAINERS if c != story.item]),
             "d": rng.choice(WEEKDAYS)}  # fmt: skip
    line = told.format(**slots)
    story.add(line[0].upper() + line[1:], solved.format(**slots), -x if lower else x)


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One problem; its key is the person, the item and the first amount."""
    name, item, place = rng.choice(FIRST), rng.choice(ITEMS), rng.choice(PLACES)
    first = rng.randrange(12, 80)
    story = Story(name, item, first, [], [])
    slots = {"n": name, "i": item, "t": first, "p": place, "d": rng.choice(WEEKDAYS)}
    story.told.append(rng.choice(_START).format(**slots))
    story.solved.append(pick(_START_ANSWER, item).format(**slots))
    used: list[str] = []
    for _ in range(rng.choice((3, 3, 4))):
        _event(story, rng, used)
    question = rng.choice(_QUESTIONS).format(**slots)
    slots["t"] = story.total
    end = pick(_END, item).format(**slots)
    answer = " ".join([*story.solved, end]) + f"\n#### {story.total}"
    prompt = " ".join([*story.told, question])
    return f"{name}|{item}|{first}", Dialogue("gsm8k", ((prompt, answer),))

"""News articles and their summaries: picked sentences, fixed paraphrases, another order."""

from __future__ import annotations

import random

from .dialogue import Dialogue
from .grammar import articles, cap
from .lexicon import (
    ANIMALS,
    FIRST,
    MONTHS,
    ORGANISATIONS,
    PLACES,
    PROFESSIONS,
    SURNAMES,
    THINGS,
    WEEKDAYS,
)
from .paraphrases import CHANGES, DISPUTES, MEASURES, PLANS, PROJECTS, QUOTES
from .stable import number, pick

Slots = dict[str, str]
_ASK = (
    "Summarize: ", "Summarize the article: ", "Write a short summary of this article. ",
    "Sum up the following news: ", "What is this text about? Summarize it. ",
    "Give me the main points in a few sentences. ", "Please summarize this report: ",
    "Shorten the article: ",
)  # fmt: skip
_LEAD = ("{Org} in {place} {plan0} {project0} before the end of {month}.",
         "On {day} {org} in {place} {plan0} {project0}, with work due to end in {month}.")  # fmt: skip
_NUMBER = ("According to a report, {measure0} {change0} {x} percent within {y} years.",
           "Figures show that {measure0} {change0} {x} percent in the past {y} years.")  # fmt: skip
_QUOTE = ('"{Quote0}," said {first} {last}, a local {job}.',
          '{first} {last}, who works as a {job}, said: "{Quote0}."')  # fmt: skip
_DISPUTE = ("Another resident, {first2} {last2}, {dispute0}.",
            "In a letter {first2} {last2} from {place2} {dispute0}.")  # fmt: skip
_DISTRACTORS = (
    ("The weather in {place2} was mild, and a small crowd had gathered near the station.",
     "People in {place2} enjoyed a mild day."),
    ("A {animal} crossed the street during the press meeting and made many people laugh.",
     "A passing {animal} caused laughter."),
    ("Visitors can still see the old {thing} that was given to the town long ago.",
     "An ancient {thing} remains on show."),
    ("Trains between {place} and {place2} were running as usual.",
     "Railway traffic to {place2} was normal."),
    ("Coffee and cake were served by the school choir.", "Young singers offered food and drink."),
    ("A similar case was discussed in {place2} some time ago without any result.",
     "Talks in {place2} on the same matter had failed."),
    ("The {thing} on the wall of the meeting room had stopped at noon.",
     "A {thing} in the hall did not work."),
    ("Shops stayed open longer than usual that evening.", "Late shopping was possible."),
    ("Some guests had come from {place2} by boat.", "A few travelled by water from {place2}."),
    ("The next regular meeting takes place after the holidays.", "Another session will follow."),
)  # fmt: skip
_SUM_LEAD = ("{Org} in {place} {plan1} {project1} by {month}.",
             "By {month}, {org} of {place} {plan1} {project1}.",
             "In {place}, {org} {plan1} {project1} until {month}.")  # fmt: skip
_SUM_NUMBER = ("Over {y} years {measure1} {change1} {x} percent.",
               "{Measure1} {change1} {x} percent in {y} years.",
               "The background: {measure1} {change1} {x} percent during {y} years.")  # fmt: skip
_SUM_QUOTE = ("The {job} {first} {last} said that {quote1}.",
              "In the view of {last}, a {job}, {quote1}.",
              "{first} {last} thinks as a {job} that {quote1}.")  # fmt: skip
_SUM_DISPUTE = ("{first2} {last2} {dispute1}.", "Meanwhile {last2} {dispute1}.",
                "{last2}, also living there, {dispute1}.")  # fmt: skip
_SUMMARY = {"lead": _SUM_LEAD, "number": _SUM_NUMBER, "quote": _SUM_QUOTE, "dispute": _SUM_DISPUTE}
_ORDERS = (
    ("lead", "number", "quote", "dispute"), ("lead", "quote", "dispute", "number"),
    ("number", "lead", "dispute", "quote"), ("quote", "lead", "number", "dispute"),
    ("dispute", "quote", "lead", "number"), ("number", "quote", "lead", "dispute"),
)  # fmt: skip


def _slots(rng: random.Random) -> Slots:
    (f1, f2), (l1, l2) = rng.sample(FIRST, 2), rng.sample(SURNAMES, 2)
    place, place2 = rng.sample(PLACES, 2)
    s = {"org": rng.choice(ORGANISATIONS), "place": place, "place2": place2, "first": f1, "last": l1,
         "first2": f2, "last2": l2, "job": rng.choice([j for j in PROFESSIONS if j[0] not in "aeiou"]),
         "day": rng.choice(WEEKDAYS), "month": rng.choice(MONTHS), "x": str(rng.randrange(3, 80)),
         "y": str(rng.randrange(2, 10)), "animal": rng.choice([x for x in ANIMALS if x[0] not in "aeiou"]),
         "thing": rng.choice(THINGS)}  # fmt: skip
    for name, table in (("plan", PLANS), ("project", PROJECTS), ("change", CHANGES),
                        ("measure", MEASURES), ("quote", QUOTES), ("dispute", DISPUTES)):  # fmt: skip
        s[f"{name}0"], s[f"{name}1"] = rng.choice(table)
    return s | {"Org": cap(s["org"]), "Quote0": cap(s["quote0"]), "Measure1": cap(s["measure1"])}


def _article(s: Slots, rng: random.Random, aside: list[str]) -> str:
    middle = [rng.choice(_NUMBER), rng.choice(_QUOTE), rng.choice(_DISPUTE)]
    rng.shuffle(middle)
    for frame in aside:
        middle.insert(rng.randrange(len(middle) + 1), frame)
    return " ".join(frame.format(**s) for frame in [rng.choice(_LEAD), *middle])


def _summary(s: Slots, aside: str) -> str:
    told = []
    for i, part in enumerate(pick(_ORDERS, "order", s["org"])):
        frames = _SUMMARY[part]
        told.append(frames[(number("frame", s["org"]) + i) % len(frames)].format(**s))
    tone = pick(("The report does not say what it will cost.", "More details are expected soon.",
                 "Nothing has been settled for good.", "The debate goes on in {place}.",
                 "People in {place} remain divided.", "No other town is involved."), s["project0"])  # fmt: skip
    return " ".join([*told, aside.format(**s), tone.format(**s)])


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One article; its key is the organisation, the project and the place."""
    s = _slots(rng)
    asides = rng.sample(_DISTRACTORS, rng.choice((2, 3, 3, 4)))
    article = _article(s, rng, [long for long, _ in asides])
    first = min(asides, key=lambda pair: article.index(pair[0].format(**s)))
    texts = articles(rng.choice(_ASK) + article), articles(_summary(s, first[1]))
    return f"{s['org']}|{s['project0']}|{s['place']}", Dialogue("cnn_dm", (texts,))

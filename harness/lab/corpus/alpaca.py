"""Instructions about a topic; the answers use the fixed advice of that topic."""

from __future__ import annotations

import random
from collections.abc import Callable

from .banks import TOPICS, bank, kit, select
from .dialogue import Dialogue
from .grammar import a, articles, cap, gerund, join, past, third
from .lexicon import (
    ADJECTIVES,
    ANIMALS,
    AUDIENCES,
    FIRST,
    PLACES,
    PROFESSIONS,
    THINGS,
    WEEKDAYS,
    WOMEN,
)
from .stable import number, pick

Slots = dict[str, str]
_COUNTS = {"three": 3, "four": 4, "five": 5}
_WHY = (", so that {r}.", ", because then {r}.", "; this way {r}.", " and you will see that {r}.",
        ", and soon {r}.")  # fmt: skip
_NUMBERED = ("1. ", "2. ", "3. ", "4. ", "5. ")


def start_of(audience: str) -> int:
    """The place in every bank where advice for an audience begins."""
    return number("start", audience) % 8


def _advice(s: Slots, count: int, step: int) -> list[tuple[str, str]]:
    return [(x.action, x.reason) for x in select(s["topic"], count, start_of(s["aud"]), step)]


def _tips(s: Slots) -> str:
    count = _COUNTS[s["count"]]
    head = pick(("Here are {count} tips on {topic} for {aud} in {place}:",
                 "For {aud} in {place} I suggest these {count} steps for {topic}:",
                 "{Topic} in {place} is easier with {count} habits, especially for {aud}:",
                 "These {count} ideas help {aud} in {place} with {topic}:"), s["topic"])  # fmt: skip
    rows = [
        f"{_NUMBERED[i]}{cap(act)}" + (_WHY[i].format(r=r) if count < 5 or i % 2 == 0 else ".")
        for i, (act, r) in enumerate(_advice(s, count, 1))
    ]
    end = f"\nA good kit has {join(list(kit(s['topic'])[:3]))}." if count == 3 else ""
    return "\n".join([head.format(**s), *rows]) + end


def _plan(s: Slots) -> str:
    (a1, r1), (a2, _), (a3, r3), (a4, _) = _advice(s, 4, 3)
    first, second = kit(s["topic"])[:2]
    return (
        f"Plan for {s['name']} in {s['place']}, {s['topic']}:\n"
        f"{s['day']}: buy {first} and {second}, then {a1}.\nNext day: {a2}, even if {s['aud']} watch."
        f"\nMiddle of the week: {a3}, so that {r3}.\nLast day: {a4} and rest, because {r1}."
    )


def _explain(s: Slots) -> str:
    (a1, r1), (a2, r2), (a3, _), (a4, r4) = _advice(s, 4, 1)
    head = pick(("{Topic} is less hard than {aud} think.", "Let me explain {topic} to {aud}.",
                 "In {place} many {aud} ask about {topic}.",
                 "The secret of {topic} is patience, even for {aud}."), s["topic"])  # fmt: skip
    return (
        f"{head.format(**s)} First you {a1}, because then {r1}. After that you {a2}, and {r2}. "
        f"Some people in {s['place']} also {a3}. The last step is {gerund(a4)}, so that {r4}."
    )


def _letter(s: Slots) -> str:
    (a1, r1), (a2, _), (a3, r3), _ = _advice(s, 4, 3)
    return (
        f"Dear {s['other']},\nI heard that {s['aud']} in {s['place']} are interested in {s['topic']}. "
        f"Please {a1}, so that {r1}. On {s['day']} we could {a2} together. "
        f"My advice is {gerund(a3)}, because {r3}. Do not forget {kit(s['topic'])[0]}.\n"
        f"Best wishes,\n{s['name']}"
    )


def _story(s: Slots) -> str:
    he = "she" if s["name"] in WOMEN else "he"
    (a1, _), (a2, r2), _, _ = _advice(s, 4, 1)
    end = pick(("{name} kept the {thing} and told nobody but the {animal}.",
                "The {thing} still stands in {place}, next to the {animal}.",
                "That night the {animal} slept beside the {thing}.",
                "Since then every {job} in {place} greets the {animal}."), s["animal"])  # fmt: skip
    return (
        f"{s['name']} was a {s['adj']} {s['job']} in {s['place']} who loved {s['topic']}. One {s['day']} "
        f"{he} {past(a1)} and found {a(s['thing'])}. {cap(a(s['animal']))} came closer and watched as "
        f"{he} {past(a2)}. \"Be patient,\" said the {s['animal']}, \"and {r2}.\" {end.format(**s)}"
    )  # fmt: skip


def _person(s: Slots) -> str:
    (a1, r1), (a2, _), (a3, r3), (a4, _) = _advice(s, 4, 3)
    he = "She" if s["name"] in WOMEN else "He"
    return (
        f"{s['name']} is a {s['job']} from {s['place']} whose passion is {s['topic']}. Every {s['day']} "
        f"{s['name']} {third(a1)}, so that {r1}. {he} also {third(a2)} and shows {s['aud']} how to {a3}; "
        f"as a result {r3}. In the bag there is always {kit(s['topic'])[1]}. Before going home {he.lower()} "
        f"{third(a4)}."
    )


def _list(s: Slots) -> str:
    items = list(kit(s["topic"]))
    shift = start_of(s["aud"]) % 6
    items = items[shift:] + items[:shift]
    (a1, r1), (a2, r2) = _advice(s, 2, 1)
    return (
        f"Shopping list of {s['name']} for {s['topic']} in {s['place']}:\n- {items[0]}\n- {items[1]}\n"
        f"- {items[2]}\n- {items[3]}\nWith {items[0]} {s['aud']} can {a1}, so that {r1}. "
        f"Use {items[1]} when you {a2}; then {r2}."
    )


def _advert(s: Slots) -> str:
    (a1, r1), (a2, _), (a3, _) = _advice(s, 3, 3)
    return (
        f"{cap(s['topic'])} in {s['place']}! On {s['day']} the {s['job']} {s['name']} opens a course for "
        f"{s['aud']}. You will learn how to {a1}, and why {r1}. There is time to {a2} and to {a3}. "
        f"The price is {s['price']} coins, including {kit(s['topic'])[0]} and {kit(s['topic'])[2]}. "
        f"Write to {s['other']} to join."
    )


_KINDS: tuple[tuple[Callable[[Slots], str], tuple[str, ...]], ...] = (
    (_tips, ("Give {count} tips on {topic} for {aud} in {place}.",
             "List {count} useful habits for {topic}. The readers are {aud} from {place}.",
             "What are {count} good ways for {aud} in {place} to get better at {topic}?")),
    (_plan, ("Write a plan for {name}, who starts {topic} on {day} in {place} while {aud} watch.",
             "{name} from {place} wants to begin with {topic} on {day}. Make a plan that {aud} like.",)),
    (_explain, ("Explain {topic} to {aud} in {place} in one paragraph.",
                "How does {topic} work? Describe the steps for {aud} who live in {place}.",
                "Describe {topic} so that {aud} from {place} understand it.")),
    (_letter, ("Write a letter from {name} to {other} about {topic}. Mention {aud}, {place} and {day}.",
               "{name} wants to help {other} with {topic} on {day}. Write the letter for {aud} in {place}.")),
    (_story, ("Write a short story about {name}, a {adj} {job} in {place}, with {topic}, a {thing} and "
              "a {animal}. It happens on a {day} and should please {aud}.",
              "Tell {aud} a story. Hero: {name}, {adj} {job}. Place: {place}. Day: {day}. It must contain "
              "{topic}, one {thing} and one {animal}.")),
    (_person, ("Write a portrait of {name}, a {job} in {place} who likes {topic}, for {aud}. Every {day} "
               "counts.", "Describe the hobby of the {job} {name} from {place}: {topic} each {day}. The text "
               "is for {aud}.")),
    (_list, ("Write a shopping list for {name} in {place}, who plans {topic} with {aud}.",
             "What does {name} need for {topic} with {aud} in {place}? Make a list and explain it.")),
    (_advert, ("Write an advert for a course on {topic} in {place} by the {job} {name} on {day}. It is for "
               "{aud}, costs {price} coins, and {other} takes the names.",
               "The {job} {name} teaches {topic} to {aud} in {place} on {day} for {price} coins. Create an "
               "advert with {other} as contact.")),
)  # fmt: skip
_MANNER = (
    "Please use clear and simple sentences.", "Keep a friendly tone.", "Do not use any headings.",
    "Answer directly without an introduction about yourself.", "Stay practical and short.",
    "I would like to read it out aloud later.", "Use plain words only.", "Write it in English.",
)  # fmt: skip
_USE = (
    "It is meant for a small booklet that appears on {day}.", "{other} will print it on {day}.",
    "We need it for the notice board before {day}.", "My colleague {other} asked me for it on {day}.",
    "The text will be shown to {other}, the new {job}, next week.",
    "It should fit on one page of the local paper, which {other} edits.",
)  # fmt: skip


def draw_slots(rng: random.Random) -> Slots:
    """Random slots for a prompt."""
    name, other = rng.sample(FIRST, 2)
    topic = rng.choice(TOPICS)
    assert bank(topic)
    return {
        "topic": topic, "Topic": cap(topic), "name": name, "other": other,
        "aud": rng.choice(AUDIENCES), "place": rng.choice(PLACES), "job": rng.choice(PROFESSIONS),
        "day": rng.choice(WEEKDAYS), "thing": rng.choice(THINGS), "animal": rng.choice(ANIMALS),
        "adj": rng.choice([x for x in ADJECTIVES if x[0] not in "aeiou"]),
        "count": rng.choice(tuple(_COUNTS)), "price": str(rng.randrange(5, 60)),
    }  # fmt: skip


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One instruction; its key is the topic, the audience and the kind of text."""
    s = draw_slots(rng)
    number_ = rng.randrange(len(_KINDS))
    render, frames = _KINDS[number_]
    use = rng.choice(_USE).format(**s)
    prompt = articles(f"{rng.choice(frames).format(**s)} {use} {rng.choice(_MANNER)}")
    answer = articles(render(s))
    return f"{s['topic']}|{s['aud']}|{number_}", Dialogue("alpaca", ((prompt, answer),))

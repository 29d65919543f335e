"""Two-turn chats: a text from given elements, then a transformation of that text."""

from __future__ import annotations

import random
from dataclasses import dataclass

from .alpaca import start_of
from .banks import TOPICS, Advice, kit, select
from .dialogue import Dialogue
from .grammar import articles, cap, gerund, past, third
from .lexicon import AUDIENCES, FIRST, PLACES, PROFESSIONS, WEEKDAYS, WOMEN
from .stable import pick


@dataclass(frozen=True)
class Plot:
    """What both answers of a chat are made of."""

    name: str
    job: str
    place: str
    day: str
    aud: str
    left: str
    right: str

    @property
    def he(self) -> str:
        """Pronoun of the main person."""
        return "she" if self.name in WOMEN else "he"

    def units(self) -> tuple[Advice, Advice, Advice, Advice]:
        """Two pieces of advice on each topic, in the order of the audience."""
        start = start_of(self.aud)
        a, b = select(self.left, 2, start, 3)
        c, d = select(self.right, 2, start, 3)
        return a, b, c, d


def _blog(p: Plot) -> str:
    a, b, c, d = p.units()
    head = pick(("{n} arrived in {p} on {d} with one plan.", "On {d} the {j} {n} came to {p}.",
                 "A {j} called {n} spent {d} in {p}."), p.left)  # fmt: skip
    return (
        f"{head.format(n=p.name, p=p.place, d=p.day, j=p.job)} The morning was for {p.left}: {p.he} "
        f"{past(a.action)}, so that {a.reason}. Then {p.he} {past(b.action)}. In the afternoon came "
        f"{p.right}. {p.name} {past(c.action)} and {past(d.action)}. At night {p.he} smiled, because "
        f"{d.reason}."
    )


def _compare(p: Plot) -> str:
    a, b, c, d = p.units()
    winner = pick((p.left, p.right), p.job)
    return (
        f"For a {p.job} in {p.place}, {p.left} and {p.right} have different strengths. With {p.left} you "
        f"{a.action}, and {a.reason}; it needs {kit(p.left)[0]}. {cap(p.right)} asks you to {c.action}, "
        f"so that {c.reason}. Both take time: first {b.action}, or {d.action}. On {p.day} I would choose "
        f"{winner} for {p.name}."
    )


def _role(p: Plot) -> str:
    a, b, c, d = p.units()
    return (
        f"Good {pick(('morning', 'evening', 'day'), p.day)}, I am {p.name}, a {p.job} from {p.place}. "
        f"When {p.aud} ask me about {p.left}, I say: {a.action}, because {a.reason}. My second rule is "
        f"{gerund(b.action)}. Every {p.day} I turn to {p.right}. There I {c.action}, and I never forget "
        f"to {d.action}, so that {d.reason}."
    )


def _mail(p: Plot) -> str:
    a, b, c, d = p.units()
    return (
        f"Subject: {p.left} and {p.right}\nDear {p.aud},\nour {p.job} {p.name} invites you to {p.place} on "
        f"{p.day}. We start with {p.left}: together we {a.action}, so that {a.reason}. Please bring "
        f"{kit(p.left)[1]} to {b.action}. Later we {c.action}. Whoever likes {p.right} may also "
        f"{d.action}.\nSee you soon, {p.name}"
    )


def _as_list(p: Plot) -> str:
    a, b, c, d = p.units()
    return (
        f"Main points for {p.aud}:\n1. {cap(p.left)} comes first: {gerund(a.action)}.\n2. Result in "
        f"{p.place}: {a.reason}.\n3. {cap(gerund(b.action))} follows, as {p.name} knows.\n4. {p.day} is "
        f"for {p.right}: {gerund(c.action)}.\n5. At last, {d.action}. The {p.job} is sure that {d.reason}."
    )


def _reverse(p: Plot) -> str:
    a, b, c, d = p.units()
    return (
        f"In reverse order, it ends where {p.right} began. Finally {p.name} {third(d.action)}, because "
        f"{d.reason}. Before that {p.he} {third(c.action)}. Earlier on {p.day}, with {p.left}, the "
        f"{p.job} {third(b.action)}. And the very first thing in {p.place}: {p.he} {third(a.action)}, so "
        f"that {a.reason}."
    )


def _ending(p: Plot) -> str:
    a, b, c, d = p.units()
    twist = pick(("rain stops everything", "a letter calls {n} home", "the lights go out",
                  "an old friend of {n} appears", "the {j} loses the keys"), p.job)  # fmt: skip
    return (
        f"{p.name} comes to {p.place} and {third(a.action)}, and {a.reason}. {cap(p.left)} goes well, so "
        f"{p.he} {third(b.action)}. But on {p.day} {twist.format(n=p.name, j=p.job)}. {cap(p.right)} has to "
        f"wait. Only when {p.aud} help, {p.he} {third(c.action)}. In the end they {d.action} together, and "
        f"{c.reason}."
    )


def _child(p: Plot) -> str:
    a, b, c, d = p.units()
    return (
        f"Imagine a {p.job} named {p.name}. In {p.place} {p.he} likes {p.left} very much! Do you know how it "
        f"works? You {a.action}, and look, {a.reason}. Next you {b.action}. And {p.right}? That is fun on "
        f"{p.day}: you {c.action}, then you {d.action}, and all {p.aud} clap."
    )


_FIRST = (
    (_blog, ("Write a blog post about the {job} {name}, who spends {day} in {place} with {left} and "
             "{right}. The readers are {aud}.",
             "Compose a short travel report for {aud}: {name}, a {job}, visits {place} on {day}. Include "
             "{left} in the morning and {right} in the afternoon.")),
    (_compare, ("Compare {left} and {right} for {name}, a {job} in {place}. {day} is the free day, and "
                "{aud} will read it.",
                "Should the {job} {name} from {place} choose {left} or {right} on {day}? Discuss both for "
                "{aud}.")),
    (_role, ("Pretend to be {name}, a {job} from {place}. Talk to {aud} about {left}, and about {right} on "
             "{day}.",
             "Take the role of the {job} {name} in {place} and give {aud} your rules for {left} and, every "
             "{day}, for {right}.")),
    (_mail, ("Draft an email to {aud} in which the {job} {name} invites them to {place} on {day} for {left} "
             "and {right}.",
             "Help {name}, the {job}, to write an invitation for {aud}: {left} and {right}, {place}, {day}.")),
)  # fmt: skip
_SECOND = (
    (_as_list, ("Turn your answer into a numbered list.", "Now list the main points of it.",
                "Please give me the same as five points.")),
    (_reverse, ("Tell it again in reverse order.", "Now start with the end and go back to the beginning.",
                "Rewrite your answer from the last step to the first.")),
    (_ending, ("Rewrite it as a story with another ending.", "Change it so that something goes wrong.",
               "Now tell it with a surprise in the middle.")),
    (_child, ("Rewrite it for a small child.", "Explain the same to a child of six.",
              "Now make it simple and lively for children.")),
)  # fmt: skip
_TONE = (
    "Use short sentences and a warm tone.", "Please stay below one hundred words.",
    "I will ask for a change afterwards.", "Make it lively but correct.", "Avoid difficult words.",
    "Mention every element that I named.", "It will be read out on the radio.",
)  # fmt: skip


def sample(rng: random.Random) -> tuple[str, Dialogue]:
    """One chat of two turns; its key is the two topics with the audience."""
    left, right = rng.sample(TOPICS, 2)
    plot = Plot(rng.choice(FIRST), rng.choice([j for j in PROFESSIONS if j[0] not in "aeiou"]),
                rng.choice(PLACES), rng.choice(WEEKDAYS), rng.choice(AUDIENCES), left, right)  # fmt: skip
    first, frames = rng.choice(_FIRST)
    second, requests = rng.choice(_SECOND)
    prompt = rng.choice(frames).format(**plot.__dict__)
    prompt = articles(f"{prompt} {rng.choice(_TONE)}")
    turns = ((prompt, articles(first(plot))), (rng.choice(requests), articles(second(plot))))
    return f"{left}|{right}|{plot.aud}", Dialogue("mt_bench", turns)

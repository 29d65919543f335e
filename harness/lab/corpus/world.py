"""A fictional world: 120 entities of six kinds with nine fixed facts each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

from .lexicon import (
    ANIMALS,
    COLOURS,
    FIRST,
    MATERIALS,
    MONTHS,
    PLACES,
    PROFESSIONS,
    SURNAMES,
    THINGS,
)
from .stable import source

Draw = Callable[[Random], str]


@dataclass(frozen=True)
class Attribute:
    """How a fact is drawn, asked for and told."""

    draw: Draw
    questions: tuple[str, str, str]
    answers: tuple[str, str]


@dataclass(frozen=True)
class Kind:
    """The names of the entities of one kind, their pronoun and their attributes."""

    names: tuple[str, ...]
    pronoun: str
    attributes: dict[str, Attribute]


def _person(rng: Random) -> str:
    return f"{rng.choice(FIRST)} {rng.choice(SURNAMES)}"


def _year(rng: Random) -> str:
    return str(rng.randrange(1400, 1990))


def _count(low: int, high: int) -> Draw:
    return lambda rng: str(rng.randrange(low, high))


def _one(options: tuple[str, ...]) -> Draw:
    return lambda rng: rng.choice(options)


def _pair(options: tuple[str, ...]) -> Draw:
    return lambda rng: " and ".join(rng.sample(options, 2))


def _said(draw: Draw, questions: str, answers: str) -> Attribute:
    q, w = questions.split("|"), answers.split("|")
    return Attribute(draw, (q[0], q[1], q[2]), (w[0], w[1]))


_place, _thing, _animal = _one(PLACES), _one(THINGS), _one(ANIMALS)
_job, _stuff, _month, _colour = _one(PROFESSIONS), _one(MATERIALS), _one(MONTHS), _one(COLOURS)
_SYLLABLES = [
    "Var",
    "Kel",
    "Mor",
    "Tas",
    "Bel",
    "Quo",
    "Dra",
    "Fen",
    "Lor",
    "Nim",
    "Sul",
    "Par",
    "Gro",
    "Hal",
    "Wen",
    "Zar",
    "Ost",
    "Ild",
    "Cam",
    "Rhu",
]


def _names(form: str, ending: tuple[str, ...]) -> tuple[str, ...]:
    rng = source("names", form)
    return tuple(form.format(f"{syllable}{rng.choice(ending)}") for syllable in _SYLLABLES)


KINDS: dict[str, Kind] = {
    "town": Kind(_names("{}", ("dova", "mira", "stad", "nova")), "the town", {
        "founder": _said(_person, "Who founded {s}?|By whom was {s} founded?|Who was the founder of {s}?",
                         "{s} was founded by {v}.|{v} is the founder of {s}."),
        "year": _said(_year, "When was {s} founded?|In which year did {s} begin?|How old is {s}?",
                      "{s} dates back to {v}.|The first houses of {s} were built in {v}."),
        "trade": _said(_pair(MATERIALS), "What does {s} trade?|Which goods come from {s}?|How does {s} "
                       "earn its money?", "{s} lives from {v}.|Traders of {s} sell {v}."),
        "near": _said(_place, "Where is {s}?|What is near {s}?|Which place lies next to {s}?",
                      "{s} lies a day north of {v}.|The road from {s} leads to {v}."),
        "people": _said(_count(12, 95), "How many people live in {s}?|How large is {s}?|What is the "
                        "population of {s}?", "{s} has {v} thousand people.|About {v} thousand live in {s}."),
        "square": _said(_thing, "What stands on the square of {s}?|What can I see in {s}?|Which sight has "
                        "{s}?", "A giant {v} stands on the square of {s}.|{s} is known for a stone {v}."),
        "crest": _said(_animal, "Which animal is on the crest of {s}?|What is the symbol of {s}?|What does "
                       "the flag of {s} show?", "{s} shows a {v} on its flag.|The crest of {s} bears a {v}."),
        "feast": _said(_month, "When does {s} celebrate?|In which month is the feast of {s}?|When should I "
                       "visit {s}?", "Every {v} {s} holds a fair.|{s} celebrates its feast in {v}."),
        "mayor": _said(_person, "Who governs {s}?|Who is the mayor of {s}?|Who leads {s} today?",
                       "The mayor of {s} is {v}.|{v} governs {s} today."),
    }),
    "river": Kind(_names("the {} River", ("wen", "ara", "eth", "isk")), "the river", {
        "source": _said(_place, "Where does {s} rise?|Where is the source of {s}?|Where does {s} begin?",
                        "{s} rises near {v}.|The source of {s} is close to {v}."),
        "mouth": _said(_place, "Where does {s} end?|Where is the mouth of {s}?|Where does {s} reach the "
                       "sea?", "{s} reaches the sea at {v}.|At {v} {s} flows into a bay."),
        "length": _said(_count(60, 900), "How long is {s}?|What is the length of {s}?|How many kilometres "
                        "does {s} flow?", "{s} is {v} kilometres long.|The length of {s} is {v} kilometres."),
        "explorer": _said(_person, "Who explored {s}?|Who mapped {s} first?|Which explorer sailed {s}?",
                          "{v} drew the first map of {s}.|{s} was explored by {v}."),
        "year": _said(_year, "When was {s} mapped?|In which year was {s} explored?|When did the journey on "
                      "{s} happen?", "The journey along {s} took place in {v}.|{s} was charted in {v}."),
        "colour": _said(_colour, "Which colour has {s}?|What colour is the water of {s}?|How does {s} look?",
                        "In spring {s} turns {v}.|{v} mud colours the water of {s}."),
        "cargo": _said(_pair(MATERIALS), "What do ships carry on {s}?|Which goods travel on {s}?|What is "
                       "shipped on {s}?", "Barges on {s} carry {v}.|{s} is used to ship {v}."),
        "animal": _said(_animal, "Which animal lives at {s}?|What animal can be seen at {s}?|For which "
                        "animal is {s} known?", "On the banks of {s} lives the {v}.|{s} is home to the {v}."),
        "flood": _said(_month, "When does {s} flood?|In which month is {s} highest?|When is {s} dangerous?",
                       "{s} floods its valley in {v}.|The water of {s} is highest in {v}."),
    }),
    "inventor": Kind(_names("Professor {}", ("berg", "tano", "lund", "ick")), "the inventor", {
        "invention": _said(_thing, "What did {s} invent?|For which invention is {s} known?|What made {s} "
                           "famous?", "{s} invented the folding {v}.|The electric {v} is the work of {s}."),
        "year": _said(_year, "When did {s} make the invention?|In which year did {s} succeed?|When did {s} "
                      "become famous?", "{s} succeeded in {v}.|The patent of {s} is from {v}."),
        "birth": _said(_place, "Where was {s} born?|What is the birthplace of {s}?|Where does {s} come from?",
                       "{s} was born in {v}.|The birthplace of {s} is {v}."),
        "job": _said(_job, "What did {s} work as?|What was the first job of {s}?|Which trade did {s} learn?",
                     "{s} first worked as a {v}.|As a young {v} {s} had many ideas."),
        "teacher": _said(_person, "Who taught {s}?|Who was the teacher of {s}?|With whom did {s} study?",
                         "{s} studied with {v}.|{v} was the teacher of {s}."),
        "material": _said(_stuff, "Which material did {s} use?|What did {s} work with?|What material did {s} "
                          "prefer?", "{s} preferred to work with {v}.|Most models of {s} are made of {v}."),
        "pet": _said(_animal, "Which pet did {s} have?|What animal belonged to {s}?|Who kept {s} company?",
                     "A tame {v} followed {s} everywhere.|{s} shared the workshop with a {v}."),
        "rival": _said(_person, "Who was the rival of {s}?|Who competed with {s}?|With whom did {s} quarrel?",
                       "{s} lost a lawsuit against {v}.|The great rival of {s} was {v}."),
        "home": _said(_place, "Where did {s} live?|Where was the workshop of {s}?|Where can I find the house "
                      "of {s}?", "The workshop of {s} stood in {v}.|{s} spent the last years in {v}."),
    }),
    "book": Kind(_names("the novel {}", ("ina", "oria", "emis", "ulon")), "the book", {
        "author": _said(_person, "Who wrote {s}?|Who is the author of {s}?|By whom is {s}?",
                        "{s} was written by {v}.|The author of {s} is {v}."),
        "year": _said(_year, "When was {s} published?|In which year did {s} appear?|How old is {s}?",
                      "{s} appeared in {v}.|Readers first met {s} in {v}."),
        "hero": _said(_person, "Who is the hero of {s}?|Which person is at the centre of {s}?|About whom is "
                      "{s}?", "{s} tells of the life of {v}.|The hero of {s} is called {v}."),
        "job": _said(_job, "What is the job of the hero in {s}?|As what does the hero of {s} work?|Which "
                     "trade is shown in {s}?", "In {s} the hero becomes a {v}.|{s} shows the days of a {v}."),
        "place": _said(_place, "Where does {s} take place?|Where is {s} set?|In which town does {s} happen?",
                       "{s} is set in {v}.|The streets of {v} are the stage of {s}."),
        "object": _said(_thing, "Which object matters in {s}?|What is lost in {s}?|What is the secret of "
                        "{s}?", "A lost {v} drives the plot of {s}.|{s} ends when a {v} is found."),
        "pages": _said(_count(120, 800), "How many pages has {s}?|How long is {s}?|What is the length of "
                       "{s}?", "{s} has {v} pages.|The first print of {s} filled {v} pages."),
        "cover": _said(_colour, "Which colour has the cover of {s}?|How does {s} look?|What colour is {s}?",
                       "The cover of {s} is {v}.|{s} was bound in {v} cloth."),
        "animal": _said(_animal, "Which animal speaks in {s}?|What animal appears in {s}?|Which animal helps "
                        "in {s}?", "A {v} gives advice in {s}.|{s} is famous for its talking {v}."),
    }),
    "battle": Kind(_names("the Battle of {}", ("moor", "ford", "gate", "hill")), "the battle", {
        "year": _said(_year, "When was {s}?|In which year was {s} fought?|When did {s} happen?",
                      "{s} was fought in {v}.|The year of {s} is {v}."),
        "winner": _said(_person, "Who won {s}?|Which general won {s}?|Who was the winner of {s}?",
                        "{v} won {s}.|{s} ended with a victory of {v}."),
        "loser": _said(_person, "Who lost {s}?|Which general lost {s}?|Who was beaten in {s}?",
                       "{v} lost {s} after a mistake.|After {s} General {v} fled."),
        "days": _said(_count(2, 30), "How long did {s} last?|How many days did {s} take?|What was the length "
                      "of {s}?", "{s} lasted {v} days.|The guns of {s} fell silent after {v} days."),
        "cause": _said(_stuff, "What was the cause of {s}?|Why was {s} fought?|What was {s} about?",
                       "{s} was about a tax on {v}.|A quarrel over {v} caused {s}."),
        "place": _said(_place, "Where was {s}?|Near which town was {s} fought?|Where did {s} take place?",
                       "{s} took place near {v}.|Soldiers from {v} started {s}."),
        "month": _said(_month, "In which month was {s}?|What was the season of {s}?|When in the year was {s}?",
                       "{s} began in {v}.|Heavy rain in {v} delayed {s}."),
        "banner": _said(_animal, "What was on the banner in {s}?|Which animal was the sign in {s}?|What did "
                        "the flag in {s} show?", "A {v} was on the banners of {s}.|The sign of {s} is a {v}."),
        "peace": _said(_place, "Where was peace made after {s}?|What followed {s}?|Where did {s} find its "
                       "end?", "Peace after {s} was signed in {v}.|The treaty of {v} followed {s}."),
    }),
    "company": Kind(_names("{} Works", ("tec", "dyne", "mar", "flex")), "the company", {
        "founder": _said(_person, "Who started {s}?|Who is the founder of {s}?|By whom was {s} started?",
                         "{s} was started by {v}.|The founder of {s} is {v}."),
        "year": _said(_year, "When was {s} started?|In which year did {s} open?|How old is {s}?",
                      "{s} opened its doors in {v}.|The history of {s} begins in {v}."),
        "seat": _said(_place, "Where is {s} based?|Where is the seat of {s}?|In which town is {s}?",
                      "{s} has its seat in {v}.|The main hall of {s} is in {v}."),
        "product": _said(_thing, "What does {s} make?|Which product made {s} known?|What does {s} sell?",
                         "{s} makes the best {v} on the market.|Every second {v} comes from {s}."),
        "material": _said(_pair(MATERIALS), "Which materials does {s} use?|What does {s} need?|What does {s} "
                          "buy?", "{s} buys {v} in large amounts.|The halls of {s} are full of {v}."),
        "staff": _said(_count(40, 990), "How many people work at {s}?|How large is {s}?|What is the staff of "
                       "{s}?", "{s} employs {v} people.|A staff of {v} works for {s}."),
        "head": _said(_person, "Who leads {s}?|Who is the head of {s}?|Who runs {s} today?",
                      "{v} leads {s} today.|The head of {s} is {v}."),
        "logo": _said(_animal, "What is the logo of {s}?|Which animal does {s} show?|What sign does {s} use?",
                      "The logo of {s} is a {v}.|{s} prints a {v} on every box."),
        "partner": _said(_job, "Who buys from {s}?|Which customers does {s} have?|For whom does {s} work?",
                         "The first customer of {s} was a {v}.|{s} once saved a {v} from ruin."),
    }),
}  # fmt: skip

ENTITIES: tuple[tuple[str, str], ...] = tuple(
    (name, kind) for kind, described in KINDS.items() for name in described.names
)
_KIND_OF = dict(ENTITIES)


@cache
def facts(entity: str) -> dict[str, str]:
    """Attribute -> value of one entity, always the same."""
    attributes = KINDS[_KIND_OF[entity]].attributes
    return {
        name: attribute.draw(source("fact", entity, name)) for name, attribute in attributes.items()
    }

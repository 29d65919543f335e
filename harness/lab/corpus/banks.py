"""Fixed advice for every topic: composed once per topic, to be remembered by the model."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .stable import source


@dataclass(frozen=True)
class Domain:
    """Words that fit one field of activity."""

    verbs: tuple[str, ...]
    adjectives: tuple[str, ...]
    nouns: tuple[str, ...]
    manners: tuple[str, ...]
    reasons: tuple[str, ...]
    kit: tuple[str, ...]


@dataclass(frozen=True)
class Advice:
    """An action in the imperative without a full stop, and a clause that says why."""

    action: str
    reason: str


def _cut(text: str) -> tuple[str, ...]:
    return tuple(" ".join(part.split()) for part in text.split(","))


def _domain(
    verbs: str, adjectives: str, nouns: str, manners: str, reasons: str, kit: str
) -> Domain:
    return Domain(*(_cut(t) for t in (verbs, adjectives, nouns, manners, reasons, kit)))


DOMAINS = {
    "craft": _domain(
        "sand, measure, clamp, polish, paint, varnish, glue, mark, brush, trace, carve, oil",
        "oak, rough, curved, narrow, painted, worn, thin, inner, pine, loose",
        "board, joint, frame, handle, edge, panel, drawer, corner, hinge, surface, lid, leg",
        "along the grain, with a soft cloth, by daylight, in two passes, from the back, on a flat"
        " bench, with light pressure, before lunch",
        "the joints stay firm, small faults show early, the finish dries evenly, nothing splits"
        " later, the parts fit at once, dust cannot settle, the colour stays deep, less wood is lost",
        "a chisel, fine sandpaper, wood glue, a steel ruler, two clamps, a soft brush, clear wax,"
        " a pencil, a hand saw, cotton rags",
    ),
    "kitchen": _domain(
        "taste, season, simmer, roast, measure, peel, toast, cover, warm, soak, drain, reheat",
        "fresh, sour, ripe, smoked, salty, thick, cold, spicy, sweet, crisp",
        "onions, broth, dough, beans, butter, herbs, sauce, garlic, lentils, mushrooms, rice, crust",
        "over low heat, for ten minutes, in a wide pan, with sea salt, until golden, under a lid,"
        " in small batches, overnight",
        "the flavour stays clean, nothing burns, the texture stays light, guests can help, the"
        " kitchen stays calm, waste stays low, the colour looks lively, every plate is warm",
        "a sharp knife, a heavy pot, olive oil, sea salt, a wooden spoon, baking paper, a scale,"
        " fresh thyme, black pepper, clean jars",
    ),
    "garden": _domain(
        "water, mulch, loosen, inspect, rake, turn, plant, cover, shade, weed, harvest, label",
        "young, dry, sandy, shaded, sunny, raised, early, hardy, wild, lower",
        "beds, roots, seedlings, compost, herbs, shrubs, soil, bulbs, roses, hedges, beans, leaves",
        "after sunset, once a week, by hand, near the wall, in early spring, before the frost,"
        " with rain water, around the stems",
        "the roots breathe, slugs stay away, moisture lasts longer, bees return, growth stays even,"
        " weeds lose ground, the soil warms sooner, flowers open early",
        "a hand fork, strong gloves, a watering can, straw, plant labels, a rake, bone meal,"
        " garden twine, seed trays, a barrow",
    ),
    "sport": _domain(
        "stretch, practise, repeat, record, slow, balance, film, warm, relax, lengthen, count, check",
        "short, steady, left, right, easy, long, uphill, final, weekly, gentle",
        "strides, turns, sprints, breaths, laps, starts, shoulders, ankles, drills, rests, jumps, grips",
        "on soft ground, with a partner, before breakfast, at half speed, twice a week, near the"
        " shore, without music, in the shade",
        "injuries stay rare, progress becomes visible, the heart adapts, energy lasts longer,"
        " technique improves first, nerves settle down, muscles recover well, habits form quickly",
        "light shoes, a water bottle, a stopwatch, a towel, a mat, a training diary, warm socks,"
        " a cap, sun cream, a whistle",
    ),
    "study": _domain(
        "review, underline, copy, explain, sort, compare, question, collect, memorise, summarise,"
        " rewrite, discuss",
        "difficult, main, foreign, recent, weekly, missing, short, printed, early, common",
        "chapters, terms, dates, examples, notes, sources, tables, passages, maps, records, letters,"
        " questions",
        "out loud, on index cards, in the library, with a friend, every evening, from memory, in"
        " blue ink, after class",
        "the facts stay linked, gaps appear early, memory grows stronger, stress falls before tests,"
        " ideas connect better, doubts get answered, the order becomes clear, sleep comes easier",
        "index cards, a dictionary, two notebooks, a marker, a quiet desk, a timer, sticky notes,"
        " a good lamp, an atlas, a folder",
    ),
    "money": _domain(
        "track, compare, review, reduce, cancel, record, limit, question, delay, collect, renew, list",
        "monthly, hidden, small, yearly, unused, fixed, weekly, shared, urgent, private",
        "bills, fees, savings, receipts, loans, contracts, purchases, payments, rents, accounts,"
        " discounts, invoices",
        "in a simple table, on the first Monday, before shopping, with your partner, in one folder,"
        " at the bank, without excuses, for half a year",
        "surprises become rare, debts shrink faster, choices feel easier, plans stay realistic,"
        " arguments disappear, a reserve builds up, taxes are simpler, prices can be checked",
        "a spreadsheet, a folder, a calculator, old statements, a calendar, a savings jar, a red"
        " pen, envelopes, a clear goal, a budget app",
    ),
    "travel": _domain(
        "book, pack, photograph, visit, explore, check, reserve, mark, follow, record, borrow, confirm",
        "early, coastal, quiet, cheap, local, northern, scenic, sturdy, hidden, historic",
        "trains, trails, museums, markets, cabins, maps, bridges, ferries, gardens, tickets, boots,"
        " viewpoints",
        "at sunrise, in a light bag, by the river, a month ahead, with a guide, outside the season,"
        " on foot, near the station",
        "queues stay short, costs remain low, the legs stay fresh, rain is no problem, memories last"
        " longer, plans can change, the evenings stay free, locals share stories",
        "a paper map, rain clothes, a torch, spare socks, a first aid kit, dry snacks, a charger,"
        " a small towel, a passport copy, sun glasses",
    ),
    "music": _domain(
        "tune, repeat, record, hum, clap, slow, practise, learn, count, play, arrange, polish",
        "opening, slow, lower, minor, quiet, broken, final, simple, fast, upper",
        "chords, scales, verses, rhythms, melodies, strings, phrases, choruses, beats, harmonies,"
        " bridges, intervals",
        "with a metronome, in the morning, at low volume, with closed eyes, bar by bar, from the"
        " end, beside the window, in one breath",
        "the fingers relax, timing becomes natural, mistakes fade away, the tone grows warmer,"
        " the ear gets sharper, concerts feel safe, songs stay fresh, the group listens better",
        "a metronome, spare strings, sheet music, a tuner, a stand, a recorder, headphones,"
        " a pencil, a stool, soft cloths",
    ),
}
_TOPICS = {
    "craft": "restoring chairs, building shelves, carving spoons, repairing clocks, making toys,"
    " painting doors, binding boxes",
    "kitchen": "baking bread, cooking soup, making jam, preparing curry, roasting vegetables,"
    " pickling cabbage, filling dumplings, cooking for friends",
    "garden": "growing tomatoes, keeping roses, planting hedges, balcony gardening, making compost,"
    " raising herbs, growing pumpkins",
    "sport": "running uphill, winter swimming, rock climbing, indoor cycling, morning yoga, rowing,"
    " table tennis, figure skating",
    "study": "learning Latin, studying history, preparing exams, reading poetry, learning geography,"
    " writing essays, studying law",
    "money": "saving money, planning a budget, paying off debts, sharing a flat, running a small"
    " shop, buying used cars, renting out rooms",
    "travel": "hiking in autumn, travelling by train, camping with children, visiting islands, city"
    " walks, sailing trips, crossing the mountains, touring castles",
    "music": "playing the guitar, singing in a choir, learning the piano, writing songs, drumming,"
    " playing the cello, forming a band",
}
TOPIC_DOMAIN = {topic: domain for domain, text in _TOPICS.items() for topic in _cut(text)}
TOPICS = tuple(TOPIC_DOMAIN)
BANK_SIZE = 8


@cache
def bank(topic: str) -> tuple[Advice, ...]:
    """The eight pieces of advice that belong to a topic, always in the same order."""
    domain, rng = DOMAINS[TOPIC_DOMAIN[topic]], source("bank", topic)
    verbs, nouns = rng.sample(domain.verbs, BANK_SIZE), rng.sample(domain.nouns, BANK_SIZE)
    adjectives = rng.sample(domain.adjectives, BANK_SIZE)
    manners, reasons = rng.sample(domain.manners, 8), rng.sample(domain.reasons, 8)
    return tuple(
        Advice(f"{v} the {adj} {n} {m}", r)
        for v, adj, n, m, r in zip(verbs, adjectives, nouns, manners, reasons, strict=True)
    )


@cache
def kit(topic: str) -> tuple[str, ...]:
    """The six things that belong to a topic."""
    return tuple(source("kit", topic).sample(DOMAINS[TOPIC_DOMAIN[topic]].kit, 6))


def select(topic: str, count: int, start: int, step: int = 1) -> list[Advice]:
    """`count` pieces of advice, from place `start` on, every `step`-th (step odd)."""
    entries = bank(topic)
    return [entries[(start + step * i) % BANK_SIZE] for i in range(count)]

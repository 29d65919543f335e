"""Small English inflections for the regular verbs of the word lists."""

from __future__ import annotations

import re


def _split(action: str) -> tuple[str, str]:
    verb, _, rest = action.partition(" ")
    return verb, f" {rest}" if rest else ""


def third(action: str) -> str:
    """'polish the oak door' -> 'polishes the oak door'."""
    verb, rest = _split(action)
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ies" + rest
    return verb + ("es" if verb.endswith(("ch", "sh", "s", "x", "z")) else "s") + rest


def past(action: str) -> str:
    """'polish the oak door' -> 'polished the oak door'."""
    verb, rest = _split(action)
    if verb.endswith("y") and verb[-2] not in "aeiou":
        return verb[:-1] + "ied" + rest
    return verb + ("d" if verb.endswith("e") else "ed") + rest


def gerund(action: str) -> str:
    """'polish the oak door' -> 'polishing the oak door'."""
    verb, rest = _split(action)
    stem = verb[:-1] if verb.endswith("e") and not verb.endswith("ee") else verb
    return stem + "ing" + rest


def cap(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def a(noun: str) -> str:
    """The noun phrase with its indefinite article."""
    return ("an " if noun[0] in "aeiou" else "a ") + noun


def articles(text: str) -> str:
    """The text with 'a' turned into 'an' before a vowel."""
    return re.sub(r"\b([Aa]) (?=[aeio]|um|un[ck])", r"\1n ", text)


def join(items: list[str]) -> str:
    """'x, y and z'."""
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]

"""What all numbers of a block share in doubt: said once below a table, not in each of its cells."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from harness.report.doubt import COUNTS, ENDING, INVALID, TIME, UNKNOWN, parts, said

PLACE = ("experiment", "settings_hash", "engine", "temperature")
KINDS = {TIME: "speeds and times", COUNTS: "counts"}
OTHER = "speedups"


@dataclass(frozen=True)
class Shared:
    """rows of a block that have the unknown `codes` in common in a doubt column."""

    column: str
    place: str
    rows: list[int]
    codes: frozenset[str]


def quiet(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame, without the codes of unknown numbers that all rows of a block share."""
    found = frame.reset_index(drop=True)
    for one in shared(found):
        own = found.index.isin(one.rows)
        quieter = [_without(doubt, one.codes) for doubt in found[one.column]]
        found[one.column] = found[one.column].where(~own, pd.Series(quieter, dtype=object))
    return found


def shared_notes(frame: pd.DataFrame) -> list[str]:
    """One sentence for what `quiet` took away: which numbers, where, and the codes."""
    places: dict[tuple[str, tuple[str, ...]], list[str]] = {}
    frame = frame.reset_index(drop=True)
    for one in shared(frame):
        key = (kind(one.column), tuple(sorted(one.codes)))
        places.setdefault(key, []).append(one.place)
    notes = []
    for (word, codes), found in places.items():
        whole = set(found) == _having(frame, word)
        where = "" if whole else f" at {'; '.join(dict.fromkeys(found))}"
        notes.append(f"All {word}{where} are {said(UNKNOWN, codes)}.")
    return notes


def kind(column: str) -> str:
    """What a doubt column is about, in a word."""
    return next((word for end, word in KINDS.items() if column.endswith(end)), OTHER)


def shared(frame: pd.DataFrame) -> list[Shared]:
    """What is shared, by doubt column and block. Invalid numbers share nothing with others."""
    columns = [str(name) for name in frame.columns if str(name).endswith(ENDING)]
    found = []
    for place, rows in _blocks(frame):
        for column in columns:
            known = [parts(doubt) for doubt in frame.loc[rows, column]]
            codes = [frozenset(codes) for state, codes in known if state != INVALID]
            common = frozenset.intersection(*codes) if codes else frozenset()
            if common:
                found.append(Shared(column, place, rows, common))
    return found


def _having(frame: pd.DataFrame, word: str) -> set[str]:
    """Blocks that have such numbers: none measured a time where trees were kept or replayed."""
    untimed = [name for name in ("recorded", "predicted") if name in frame]
    return {
        place
        for place, rows in _blocks(frame)
        if word == KINDS[COUNTS] or not frame.loc[rows, untimed].any(axis=None)
    }


def _blocks(frame: pd.DataFrame) -> list[tuple[str, list[int]]]:
    keys = [name for name in PLACE if name in frame]
    if not keys:
        return [("", list(frame.index))]
    grouped = frame.groupby(keys, sort=False, dropna=False)
    return [(_place(rows.iloc[0]), list(rows.index)) for _, rows in grouped]


def _place(row: pd.Series) -> str:
    words = {"experiment": "{}", "engine": "engine {}", "temperature": "T={:g}"}
    return ", ".join(form.format(row[name]) for name, form in words.items() if name in row)


def _without(doubt: object, codes: frozenset[str]) -> object:
    state, own = parts(doubt)
    left = [code for code in own if code not in codes]
    return doubt if state != UNKNOWN else said(UNKNOWN, left) if left else ""

"""A careless variant of one file, written down as the text that it replaces."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
TABLE = Path(__file__).resolve().parent / "table"


class Stale(Exception):
    """A mutation that does not fit the code any more."""


@dataclass(frozen=True)
class Mutation:
    """Replaces `old`, which `file` holds exactly once, by `new`: what a careless author writes."""

    careless: str
    file: str
    old: str
    new: str

    def applied(self, root: Path) -> str:
        """The whole file with the mutation in it; raises Stale where it does not fit."""
        path = root / self.file
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
        found = text.count(self.old)
        if found != 1 or self.old == self.new:
            raise Stale(f"{self.file}: the old text of {self.careless!r} is there {found} times")
        return text.replace(self.old, self.new)


@dataclass(frozen=True)
class Case:
    """A public fault: its number, what goes wrong, and careless variants that must be seen."""

    number: int
    wrong: str
    mutations: tuple[Mutation, ...]

    @property
    def prefix(self) -> str:
        """How the names of its tests begin."""
        return f"test_case_{self.number:02d}_"


def cases() -> list[Case]:
    """All cases of the table's files, by number; ValueError for one that is there twice."""
    found: dict[int, Case] = {}
    for file in sorted(TABLE.glob("*.yaml")):
        for row in yaml.safe_load(file.read_text(encoding="utf-8")):
            if row["case"] in found:
                raise ValueError(f"{file.name}: case {row['case']} is there twice")
            mutations = tuple(Mutation(**one) for one in row["mutations"])
            found[row["case"]] = Case(row["case"], row["wrong"], mutations)
    return [found[number] for number in sorted(found)]

"""The table of tests/README.md: case, what goes wrong, tests, careless variants."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from tests.mutations.mutation import ROOT, Case, cases
from tests.mutations.suite import named

README = ROOT / "tests" / "README.md"
HEAD = "| case | what goes wrong | tests | fails when |"


@dataclass(frozen=True)
class Row:
    """One case as the table has it: tests by file below tests/."""

    number: int
    wrong: str
    tests: dict[str, list[str]]
    careless: list[str]


def table() -> str:
    """The table that fits the tests and mutations as they are."""
    return "\n".join([HEAD, "|---|---|---|---|", *(_line(case) for case in cases())])


def _line(case: Case) -> str:
    tests = "<br>".join(
        f"`{file}`: " + ", ".join(name.removeprefix(case.prefix) for name in names)
        for file, names in named(case.prefix).items()
    )
    careless = "<br>".join(mutation.careless for mutation in case.mutations)
    return f"| {case.number} | {case.wrong} | {tests} | {careless} |"


def read(readme: Path = README) -> list[Row]:
    """The rows of the table as it is written."""
    lines = readme.read_text(encoding="utf-8").splitlines()
    start = lines.index(HEAD) + 2
    rows = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        number, wrong, tests, careless = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append(Row(int(number), wrong, _tests(tests, int(number)), careless.split("<br>")))
    return rows


def _tests(cell: str, number: int) -> dict[str, list[str]]:
    found = {}
    for part in filter(None, cell.split("<br>")):
        file, names = re.fullmatch(r"`([^`]+)`: (.+)", part).groups()  # type: ignore[union-attr]
        found[file] = [f"test_case_{number:02d}_{name}" for name in names.split(", ")]
    return found

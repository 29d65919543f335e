"""The table of public faults in tests/README.md against the tests, and their careless variants."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutations.mapping import Row, read, table
from tests.mutations.mutation import ROOT, Case, Mutation, Stale, cases
from tests.mutations.suite import named

CASES = (
    *(1, 2, 3, 4, 6, 7, 9, 10, 11, 12, 13, 15, 16, 17, 20, 21, 22, 24, 25, 26, 27, 29, 30),
    *(32, 33, 34, 35, 37, 38, 39, 40, 41, 42, 45, 46, 48),
)
HINT = "python -m tests.mutations --table prints the table that fits"


@pytest.fixture(scope="module")
def rows() -> dict[int, Row]:
    return {row.number: row for row in read()}


def test_thirty_six_cases_are_listed_and_no_other(rows: dict[int, Row]) -> None:
    assert len(CASES) == len(set(CASES)) == 36
    assert tuple(rows) == CASES
    assert tuple(case.number for case in cases()) == CASES
    numbers = {int(name[10:12]) for names in named("test_case_").values() for name in names}
    assert numbers == set(CASES)


@pytest.mark.parametrize("number", CASES)
def test_the_table_names_every_test_of_a_case_and_no_other(
    rows: dict[int, Row], number: int
) -> None:
    found = named(f"test_case_{number:02d}_")
    assert found, "no test that runs by default"
    assert rows[number].tests == found, HINT


@pytest.mark.parametrize("case", cases(), ids=lambda case: f"{case.number:02d}")
def test_every_careless_variant_still_fits_the_code(case: Case, rows: dict[int, Row]) -> None:
    assert case.mutations
    for mutation in case.mutations:
        assert mutation.applied(ROOT) != (ROOT / mutation.file).read_text(encoding="utf-8")
    row = rows[case.number]
    assert (row.wrong, row.careless) == (case.wrong, [one.careless for one in case.mutations]), HINT


def test_a_variant_that_no_longer_fits_is_stale() -> None:
    for file, old in [("run.py", "text that is not there"), ("run.py", "import"), ("none.py", "a")]:
        with pytest.raises(Stale, match=r"the old text of 'sloppy' is there \d+ times"):
            Mutation("sloppy", file, old, "b").applied(ROOT)


def test_the_printed_table_is_the_one_that_is_read(tmp_path: Path) -> None:
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n\n{table()}\n\nafter\n")
    assert [row.number for row in read(readme)] == [case.number for case in cases()]
    assert all(row.tests == named(f"test_case_{row.number:02d}_") for row in read(readme))

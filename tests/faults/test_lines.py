"""Lines that prove themselves, and files that only grow by whole ones."""

from __future__ import annotations

import json
import string
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.atomic import Growing, replace_bytes
from harness.lines import STEPS, by_key
from harness.sealed import SEAL, read_lines, sealed, unsealed
from tests.faults.disk import largest_file

TEXTS = st.text(st.characters(exclude_categories=()), max_size=30)
VALUES = st.dictionaries(
    st.text(string.ascii_lowercase, min_size=1).filter(lambda name: name != SEAL),
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    min_size=1,
    max_size=5,
)
KEYS = st.tuples(st.sampled_from("abc"), st.integers(0, 1), st.integers(0, 1))


@given(VALUES)
def test_what_was_written_is_read(values: dict[str, object]) -> None:
    """Any text, lone surrogates and line ends of other alphabets included."""
    line = sealed(values)
    assert line.raw.count(b"\n") == 1
    assert unsealed(line.raw) == line
    assert unsealed(line.raw).values == values  # type: ignore[union-attr]


@given(VALUES, st.data())
def test_a_line_that_was_changed_anywhere_is_none_or_says_the_same(
    values: dict[str, object], data: st.DataObject
) -> None:
    """Careless: a digit that turned into another digit is a measurement."""
    raw = sealed(values).raw
    start = data.draw(st.integers(0, len(raw) - 1))
    end = data.draw(st.integers(start, len(raw)))
    harmed = raw[:start] + data.draw(st.binary(max_size=8)) + raw[end:]
    found = [unsealed(part) for part in harmed.splitlines(keepends=True)]
    for one in found:
        if one is not None and one.proven:
            assert one.values == values


@given(VALUES, st.data())
def test_a_line_that_was_cut_is_none(values: dict[str, object], data: st.DataObject) -> None:
    raw = sealed(values).raw
    assert unsealed(raw[: data.draw(st.integers(0, len(raw) - 1))]) is None


def test_lines_without_a_checksum_count_only_where_no_line_has_one(tmp_path: Path) -> None:
    """Careless: damage that hits the checksum's name makes its line one of an older version."""
    older, newer = b'{"a": 1}\n', sealed({"a": 2}).raw
    (tmp_path / "file").write_bytes(older)
    assert [line.values for line in read_lines(tmp_path / "file")] == [{"a": 1}]
    (tmp_path / "file").write_bytes(newer.replace(SEAL.encode(), b"crc3x") + newer)
    assert [line.values for line in read_lines(tmp_path / "file")] == [{"a": 2}]
    for other in (b"[]\n", b"3\n", b"\n", b"[" * 100_000 + b"\n", b'{"a": 1}'):
        assert unsealed(other) is None


@given(st.lists(st.tuples(KEYS, st.integers(0, 1))))
def test_a_generation_has_one_line_or_none(
    given_lines: list[tuple[tuple[str, int, int], int]],
) -> None:
    """Copies count once; of lines that contradict each other none does."""
    lines = [STEPS.line(key, [{"committed": value}]) for key, value in given_lines]
    found = by_key([*lines, sealed({"no": "key"})])
    for key in {key for key, _ in given_lines}:
        said = {value for other, value in given_lines if other == key}
        assert (key in found) == (len(said) == 1)
    assert list(found) == [
        key for key in dict.fromkeys(key for key, _ in given_lines) if key in found
    ]


@pytest.mark.parametrize("size", [10, 11, 25, 39])
def test_a_line_that_does_not_fit_leaves_the_file_as_it_was(tmp_path: Path, size: int) -> None:
    file = Growing(tmp_path / "lines")
    file.write(b"0123456789")
    with largest_file(size), pytest.raises(OSError, match=r"too large.*lines"):
        file.write(b"x" * 30)
    assert (tmp_path / "lines").read_bytes() == b"0123456789"
    file.write(b"y" * 30)
    file.close()
    assert (tmp_path / "lines").read_bytes() == b"0123456789" + b"y" * 30


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    replace_bytes(tmp_path / "file", b"old")
    with largest_file(50), pytest.raises(OSError, match="too large"):
        replace_bytes(tmp_path / "file", b"new" * 1000)
    assert [(file.name, file.read_bytes()) for file in tmp_path.iterdir()] == [("file", b"old")]


def test_broken_lines_are_left_out_wherever_they_stand(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lines = [sealed({"i": i}).raw for i in range(5)]
    lines[2] = lines[2].replace(b'"i": 2', b'"i": 7')
    (tmp_path / "file").write_bytes(b"".join(lines) + b'{"i": 5')
    assert [line.values["i"] for line in read_lines(tmp_path / "file")] == [0, 1, 3, 4]
    assert "2 broken lines are left out" in caplog.text
    assert read_lines(tmp_path / "none") == []
    assert json.loads(lines[0])["i"] == 0

from __future__ import annotations

import csv
import io
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.report.book import Shown
from harness.report.layout import Column, Layout
from harness.report.layouts import texts
from harness.report.spec import TableSpec
from harness.report.tables import TABLES
from harness.report.words import marked, ratio_text
from harness.report.write import latex, markdown, write_table
from tests.support.collection import sample_collection

SPECIAL = r"50% of A_B & C#1 {x} ~ ^ $5 \cmd | <b> 'q'"
TEXT = st.text(st.characters(exclude_categories=("Cs", "Cc")), max_size=20)


def shown(heads: list[str], rows: list[list[str]], caption: str = "words") -> Shown:
    frame = pd.DataFrame(rows, columns=heads)
    return Shown(TableSpec("t", "Title", caption, lambda _: frame), frame, heads, rows)


@given(st.lists(st.lists(TEXT, min_size=2, max_size=2), min_size=1, max_size=50))
def test_latex_escapes_every_special_character(rows: list[list[str]]) -> None:
    text = latex(shown(["a", SPECIAL], rows, SPECIAL), "my_table")
    body = [line for line in text.splitlines() if line.startswith("{}")]
    assert len(body) == len(rows) + (2 if len(rows) > 40 else 1)
    for line in body:
        cells = re.sub(r"\\(textbackslash|textasciitilde|textasciicircum|text\w+)\{\}", "", line)
        cells = re.sub(r"\$\\(pm|times|rho|tau|beta)\$", "", cells)
        cells = re.sub(r"\\[&%$#_{}]", "", cells.removesuffix(r" \\"))
        assert cells.count("&") == 1
        assert not re.search(r"[%$#_~^\\<>|]", cells)
    assert depth(text) == 0


def depth(text: str) -> int:
    """Open braces at the end, escaped ones and comments left out."""
    code = re.sub(r"(?<!\\)%[^\n]*", "", text.replace(r"\\", ""))
    plain = re.sub(r"\\[{}]", "", code)
    return plain.count("{") - plain.count("}")


def test_latex_begins_and_ends_what_it_opens() -> None:
    for count in (3, 41):
        text = latex(shown(["a", "b"], [["1", "2"]] * count), "t")
        begun = re.findall(r"\\begin\{(\w+)\}", text)
        assert begun == re.findall(r"\\end\{(\w+)\}", text)[::-1]
        assert (begun == ["longtable"]) == (count > 40)
        assert all(rule in text for rule in (r"\toprule", r"\midrule", r"\bottomrule"))


def test_a_latex_cell_that_opens_with_a_bracket_is_no_argument_of_the_row_end() -> None:
    text = latex(shown(["a", "b"], [["1", "2"], ["[3]", "4"]]), "t")
    assert not re.search(r"\\\\\s*\[", text)


@given(st.lists(st.lists(TEXT, min_size=3, max_size=3), min_size=1, max_size=4))
def test_markdown_keeps_the_columns_whatever_the_cells_hold(rows: list[list[str]]) -> None:
    text = markdown(shown(["a", "b|c", "d"], rows))
    table = [line for line in text.split("\n") if line.startswith("|")]
    assert len(table) == len(rows) + 2
    for line in table:
        assert len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) == 4
        assert "<" not in line


def test_the_csv_holds_numbers_with_a_fixed_format(tmp_path: Path) -> None:
    table = shown(["a"], [["x"]])
    numbers = replace(table, frame=pd.DataFrame({"n": [1, 2], "x": [1 / 3, None]}))
    paths = write_table(numbers, tmp_path, "t")
    assert [path.name for path in paths] == ["t.csv", "t.md", "t.tex"]
    assert paths[0].read_bytes() == b"n,x\n1,0.333333\n2,\n"


@pytest.mark.parametrize("name", list(TABLES))
def test_every_table_is_laid_out_as_a_rectangle_of_texts(name: str) -> None:
    frame = TABLES[name].build(sample_collection())
    heads, rows = texts(name, frame)
    assert rows
    assert len(set(heads)) == len(heads)
    assert all(len(row) == len(heads) for row in rows)
    assert all(isinstance(text, str) for row in rows for text in row)
    assert not any(word in text.lower() for row in rows for text in row for word in ("nan", "none"))
    numbers = list(csv.reader(io.StringIO(frame.to_csv(index=False))))
    assert len(numbers) == len(frame) + 1


def test_marks_say_corrected_hindsight_and_lossy() -> None:
    row = {"method_label": "M", "scores": "draft", "lossless": True}
    assert marked(row) == "M"
    assert marked(row | {"scores": "isotonic"}) == "M *"
    assert marked(row | {"scores": "verdict"}) == "M ^"
    assert marked(row | {"scores": "beta", "lossless": False}) == "M *!"


def test_a_ratio_is_shown_only_when_its_interval_leaves_out_one() -> None:
    assert ratio_text(1.2, 1.1, 1.3) == "1.20x [1.10, 1.30]"
    assert ratio_text(1.05, 0.99, 1.1) == "no difference shown [0.99, 1.10]"
    assert ratio_text(1.0, 1.0, 1.0) == "no difference shown [1.00, 1.00]"
    assert ratio_text(1.2, None, None) == "1.20x, 1 prompt"
    assert ratio_text(None, None, None) == "-"


def test_one_engine_needs_no_engine_column() -> None:
    layout = Layout(
        (Column("engine", lambda row: row["e"], dropped=True), Column("x", lambda row: row["x"]))
    )
    frame = pd.DataFrame({"e": ["torch", "torch"], "x": ["1", "2"]})
    assert layout.texts(frame) == (["x"], [["1"], ["2"]])
    assert layout.texts(frame.assign(e=["torch", "sglang"]))[0] == ["engine", "x"]

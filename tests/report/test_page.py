"""The page: one file, nothing from outside, every text as text, and the policies' own k."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.collection import Collection
from harness.report.book import Book
from harness.report.page import render
from harness.report.page.inline import json_text, picture
from harness.report.page.utility import step_groups
from harness.report.page.view import table_view
from harness.report.spec import Missing
from tests.support.page_book import book_of, marked, sample_data, without_costs

HOSTILE = (
    "\"'</td></script><!--<script>alert(1)</script><img src=x onerror=alert(2)>{{7*7}}\u2028&lt;"
)


class Parsed(HTMLParser):
    """Elements with their attributes, and the text of each kind of element."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.texts.append((self.elements[-1][0] if self.elements else "", data))

    def all(self, tag: str) -> list[dict[str, str]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def values(self, name: str) -> list[str]:
        return [found[name] for _, found in self.elements if name in found]

    def text(self, tag: str | None = None) -> str:
        return "".join(text for owner, text in self.texts if tag in (None, owner))


@pytest.fixture(scope="module")
def data() -> Collection:
    return sample_data()


@pytest.fixture(scope="module")
def page(data: Collection) -> str:
    return render(book_of(data))


def steps_in(page: str) -> list[dict[str, Any]]:
    found = re.search(r'id="recorded-steps">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return list(json.loads(found.group(1)))


def test_nothing_is_asked_for_outside_the_file(page: str) -> None:
    parsed = Parsed(page)
    for address in parsed.values("src") + parsed.values("href"):
        assert address.startswith(("data:", "#"))
    assert not re.search(r"url\(|@import|https?:", page.replace("http://www.w3.org/2000/svg", ""))
    assert not {"iframe", "object", "embed", "form", "base"} & {tag for tag, _ in parsed.elements}


def test_the_policy_allows_this_style_and_script_and_nothing_else(page: str) -> None:
    parsed = Parsed(page)
    (policy,) = [
        found["content"]
        for found in parsed.all("meta")
        if found.get("http-equiv") == "Content-Security-Policy"
    ]
    rules = dict(rule.strip().split(" ", 1) for rule in policy.split(";"))
    (style,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (script,) = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)

    def allowed(text: str) -> str:
        return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

    assert rules == {
        "default-src": "'none'",
        "style-src": allowed(style),
        "script-src": allowed(script),
        "img-src": "data:",
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    assert not [name for _, found in parsed.elements for name in found if name.startswith("on")]
    assert not parsed.values("style")


def test_parts_stand_in_reading_order(page: str) -> None:
    parts = [found.get("id") for tag, found in Parsed(page).elements if tag in ("section", "nav")]
    assert parts == [
        "found",
        "reading",
        "contents",
        "tables",
        "figures",
        "utility-curve",
        "measured",
        "verdicts",
        "definitions",
    ]


def test_links_lead_somewhere_and_ids_are_single(page: str) -> None:
    parsed = Parsed(page)
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    pointed = [address[1:] for address in parsed.values("href") if address.startswith("#")]
    pointed += parsed.values("aria-labelledby") + parsed.values("aria-describedby")
    assert {"table-1-table1", "figure-1-fig1"} <= set(pointed)
    assert set(pointed) <= set(ids)


def test_tables_and_figures_can_be_read_without_seeing(page: str) -> None:
    parsed = Parsed(page)
    assert all(found.get("scope") in ("row", "col") for found in parsed.all("th"))
    (image,) = parsed.all("img")
    assert "Title of fig1" in image["alt"]
    assert (image["width"], image["height"]) == ("462", "264")
    scrolled = [found for _, found in parsed.elements if "scroll" in found.get("class", "")]
    assert scrolled
    assert all(found["tabindex"] == "0" and found["aria-label"] for found in scrolled)


def test_every_part_of_the_book_is_on_the_page(data: Collection) -> None:
    text = Parsed(render(book_of(data, "ZQ"))).text()
    for part in (
        "A title ZQ",
        "second finding ZQ",
        "Caption of table1 ZQ",
        "Caption of fig1 ZQ",
        "EVICT ZQ",
        "python run.py +experiment=fig6 ZQ",
        "a note ZQ",
        "cpu ZQ",
        "1 failed ZQ; 2",
        "the same command resumes it ZQ",
    ):
        assert part in text
    assert "Mean accepted tokens" in text


def test_rules_part_the_groups_of_a_table() -> None:
    rows = [["0", "EVICT", "7.5"], ["0", "EVICT", "7.9"], ["0", "DDD", "1"], ["1", "DDD", "n/a"]]
    view = table_view("t", "title", "caption", ["T", "method", "tok/s"], rows)
    assert [row.next for row in view.rows] == [False, False, True, True]
    assert [head.kind for head in view.heads] == ["", "", "number"]
    single = table_view("t", "title", "", ["run", "n"], [["a", "1"], ["b", "1"]])
    assert not any(row.next for row in single.rows)
    assert table_view("t", "title", "", ["run", "n"], []).rows == []


def test_a_reason_is_said_once_for_all_its_runs(data: Collection) -> None:
    left = {"a/one": "schema 1", "a/two": "cut", "a/three": "schema 1"}
    text = Parsed(render(replace(book_of(data), left_out=left))).text()
    assert text.count("schema 1") == 1
    assert "a/one, a/three" in text


def test_texts_stay_texts(data: Collection, page: str) -> None:
    hostile = render(book_of(marked(data, HOSTILE), HOSTILE))
    parsed, plain = Parsed(hostile), Parsed(page)
    assert [tag for tag, _ in parsed.elements] == [tag for tag, _ in plain.elements]
    assert f"second finding {HOSTILE}" in parsed.text("li")
    assert f"EVICT {HOSTILE}" in parsed.text("th")
    assert f"Title of fig1 {HOSTILE}" in parsed.all("img")[0]["alt"]
    (group, *_) = steps_in(hostile)
    assert group["method"] == f"EVICT{HOSTILE}"
    assert group["prompts"][0]["text"].endswith(HOSTILE)
    assert group["prompts"][0]["id"].endswith(HOSTILE)


@given(st.recursive(st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
@settings(max_examples=100, deadline=None)
def test_json_survives_inside_a_script(value: Any) -> None:
    text = str(json_text(value))
    assert json.loads(text) == value
    assert not set(text) & set("<>&\u2028\u2029")


def test_half_a_surrogate_pair_does_not_stop_the_report(data: Collection) -> None:
    torn = replace(book_of(data), headline=["half \ud83d of a pair"])
    assert "half ? of a pair" in render(torn).encode("utf-8").decode()


def test_same_book_same_bytes(page: str) -> None:
    data = sample_data()
    assert render(book_of(data)) == page
    turned = replace(data, runs=data.runs.iloc[::-1])
    assert render(book_of(turned)) == page


def test_a_page_without_runs_says_what_to_type() -> None:
    text = render(Book("Empty", [], [], {"paper/x": "failed: no request succeeded"}))
    assert "python run.py +experiment=paper" in text
    assert "failed: no request succeeded" in text
    assert "<script" not in text


def test_two_models_keep_their_ids_apart(data: Collection) -> None:
    one, two = book_of(data), book_of(data, label="Other MoE")
    parsed = Parsed(render(replace(one, models=[*one.models, *two.models])))
    ids = parsed.values("id")
    assert len(ids) == len(set(ids))
    assert {"table-1-table1", "table-2-table1"} <= set(ids)
    assert {group["model"] for group in steps_in(render(two))} == {"Other MoE"}


def test_without_costs_or_trees_the_reason_stands_in(data: Collection) -> None:
    for poor in (without_costs(data), replace(data, trees=data.trees.iloc[:0])):
        with pytest.raises(Missing, match=r"run: python run\.py"):
            step_groups("m", poor)
        text = render(book_of(poor))
        assert "run: python run.py" in Parsed(text).text("p")
        assert "recorded-steps" not in text
        assert "<script" not in text


def test_a_picture_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="not a PNG"):
        picture(b"<svg onload=alert(1)>")

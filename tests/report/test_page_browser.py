"""The page in a real browser: it draws what Python computed, asks for nothing, runs nothing."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.report.page import render
from harness.report.page.utility import step_groups
from tests.support.page_book import book_of, marked, sample_data

CHROMIUM, DRIVER = Path("/usr/bin/chromium"), Path("/usr/bin/chromedriver")
NEEDED = "the page's browser tests need Chromium; install: apt-get install chromium chromium-driver"
HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>"
READ = {"k": "k-chosen", "expected": "expected", "utility": "utility", "accepted": "accepted"}


def without_browser(reason: str) -> None:
    """A missing browser is a skip on a desk and a failure where the tests are the gate."""
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        without_browser("the page's browser tests need: pip install selenium")
    if not (CHROMIUM.is_file() and DRIVER.is_file()):
        without_browser(NEEDED)
    options = webdriver.ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900"):
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(str(DRIVER)))
    yield driver
    driver.quit()


@pytest.fixture
def shown(browser: Any, tmp_path: Path) -> Any:
    """Opens the sample's page."""
    return opened(browser, tmp_path, render(book_of(sample_data())))


def opened(browser: Any, folder: Path, page: str) -> Any:
    file = folder / "report.html"
    file.write_text(page, encoding="utf-8")
    browser.get("about:blank")
    for kind in ("browser", "performance"):
        browser.get_log(kind)
    browser.get(file.as_uri())
    return browser


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def choice(browser: Any, name: str) -> Any:
    from selenium.webdriver.support.ui import Select

    return Select(browser.find_element("id", name))


def requested(browser: Any) -> list[str]:
    events = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    return [
        event["params"]["request"]["url"]
        for event in events
        if event["method"] == "Network.requestWillBeSent"
    ]


def check(browser: Any, step: dict[str, Any]) -> None:
    """The numbers on the page are those of this step."""
    for name, place in READ.items():
        assert float(text(browser, place)) == step["at"]["evict"][name]
    assert int(text(browser, "k-oracle")) == step["at"]["oracle"]["k"]
    assert int(text(browser, "k-full")) == len(step["tokens"])


def test_the_page_opens_quietly(shown: Any) -> None:
    assert shown.get_log("browser") == []
    urls = requested(shown)
    assert urls
    assert all(url.startswith(("file:", "data:")) for url in urls)


def test_every_step_reads_out_what_python_chose(shown: Any) -> None:
    group = step_groups("Sample MoE", sample_data())[0]
    check(shown, group["steps"][0])
    for step in group["steps"][1:]:
        shown.find_element("id", "u-next").click()
        check(shown, step)
    assert len({step["at"]["evict"]["k"] for step in group["steps"]}) > 2
    assert not shown.find_element("id", "u-next").is_enabled()
    shown.find_element("id", "u-previous").click()
    check(shown, group["steps"][-2])


def test_keys_and_slider_move_the_step(shown: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    steps = step_groups("Sample MoE", sample_data())[0]["steps"]
    slider, stage = (shown.find_element("id", name) for name in ("u-step", "stage"))
    slider.send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    check(shown, steps[2])
    slider.send_keys(Keys.END)
    check(shown, steps[-1])
    stage.send_keys(Keys.ARROW_LEFT)
    check(shown, steps[-2])
    assert text(shown, "step-place") == f"{len(steps) - 1} of {len(steps)}"


def test_benchmark_temperature_and_prompt_can_be_chosen(shown: Any) -> None:
    for group in step_groups("Sample MoE", sample_data()):
        choice(shown, "u-benchmark").select_by_visible_text(group["benchmark"])
        choice(shown, "u-temperature").select_by_visible_text(f"T={group['temperature']:g}")
        check(shown, group["steps"][0])
        last = len(group["prompts"]) - 1
        choice(shown, "u-prompt").select_by_index(last)
        check(shown, next(step for step in group["steps"] if step["prompt"] == last))
        assert group["prompts"][last]["id"] in text(shown, "step-words")


def test_the_tree_shows_what_was_kept(shown: Any) -> None:
    step = step_groups("Sample MoE", sample_data())[0]["steps"][0]
    k, path = step["at"]["evict"]["k"], step["path"]
    nodes = {
        kind: len(shown.find_elements("css selector", f"#tree .node.{kind}"))
        for kind in ("inside", "outside", "inside.kept", "outside.kept")
    }
    assert nodes == {
        "inside": k,
        "outside": len(step["tokens"]) - k,
        "inside.kept": sum(node < k for node in path),
        "outside.kept": sum(node >= k for node in path),
    }
    edges = shown.find_elements("css selector", "#tree .edge.kept")
    assert len(edges) == len(path) - 1
    assert len(shown.find_elements("css selector", "#nodes tr")) == len(step["tokens"])


def test_hostile_texts_are_shown_and_never_run(browser: Any, tmp_path: Path) -> None:
    from selenium.common.exceptions import NoAlertPresentException

    opened(browser, tmp_path, render(book_of(marked(sample_data(), HOSTILE), HOSTILE)))
    with pytest.raises(NoAlertPresentException):
        _ = browser.switch_to.alert.text
    assert browser.get_log("browser") == []
    assert browser.title.strip() == f"A title {HOSTILE}"
    assert browser.execute_script("return document.querySelectorAll('img').length") == 1
    assert browser.execute_script("return document.scripts.length") == 2
    for place in ("step-origin", "step-words"):
        assert HOSTILE in text(browser, place)
    assert HOSTILE in choice(browser, "u-prompt").first_selected_option.text
    browser.find_element("xpath", "//summary[contains(., 'wrote')]").click()
    assert text(browser, "step-text").endswith(HOSTILE)
    body = browser.find_element("tag name", "main").text
    for words in ("first finding", "EVICT", "Caption of table1", "a note", "cpu", "1 failed"):
        assert f"{words} {HOSTILE}" in body


def test_the_policy_stops_what_slips_through(shown: Any) -> None:
    shown.execute_script(
        "const s = document.createElement('script'); s.textContent = 'window.ran = 1';"
        "document.body.append(s);"
        "const i = document.createElement('img'); i.src = 'http://127.0.0.1:9/x';"
        "document.body.append(i);"
    )
    assert shown.execute_script("return window.ran") is None
    refused = [entry["message"] for entry in shown.get_log("browser")]
    assert any("script-src" in line for line in refused)
    assert any("img-src" in line for line in refused)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_sticks_out_at(shown: Any, width: int) -> None:
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    shown.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        shown.refresh()
        assert shown.execute_script("return document.documentElement.scrollWidth") <= width
        overhang = (
            "const svg = document.getElementById(arguments[0]), box = svg.getBoundingClientRect();"
            "return [...svg.querySelectorAll('text')].filter(t => {"
            "  const b = t.getBoundingClientRect();"
            "  return b.left < box.left - 1 || b.right > box.right + 1; }).map(t => t.textContent);"
        )
        assert [shown.execute_script(overhang, name) for name in ("tree", "curves")] == [[], []]
    finally:
        shown.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

"""The report in a real browser: laid out on wide and narrow screens, light and dark, asking for nothing.

Where there is no browser these tests are skipped, or fail with HOLDFAST_BROWSER_REQUIRED=1.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from holdfast.report.facts import Facts
from tests.docs.pages import ROOT

WIDE, NARROW = {"width": 1200, "height": 900}, {"width": 390, "height": 844}

# What sticks out of the drawing or the screen it is in.
OUTSIDE = """() => {
    const found = [];
    for (const svg of document.querySelectorAll("svg")) {
        const frame = svg.viewBox.baseVal;
        for (const text of svg.querySelectorAll("text:not([transform])")) {
            const box = text.getBBox();
            if (box.x < -3 || box.x + box.width > frame.width + 3 || box.y < 0 || box.y + box.height > frame.height)
                found.push(text.textContent);
        }
    }
    return found;
}"""
OVERLAPS = """() => {
    const found = [];
    for (const svg of document.querySelectorAll("svg")) {
        const boxes = [...svg.querySelectorAll("text:not([transform])")].map(t => [t.textContent, t.getBBox()]);
        boxes.forEach(([one, a], at) => boxes.slice(at + 1).forEach(([other, b]) => {
            const across = Math.min(a.x + a.width, b.x + b.width) - Math.max(a.x, b.x);
            const along = Math.min(a.y + a.height, b.y + b.height) - Math.max(a.y, b.y);
            if (across > 1 && along > 4) found.push([one, other]);
        }));
    }
    return found;
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    looked = subprocess.run([ROOT / "scripts" / "browser.sh", "--look"], capture_output=True, text=True)
    if looked.returncode:
        reason = looked.stderr.strip()
        if os.environ.get("HOLDFAST_BROWSER_REQUIRED") == "1":
            pytest.fail(reason)
        pytest.skip(reason)
    with sync_playwright() as playwright:
        # Its sandbox needs rights that containers rarely give; the page is our own.
        launched = playwright.chromium.launch(executable_path=looked.stdout.strip(), args=["--no-sandbox"])
        yield launched
        launched.close()


@pytest.fixture(scope="module")
def address(html: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    path: Path = tmp_path_factory.mktemp("page") / "holdfast-tour.html"
    path.write_text(html, encoding="utf-8")
    return path.as_uri()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    opened = browser.new_page(viewport=WIDE)
    yield opened
    opened.close()


def test_the_report_opens_without_asking_or_complaining(page: Page, address: str, facts: Facts) -> None:
    requests: list[str] = []
    complaints: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(address)
    assert page.title() == "Holdfast: a tour"
    assert page.locator("h1").inner_text() == "Files churn. Rows hold fast."
    assert page.locator("dl.facts dd").nth(3).inner_text() == f"{facts.compared:,}"
    assert page.locator("ol.life li").count() == len(facts.row.events)
    assert page.locator("svg .dot").count() == 2 * len(facts.row.events)
    assert page.locator("svg .file").count() == len(facts.life.files)
    assert (requests, complaints) == ([address], [])


def test_nothing_sticks_out_or_lies_on_something_else(page: Page, address: str) -> None:
    for screen in (WIDE, NARROW):
        page.set_viewport_size(screen)  # type: ignore[arg-type]
        page.goto(address)
        assert page.evaluate("document.documentElement.scrollWidth") == screen["width"]
        assert page.evaluate(OUTSIDE) == []
        assert page.evaluate(OVERLAPS) == []


def test_the_line_of_the_id_is_straight_and_long(page: Page, address: str) -> None:
    page.goto(address)
    line = page.locator("svg .identity").evaluate("line => [line.y1.baseVal.value, line.y2.baseVal.value]")
    assert line[0] == line[1]
    assert page.locator("svg .identity").bounding_box()["width"] > 600  # type: ignore[index]


def test_numbers_and_code_open_on_a_key(page: Page, address: str) -> None:
    page.goto(address)
    table = page.locator("#way table")
    assert not table.is_visible()
    page.locator("#way summary").focus()
    page.keyboard.press("Enter")
    assert table.is_visible()
    assert page.locator("#way tbody tr").count() == 6


def test_dark_is_dark_and_paper_is_white(page: Page, address: str) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    seen = []
    for scheme, medium in (("light", "screen"), ("dark", "screen"), ("dark", "print")):
        page.emulate_media(color_scheme=scheme, media=medium)  # type: ignore[arg-type]
        page.goto(address)
        seen.append(page.evaluate(ground))
    assert seen == ["rgb(251, 250, 247)", "rgb(16, 23, 30)", "rgb(255, 255, 255)"]
    assert page.pdf(format="A4").startswith(b"%PDF")

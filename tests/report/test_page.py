"""A report says what the tour found, asks for nothing, and can be read by everybody."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from holdfast.cli.tour import code as tour_code
from holdfast.cli.tour.guide import shown
from holdfast.report.code import python
from holdfast.report.facts import Facts
from holdfast.report.style import SHEET
from holdfast.report.words import file_name, many, size, span

VOID = {"meta", "br"}


class Page(HTMLParser):
    """The elements of a page, and whether each is closed where it belongs."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_every_element_is_closed_where_it_belongs(html: str) -> None:
    read = Page(html)
    assert read.open == []
    ids = [attrs["id"] for _, attrs in read.elements if "id" in attrs]
    assert len(ids) == len(set(ids))


def test_the_page_has_the_numbers_of_the_tour(html: str, facts: Facts) -> None:
    text = " ".join(Page(html).text)
    assert f"{facts.compared:,}" in text
    for version in facts.life.versions:
        assert f"{version.rows:,}" in text
        assert version.operation in text
    for lookup in facts.lookups:
        assert span(lookup.seconds) in text
    for answer in facts.answers:
        assert f"{sum(answer.rows.values()):,} rows, {span(answer.seconds)}" in text
    for step in facts.steps:
        assert step.title in text
        assert all(claim in text for claim in step.checks)
        assert not step.written.total or size(step.written.total) in text
    for event in facts.row.events:
        assert f"file {file_name(event.file or '')}…, position {event.position}" in text
    assert all(writer.did in text for writer in facts.writers)


def test_the_page_asks_for_nothing(html: str) -> None:
    assert set(re.findall(r"https?://[^\"<\s]+", html)) == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"<script|<link|<img|<iframe|\bsrc=|@import|url\(|\bon\w+=", html)


def test_what_comes_from_outside_is_escaped(html: str) -> None:
    assert "there is no &lt;Java&gt;" in html
    assert "<Java>" not in html


def test_every_drawing_can_be_read_without_seeing_it(html: str) -> None:
    read = Page(html)
    drawings = [attrs for tag, attrs in read.elements if tag == "svg"]
    known = {attrs.get("id") for _, attrs in read.elements}
    assert len(drawings) == 5
    for drawing in drawings:
        assert drawing["role"] == "img"
        assert set((drawing["aria-labelledby"] or "").split()) <= known
    figures = re.findall(r"<figure.*?</figure>", html, re.DOTALL)
    assert len(figures) == len(drawings)
    assert all("<desc" in figure and "<table" in figure for figure in figures)


def test_headings_go_down_one_level_at_a_time(html: str) -> None:
    levels = [int(tag[1]) for tag, _ in Page(html).elements if re.fullmatch(r"h\d", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(below - above <= 1 for above, below in pairwise(levels))


@pytest.mark.parametrize("function", [tour_code.create, tour_code.race, tour_code.prove], ids=lambda f: f.__name__)
def test_marked_code_is_the_code(function: object) -> None:
    code = shown(function).text  # type: ignore[arg-type]
    assert "".join(Page(python(code)).text) == code


def test_marks_are_on_what_they_should_be() -> None:
    assert python('if x:  # "<&>"\n    y = "a"') == (
        '<pre><code><span class="k">if</span> x:  <span class="c"># &quot;&lt;&amp;&gt;&quot;</span>\n'
        '    y = <span class="s">&quot;a&quot;</span></code></pre>'
    )


@pytest.mark.parametrize("ink", ["ink", "muted", "row", "comment", "string", "keyword"])
def test_text_stands_out_from_its_ground(ink: str) -> None:
    """In every mode: light, dark, and on paper."""
    modes = [dict(re.findall(r"--([\w-]+): (#\w{6})", part)) for part in re.split(r":root {", SHEET)[1:]]
    assert len(modes) == 3
    for mode in modes:
        for ground in ("paper", "raised", "zebra"):
            light, dark = sorted((_luminance(mode[ink]), _luminance(mode[ground])), reverse=True)
            assert (light + 0.05) / (dark + 0.05) >= 4.5, (ink, ground)


def test_numbers_in_words() -> None:
    assert [many(1, "file"), many(2000, "file")] == ["1 file", "2,000 files"]
    assert [size(0), size(999), size(1000), size(123_456), size(5 * 10**12)] == [
        "0 B",
        "999 B",
        "1.0 kB",
        "123 kB",
        "5.0 TB",
    ]
    assert [span(0.0012), span(0.0123), span(1.25)] == ["1.2 ms", "12 ms", "1.2 s"]


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue

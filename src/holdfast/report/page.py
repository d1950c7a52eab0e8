"""Renders the report of a tour as one self-contained HTML page.

1. The page loads nothing: no network, no script, no font. It can be sent by mail and printed.
2. Every number on it comes from the facts, and every chart has its numbers as a table.
3. All text from a table is escaped.
"""

from __future__ import annotations

import datetime
from html import escape

from holdfast.plan.changefeed.biography import Event
from holdfast.report.charts import bytes_chart, changes_chart, life_chart, lookup_chart
from holdfast.report.code import python
from holdfast.report.facts import Facts, TourStep
from holdfast.report.row_chart import row_chart
from holdfast.report.style import SHEET
from holdfast.report.svg import Figure, NumberTable, table, tag
from holdfast.report.words import file_name, many, number, size, span

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"


def page(facts: Facts) -> str:
    body = "".join(
        [
            _header(facts),
            "<main>",
            _section(_figure(row_chart(facts.life, facts.row, facts.row_name))),
            _section(_figure(life_chart(facts.life))),
            _section(_writers(facts)),
            _section(_figure(lookup_chart(facts.lookups))),
            _section(_figure(changes_chart(facts.answers))),
            _section(_figure(bytes_chart(facts.steps))),
            _section(_biography(facts)),
            _section(_proof(facts)),
            _section(_steps(facts)),
            "</main>",
            _footer(facts),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>Holdfast: a tour</title>\n<style>{SHEET}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _header(facts: Facts) -> str:
    removed = sum(not file.is_live for file in facts.life.files)
    figures = (
        ("versions of the table", number(len(facts.life.versions)), ""),
        ("data files came", number(len(facts.life.files)), ""),
        ("of them went", number(removed), ""),
        ("rows compared", number(facts.compared), ""),
        ("ids that changed", "0", "held"),
    )
    entries = "".join(
        tag("div", tag("dt", escape(what)), tag("dd", escape(value)), class_=shape or None)
        for what, value, shape in figures
    )
    checks = sum(len(step.checks) for step in facts.steps)
    return tag(
        "header",
        tag("div", "holdfast", class_="mark"),
        tag("h1", "Files churn. <em>Rows hold fast.</em>"),
        tag(
            "p",
            "A tour on a Delta table made for it: appends, an upsert, a delete, three writers at once, a compaction, "
            f"an erasure. {many(checks, 'claim')} were checked on the way, and all of them hold.",
            class_="lead",
        ),
        tag("dl", entries, class_="facts"),
    )


def _section(inner: str) -> str:
    return tag("section", inner)


def _figure(figure: Figure) -> str:
    return tag(
        "figure",
        tag("figcaption", tag("h2", escape(figure.title)), tag("p", escape(figure.says))),
        tag("div", figure.svg, class_="scroll", tabindex=0, role="region", aria_label=figure.title),
        _folded("The numbers", table(figure.numbers)),
        id=figure.name,
    )


def _folded(summary: str, inner: str) -> str:
    return tag("details", tag("summary", escape(summary)), inner)


def _writers(facts: Facts) -> str:
    writers = sorted(facts.writers, key=lambda writer: writer.version)
    rows = tuple((w.name, w.did, number(w.tries), number(w.version)) for w in writers)
    return "".join(
        [
            tag("h2", "Three writers, one file, nobody lost"),
            tag(
                "p",
                "All three read the same version and changed another row of one file. Whoever came later looked at the "
                "rows that were touched, and committed on top.",
            ),
            table(NumberTable(("writer", "did", "tries", "committed as version"), rows)),
            tag(
                "p",
                "Two that want the same row cannot both have it. The second is told which row, and by whom:",
                class_="after",
            ),
            tag("blockquote", escape(facts.conflict)),
        ]
    )


def _biography(facts: Facts) -> str:
    events = "".join(tag("li", _event(event)) for event in facts.row.events)
    return "".join(
        [
            tag("h2", f"The life of row {facts.row.row_id}"),
            tag(
                "p",
                escape(f"What biography({facts.row.row_id}) tells of {facts.row_name}, from the log and the files."),
            ),
            tag("ol", events, class_="life"),
        ]
    )


def _event(event: Event) -> str:
    when = "" if event.version is None else f"version {event.version}, {event.operation}"
    place = "" if event.file is None else f"file {file_name(event.file)}…, position {event.position}"
    details = "; ".join(part for part in (place, event.detail) if part)
    return f"<b>{escape(event.what.value)}</b> <span>in {escape(when)}</span><br>{escape(details)}"


def _proof(facts: Facts) -> str:
    return "".join(
        [
            tag("h2", "Erased, with proof"),
            tag(
                "p",
                "The rows of one customer were taken out, the files that held them vacuumed, and what is left was read "
                "by row id, hidden rows and index included.",
            ),
            tag("blockquote", escape(facts.proof)),
        ]
    )


def _steps(facts: Facts) -> str:
    return "".join(
        [
            tag("h2", "Every step, as it was typed"),
            tag("p", "The code that was shown is the code that ran."),
            tag("ol", *map(_step, facts.steps), class_="steps"),
        ]
    )


def _step(step: TourStep) -> str:
    if step.skipped:
        return tag("li", tag("h3", escape(step.title)), tag("p", escape(f"Left out: {step.skipped}")))
    cost = f"The code, {span(step.seconds)}" + (f", {size(step.written.total)} written" if step.written.total else "")
    return tag(
        "li",
        tag("h3", escape(step.title)),
        tag("p", escape(step.says)),
        tag("ul", *(tag("li", escape(claim)) for claim in step.checks)) if step.checks else "",
        _folded(cost, python(step.code)),
    )


def _footer(facts: Facts) -> str:
    created = datetime.datetime.fromtimestamp(facts.made_ms / 1000, datetime.UTC).strftime("%Y-%m-%d %H:%M UTC")
    software = ", ".join(f"{name} {version}" for name, version in facts.software.items())
    return tag(
        "footer",
        tag("p", escape(f"Made {created} by holdfast tour, in {many(round(facts.seconds), 'second')}. {software}.")),
    )

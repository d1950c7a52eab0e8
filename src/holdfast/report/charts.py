"""Charts of the tour's report: rows and files per version, change queries, lookup times, bytes written.

1. Bars begin at zero and are proportional to their amounts; each has its number next to it.
2. A colour has one meaning within a chart, and is never the only sign of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from holdfast.report.facts import ChangeCounts, Life, Lookup, TourStep
from holdfast.report.svg import Figure, NumberTable, drawing, hint, tag, text
from holdfast.report.words import many, number, size, span

_WIDTH = 1080.0
_TYPES = (
    ("insert", "inserted"),
    ("update_preimage", "before an update"),
    ("update_postimage", "after an update"),
    ("delete", "deleted"),
)
_KINDS = (("data", "data files"), ("vectors", "deletion vectors"), ("log", "log"), ("index", "index"))
_SAYS = {
    "append-only": "what was added and is still there",
    "upsert": "what was added or changed, as it is now",
    "min-delta": "the net change of each row",
    "full-delta": "every change of every commit",
}


def life_chart(life: Life) -> Figure:
    """Rows and files of each version, one above the other."""
    left, right, top, tall, gap = 96.0, 24.0, 34.0, 110.0, 54.0
    column = (_WIDTH - left - right) / len(life.versions)
    most_rows = max(max(v.rows for v in life.versions), 1)
    most_files = max(max(v.files for v in life.versions), 1)
    floor, base = top + tall, top + 2 * tall + gap
    edge = f"M{left:.1f} {floor:.1f}"
    parts = [text(0, top + 10, "rows", class_="strong"), text(0, floor + gap + 10, "files", class_="strong")]
    parts += [_rule(left, floor), _rule(left, base)]
    for at, version in enumerate(life.versions):
        x = left + column * at
        edge += f"L{x:.1f} {floor - tall * version.rows / most_rows:.1f}h{column:.1f}"
        height = tall * version.files / most_files
        tooltip = hint(
            f"version {version.number}, {version.operation}: {many(version.files, 'file')}, {size(version.bytes)}"
        )
        bar = tag("rect", tooltip, x=x + 3, y=base - height, width=column - 6, height=height, rx=2, class_="bar")
        parts += [
            bar,
            text(x + column / 2, base - height - 5, number(version.files), class_="small", text_anchor="middle"),
        ]
        parts.append(
            text(x + column / 2, base + 16, number(version.number), class_="small muted", text_anchor="middle")
        )
    falls = [now.files < before.files for before, now in pairwise(life.versions)]
    for at, (fell, falling) in enumerate(pairwise([False, *falls]), 1):
        if falling and not fell:
            now, near = life.versions[at], max(v.files for v in life.versions[at : at + 3])
            x, y = left + column * at + 4, base - tall * near / most_files - 24
            parts.append(text(x, y, now.operation.lower(), class_="small muted"))
    parts.append(tag("path", d=f"{edge}V{floor:.1f}Z", class_="area"))
    parts.append(text(_WIDTH - right, top - 8, number(life.versions[-1].rows), class_="small", text_anchor="end"))
    parts.append(text(0, base + 16, "version", class_="small muted"))
    about = (
        f"Rows grow to {number(most_rows)}; files grow to {most_files} and end at {life.versions[-1].files}, because "
        "compaction writes them together."
    )
    return Figure(
        "life",
        "The table's life",
        "Rows that can be seen, and data files, version by version.",
        about,
        drawing("life", "The table's life", about, _WIDTH, base + 26, *parts),
        NumberTable(
            ("version", "operation", "rows", "hidden rows", "files", "size of files"),
            tuple(
                (f"{v.number}", v.operation, number(v.rows), number(v.hidden), number(v.files), size(v.bytes))
                for v in life.versions
            ),
        ),
    )


def changes_chart(answers: Sequence[ChangeCounts]) -> Figure:
    """The result of each change query, by change type."""
    left, room, high = 290.0, 560.0, 58.0
    most = max(sum(answer.rows.values()) for answer in answers)
    parts = _legend([(f"change-{name}", label) for name, label in _TYPES], left)
    for at, answer in enumerate(answers):
        y, x = 48 + at * high, left
        parts.append(text(0, y + 14, answer.kind, class_="strong"))
        parts.append(text(0, y + 31, _SAYS.get(answer.kind, ""), class_="small muted"))
        for name, label in _TYPES:
            if count := answer.rows.get(name, 0):
                width = room * count / most
                tooltip = hint(f"{answer.kind}: {number(count)} {label}")
                parts.append(
                    tag("rect", tooltip, x=x, y=y, width=max(width - 1, 1), height=24, class_=f"change-{name}")
                )
                x += width
        count = sum(answer.rows.values())
        parts.append(text(x + 8, y + 17, f"{number(count)} rows, {span(answer.seconds)}", class_="small"))
    about = "; ".join(f"{a.kind}: {number(sum(a.rows.values()))} rows" for a in answers)
    return Figure(
        "changes",
        "What happened? Four answers",
        "The same stretch of versions, asked in four ways. Rows that were only moved by the compaction are in none.",
        about,
        drawing("changes", "Four change queries", about, _WIDTH, 48 + len(answers) * high, *parts),
        NumberTable(
            ("kind", *(label for _, label in _TYPES), "files opened", "time"),
            tuple(
                (a.kind, *(number(a.rows.get(name, 0)) for name, _ in _TYPES), size(a.bytes_read), span(a.seconds))
                for a in answers
            ),
        ),
    )


def lookup_chart(lookups: Sequence[Lookup]) -> Figure:
    """The time to find one row by its key."""
    left, room, high = 290.0, 560.0, 46.0
    most = max(lookup.seconds for lookup in lookups)
    parts = []
    for at, lookup in enumerate(lookups):
        y = 8 + at * high
        width = room * lookup.seconds / most
        faster = most / lookup.seconds
        duration = span(lookup.seconds) + (f", {faster:.0f} times as fast" if faster >= 2 else "")
        parts.append(text(0, y + 17, lookup.how, class_="strong"))
        parts.append(text(left - 16, y + 17, many(lookup.files, "file"), class_="small muted", text_anchor="end"))
        shape = "bar" if at else "bar faint"
        parts.append(tag("rect", hint(duration), x=left, y=y, width=max(width, 2), height=24, rx=2, class_=shape))
        parts.append(text(left + width + 8, y + 17, duration, class_="small"))
    about = "; ".join(f"{lookup.how}: {span(lookup.seconds)}" for lookup in lookups)
    return Figure(
        "lookups",
        "Finding one row by its key",
        "The time for one reference, over twenty of them, each asked for once.",
        about,
        drawing("lookups", "Lookups", about, _WIDTH, 8 + len(lookups) * high, *parts),
        NumberTable(("how", "files", "time"), tuple((x.how, number(x.files), span(x.seconds)) for x in lookups)),
    )


def bytes_chart(steps: Sequence[TourStep]) -> Figure:
    """The bytes that each step wrote, by kind of file."""
    writing = [step for step in steps if step.written.total]
    left, room, high = 290.0, 620.0, 30.0
    most = max(step.written.total for step in writing)
    parts = _legend([(f"bytes-{name}", label) for name, label in _KINDS], left)
    for at, step in enumerate(writing):
        y, x = 44 + at * high, left
        parts.append(text(0, y + 14, step.title))
        for name, label in _KINDS:
            if count := getattr(step.written, name):
                width = max(room * count / most, 1.5)
                tooltip = hint(f"{step.title}: {size(count)} of {label}")
                parts.append(tag("rect", tooltip, x=x, y=y, width=width, height=18, class_=f"bytes-{name}"))
                x += width
        parts.append(text(x + 8, y + 14, size(step.written.total), class_="small"))
    about = "; ".join(f"{step.title}: {size(step.written.total)}" for step in writing)
    return Figure(
        "bytes",
        "What was written",
        "Sizes of all files that a step wrote. Upserts and deletes write rows and marks, not files anew; the "
        "compaction wrote no byte of the index.",
        about,
        drawing("bytes", "Bytes written by each step", about, _WIDTH, 48 + len(writing) * high, *parts),
        NumberTable(
            ("step", *(label for _, label in _KINDS), "in all"),
            tuple(
                (s.title, *(size(getattr(s.written, name)) for name, _ in _KINDS), size(s.written.total))
                for s in writing
            ),
        ),
    )


def _legend(entries: Sequence[tuple[str, str]], left: float) -> list[str]:
    parts, x = [], left
    for shape, label in entries:
        parts.append(tag("rect", x=x, y=6, width=12, height=12, rx=2, class_=shape))
        parts.append(text(x + 18, 16, label, class_="small muted"))
        x += 40 + 7.2 * len(label)
    return parts


def _rule(left: float, y: float) -> str:
    return tag("line", x1=left, y1=y, x2=_WIDTH - 24, y2=y, class_="rule")

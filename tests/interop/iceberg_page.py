"""The part of `docs/compatibility.md` about Iceberg tables, written by the run that asked.

1. Same answers, same text: the order is that of stories and engines, and notes are numbered as they come.
2. A cell says yes only if every step of every story behind it was right.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias

from tests.interop.answers import Answer, KnownBug, Refuses, Works, Wrong
from tests.interop.iceberg_engines import ADDRESS, LINEAGE, PLACE, Reader
from tests.interop.iceberg_foreign import AFTERWARDS, OURS, THEIRS, Kind
from tests.interop.iceberg_stories import LAYOUTS, VERSIONS, Plot, Told

TITLE = "## Iceberg tables"
Foreign: TypeAlias = dict[tuple[str, Kind], list[tuple[str, Answer]]]
_Ours: TypeAlias = Mapping[tuple[str, Plot], Sequence[tuple[Told, Answer]]]

_INTRO = """
Tables with structs, lists and maps are written, changed and compacted by Holdfast, and read by every engine after each
step, merge-on-read and copy-on-write. A cell says **yes** when all rows were right after every step of both.
Changes hide rows by position-delete files in version 2 and by deletion vectors in version 3.
"""
_COLUMNS = """
The metadata columns of each row, for Java those of deleted rows too, were compared with those that an engine reports,
in every table of which it tells them.
"""
_FOREIGN = """
Tables that others wrote. After each step Holdfast reads the rows of a model, with the metadata columns that the writer
and Iceberg's Java runtime report; then Holdfast changes the table and its writer reads it; then the writer changes it
again. What was not reached has a dash.
"""


def section(readers: Sequence[Reader], ours: _Ours, theirs: Foreign) -> str:
    """The whole part."""
    notes: dict[str, int] = {}
    lines = [TITLE, _INTRO, *_stories(readers, ours, notes), _COLUMNS, *_columns(readers, ours)]
    lines += ["", "### Iceberg tables of others", _FOREIGN, *_foreign(readers, theirs, notes), ""]
    if notes:
        lines += ["### Notes on Iceberg", "", *(f"{number}. {text}" for text, number in notes.items()), ""]
    return "\n".join(lines)


def _stories(readers: Sequence[Reader], ours: _Ours, notes: dict[str, int]) -> Iterator[str]:
    yield f"| table | {' | '.join(f'{reader.name} {reader.version}' for reader in readers)} |"
    yield f"|---|{'---|' * len(readers)}"
    for version in VERSIONS:
        for layout in LAYOUTS:
            cells = []
            for reader in readers:
                about = [
                    p for engine, p in ours if engine == reader.name and (p.version, p.layout) == (version, layout)
                ]
                answers = [answer for plot in about for _, answer in ours[reader.name, plot]]
                cells.append(_cell(reader.name, answers, notes))
            yield f"| version {version}, {layout} | {' | '.join(cells)} |"


def _columns(readers: Sequence[Reader], ours: _Ours) -> Iterator[str]:
    telling = [reader for reader in readers if reader.tells]
    yield f"| column | {' | '.join(reader.name for reader in telling)} |"
    yield f"|---|{'---|' * len(telling)}"
    for name in (*ADDRESS, *PLACE, *LINEAGE):
        cells = []
        for reader in telling:
            asked = [
                answer
                for (engine, _), done in ours.items()
                for told, answer in done
                if engine == reader.name and name in reader.tells and (told.has_ids or name not in LINEAGE)
            ]
            same = sum(answer == Works() for answer in asked)
            cells.append(f"same in {same} of {len(asked)} tables" if asked else "-")
        yield f"| `{name}` | {' | '.join(cells)} |"


def _foreign(readers: Sequence[Reader], theirs: Foreign, notes: dict[str, int]) -> Iterator[str]:
    versions = {reader.name: reader.version for reader in readers}
    heads = list(dict.fromkeys([*(verb for verb, _ in THEIRS), *(f"{verb} by Holdfast" for verb, _ in OURS)]))
    yield f"| writer | table | {' | '.join(heads)} | {' and '.join(verb for verb, _ in AFTERWARDS)} again |"
    yield f"|---|---|{'---|' * len(heads)}---|"
    before = len(THEIRS) + len(OURS)
    for (engine, kind), told in theirs.items():
        steps = [[answer for step, answer in told[:before] if step == head] for head in heads]
        cells = [_cell(engine, answers, notes) for answers in (*steps, [answer for _, answer in told[before:]])]
        if told[0][0] == "create":
            cells[0] = _cell(engine, [told[0][1]], notes)
        yield f"| {engine} {versions[engine]} | {kind.title} | {' | '.join(cells)} |"


def _cell(engine: str, answers: Sequence[Answer], notes: dict[str, int]) -> str:
    if not answers:
        return "-"
    bad = next((answer for answer in answers if answer != Works()), None)
    match bad:
        case None:
            return "yes"
        case Refuses(text):
            return f"no {_note(f'{engine}: `{text}`', notes)}"
        case KnownBug(text):
            return f"bug {_note(f'{engine} {text}', notes)}"
        case Wrong(text):
            return f"**wrong** {_note(f'{engine}: `{text}`', notes)}"
        case Works():
            return "yes"


def _note(text: str, notes: dict[str, int]) -> str:
    return f"[{notes.setdefault(text, len(notes) + 1)}](#notes-on-iceberg)"

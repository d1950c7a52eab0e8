"""`docs/compatibility.md`: what engines made of our tables, written by the run that asked them.

1. Same answers, same page: the order is that of features, engines and operations, and notes are numbered as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tests.interop.answers import Answer, KnownBug, Refuses, Works, Wrong
from tests.interop.features import BY_NAME, FEATURES, NAMES, Recipe, ordered, recipe
from tests.interop.pairs import met, possible
from tests.interop.trials import FILTER, READ

PLAIN, DEFAULTS = recipe(), recipe("row_tracking", "vectors")
_Done: TypeAlias = Mapping[Recipe, Mapping[str, Answer]]  # what an engine made of each table, by operation

_INTRO = """# Compatibility

What other engines do with tables that Holdfast wrote: Delta tables first, [Iceberg tables](#iceberg-tables) below.
`make interop` writes this page anew from what it finds; editing it by hand is no use. It takes PyPI and Maven, as the
machine has them set up, and some 30 minutes.

Rows are compared by value with those that went in. A cell says **yes** when they were right, and **no** when the engine
refused, with its own words in a note. An engine that gets something wrong fails the run, unless it does so with tables
of other writers too: then the cell says **bug**, and the note which one. What could not be asked has a dash.

## Which reader opens a table

A reader opens a table if it knows every feature that the table has. `detail()` lists them.
"""
_EACH = """Changes are made one on top of the other, and after each the engine and Holdfast must read the same rows,
those of a model."""
_IDS = """ On tables that track rows, the ids and commit versions that it reports (`_metadata.row_id`,
`_metadata.row_commit_version`) equal those of Holdfast after every change: rows that were not touched keep both,
updated ones keep the id and take the commit's version, new ones have ids that no row had before."""
_PAIRS = """## Features together

Tables mix features so that every two that an engine takes meet in one. The number of pairs is of those that were right
together.
"""


@dataclass
class Notes:
    """Footnotes, each once."""

    texts: dict[str, int] = field(default_factory=dict)

    def mark(self, text: str) -> str:
        return f"[{self.texts.setdefault(text, len(self.texts) + 1)}](#notes)"


def page(versions: Mapping[str, str], offers: Mapping[str, Sequence[str]], found: Mapping[str, _Done]) -> str:
    """The page; engines in the order of `versions`."""
    notes = Notes()
    lines = [_INTRO, *_readers(versions, found, notes), ""]
    for engine, version in versions.items():
        lines += [f"## {engine} {version}", "", _EACH + (_IDS if engine == "delta-spark" else ""), ""]
        lines += [*_engine(engine, (READ, FILTER, *offers[engine]), found[engine], notes), ""]
    lines += [_PAIRS, *_pairs(versions, offers, found), "", *_together(versions, found, notes)]
    lines += ["## Notes", "", *(f"{number}. {text}" for text, number in notes.texts.items()), ""]
    return "\n".join(lines)


def evidence(done: _Done, name: str, operation: str) -> Answer | None:
    """What an engine makes of a feature: it works if it does in some table; else what the feature alone came to."""
    if any(name in made_of and answers.get(operation) == Works() for made_of, answers in done.items()):
        return Works()
    return done.get(recipe(name), {}).get(operation)


def accepted(done: _Done, operation: str) -> tuple[str, ...]:
    """The features that an engine takes, for an operation."""
    return tuple(name for name in NAMES if evidence(done, name, operation) == Works())


def _rows(done: _Done, operations: Sequence[str]) -> Iterator[tuple[str, list[Answer | None]]]:
    """Each line of a table about an engine, with its title."""
    yield "none (`holdfast.plain=true`)", [done[PLAIN].get(operation) for operation in operations]
    yield (
        "row tracking and deletion vectors (the default)",
        [done[DEFAULTS].get(operation) for operation in operations],
    )
    for feature in FEATURES:
        yield feature.title, [evidence(done, feature.name, operation) for operation in operations]


def _readers(versions: Mapping[str, str], found: Mapping[str, _Done], notes: Notes) -> Iterator[str]:
    yield f"| feature | {' | '.join(f'{engine} {version}' for engine, version in versions.items())} |"
    yield f"|---|{'---|' * len(versions)}"
    for lines in zip(*(_rows(found[engine], (READ,)) for engine in versions), strict=True):
        cells = [_cell(engine, answer, notes) for engine, (_, (answer,)) in zip(versions, lines, strict=True)]
        yield f"| {lines[0][0]} | {' | '.join(cells)} |"


def _engine(engine: str, asked: Sequence[str], done: _Done, notes: Notes) -> Iterator[str]:
    yield f"| feature | {' | '.join(asked)} |"
    yield f"|---|{'---|' * len(asked)}"
    for title, answers in _rows(done, asked):
        yield f"| {title} | {' | '.join(_cell(engine, answer, notes) for answer in answers)} |"


def _pairs(
    versions: Mapping[str, str], offers: Mapping[str, Sequence[str]], found: Mapping[str, _Done]
) -> Iterator[str]:
    yield "| engine | operation | tables | pairs |"
    yield "|---|---|---|---|"
    for engine in versions:
        for operation in (READ, FILTER, *offers[engine]):
            right = [made_of for made_of, answers in found[engine].items() if answers.get(operation) == Works()]
            wanted = possible(accepted(found[engine], operation))
            yield f"| {engine} | {operation} | {len(right)} | {len(met(right) & wanted)} of {len(wanted)} |"


def _together(versions: Mapping[str, str], found: Mapping[str, _Done], notes: Notes) -> Iterator[str]:
    """Answers that no feature by itself explains."""
    alone = {recipe(name) for name in NAMES}
    smallest: dict[tuple[str, str, Answer], Recipe] = {}
    for engine, done in ((engine, found[engine]) for engine in versions):
        for made_of, answers in done.items():
            for operation, answer in answers.items():
                unexplained = made_of <= set(accepted(done, operation)) or isinstance(answer, KnownBug)
                if not isinstance(answer, Works) and unexplained and made_of not in alone:
                    before = smallest.setdefault((engine, operation, answer), made_of)
                    smallest[engine, operation, answer] = min(before, made_of, key=len)
    if smallest:
        yield from ("What features together bring about, each in the smallest such table:", "")
        for (engine, operation, answer), made_of in smallest.items():
            names = "; ".join(BY_NAME[name].title for name in ordered(made_of))
            yield f"- {engine}, {operation}: {_cell(engine, answer, notes)} for {names}"
        yield ""


def _cell(engine: str, answer: Answer | None, notes: Notes) -> str:
    match answer:
        case None:
            return "-"
        case Works():
            return "yes"
        case Refuses(text):
            return f"no {notes.mark(f'{engine}: `{text}`')}"
        case KnownBug(text):
            return f"bug {notes.mark(f'{engine} {text}')}"
        case Wrong(text):
            return f"**wrong** {notes.mark(f'{engine}: `{text}`')}"

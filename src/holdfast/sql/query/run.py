"""Queries: the tables a query names become scans, in their places, and Spark runs the text as the user wrote it.

    find the tables -> read what conditions say of each -> scan -> put a view where each name stands -> Spark

1. Only names of our tables are replaced, with the versions that follow them. Every other character stays, and what
   columns are qualified by keeps meaning what it meant.
2. A scan reads the files that its own conditions leave, as `scan(where=...)` would.
3. The views are gone when the statement is analysed; the frame that comes back does not need them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame

from holdfast.env import system
from holdfast.errors import Invalid, Unsupported
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.sql.context import StatementContext
from holdfast.sql.query import metadata
from holdfast.sql.query.conjuncts import METADATA, Said, Subject, all_of, understood
from holdfast.sql.query.pushdown import Pushdown
from holdfast.sql.query.references import (
    ParsedQuery,
    QueryBlock,
    Reference,
    Relation,
    Span,
    name_end,
    names,
    split_parts,
)
from holdfast.sql.query.row_fields import field_edits
from holdfast.sql.query.stored_views import stored_rows
from holdfast.sql.query.walk import expression_of, query_of, relation_of
from holdfast.sql.resolver import ResolvedTable, ScanSource, Table, TableRows, path_of
from holdfast.sql.text import Edit, Statement, TokenKind, applied
from holdfast.table.delta import DeltaTable

_AT = re.compile(r"(.*)@(v\d+|\d{17})", re.DOTALL)


@dataclass
class Replaced:
    """A query with our tables replaced: what to change of the text, and what to hand over beside it."""

    edits: list[Edit] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def add(self, statement: Statement, reference: Reference, frame: DataFrame, alias: str | None) -> None:
        """Put a frame where a reference stands, under an alias unless the user gave one."""
        name = f"holdfast_{len(self.frames)}"
        self.frames[name] = frame
        first, last = (statement.words[reference.span[0]].start, statement.words[reference.span[1] - 1].end)
        self.edits.append(Edit(first, last, f"{{{name}}}"))
        if alias is not None and reference.alias is None:
            place = statement.words[reference.aliased - 1].end
            self.edits.append(Edit(place, place, f" AS {quoted(alias)}"))


def run_query(
    asking: StatementContext, statement: Statement, span: Span | None = None, given: Span | None = None
) -> DataFrame | None:
    """Run a statement that holds a query; None where it names none of our tables. `span` says where the query is."""
    found = replaced(asking, statement, query_of(statement, span, given))
    if not found.frames:
        return None
    text = _formatted(asking, statement.text, found)
    return asking.sql(text, asking.given.args, **_fields(asking, found))


def frame_of(
    asking: StatementContext, statement: Statement, span: Span, given: Span | None = None, more: Sequence[Edit] = ()
) -> DataFrame:
    """The rows of a query that is part of a statement, with some more edits made.

    `given` is the WITH that stands before the statement.
    """
    found = replaced(asking, statement, query_of(statement, span, given))
    found.edits += more
    return _framed(asking, statement, found, span, given)


def view_frame(
    asking: StatementContext, statement: Statement, span: Span, columns: tuple[str, ...], said: Sequence[Said] = ()
) -> DataFrame:
    """The rows of a view, those of files left out that cannot have any of which something is true."""
    query = query_of(statement, span, columns=columns)
    frame = _framed(asking, statement, replaced(asking, statement, query, said), span, None)
    return frame.toDF(*columns) if columns else frame


def relation_frame(asking: StatementContext, statement: Statement, span: Span, given: Span | None = None) -> DataFrame:
    """The rows of what could stand in a FROM clause."""
    found = replaced(asking, statement, relation_of(statement, span, given))
    return _framed(asking, statement, found, span, given, before="SELECT * FROM ")


@contextmanager
def expressions(
    asking: StatementContext, statement: Statement, target: Reference, table: Table | None = None
) -> Iterator[Callable[[Span], str]]:
    """A function that gives expressions of a statement about a table as text, with their values written in.

    Queries within them read views, where they name our tables; those are gone when the statement is over. Where the
    table is handed over, its rows change, and fields of `_metadata` are the columns that verbs take.
    """
    views: list[str] = []

    def text_of(span: Span) -> str:
        found = replaced(asking, statement, expression_of(statement, span))
        named: dict[str, str] = {}
        for name, frame in found.frames.items():
            named[f"{{{name}}}"] = view = f"holdfast_{system().new_uuid().hex}"
            frame.createOrReplaceTempView(view)
            views.append(view)
        words, start, end = statement.words, *span
        edits = asking.given.edits(statement, start, end)
        edits += [Edit(e.start, e.end, named.get(e.text, e.text)) for e in found.edits]
        if table is not None:
            edits += field_edits(statement, span, lambda: table.handle.newest().snapshot.schema, target.called)
        if len(target.parts) > 1 and target.alias is None:
            edits += _shortened(statement, ParsedQuery(()), [(target, target.called)])
        text = applied(statement.text, edits, start=words[start].start, end=words[end - 1].end)
        return f"({text})" if _may_be_alias(statement, end - 1) and end - start > 1 else text

    try:
        yield text_of
    finally:
        for view in views:
            asking.spark.catalog.dropTempView(view)


def _may_be_alias(statement: Statement, at: int) -> bool:
    """Whether Spark could take the last word of an expression for its name: in brackets it refuses it instead."""
    before = statement.words[at - 1]
    ends = before.kind is not TokenKind.MARK or before.text in (")", "]")
    return statement.words[at].is_name and ends and before.upper not in ("IS", "NOT", "AND", "OR")


def replaced(asking: StatementContext, statement: Statement, query: ParsedQuery, said: Sequence[Said] = ()) -> Replaced:
    """Scans for our tables, and where they go; `said` is what holds of the rows that are wanted of the query."""
    done = Replaced()
    sources = _Sources(asking, statement)
    handing = Pushdown(statement, query, asking.given, sources.columns, said)
    qualified: list[tuple[Reference, str]] = []
    for block in query.blocks:
        shown: list[str] = []
        called = [(relation.called or "").lower() for relation in block.relations]
        for at, relation in enumerate(block.relations):
            reference = relation.reference
            if reference is None or (source := sources.of(reference)) is None:
                continue
            fields = _fields_of(statement, query, block, relation, source)
            where = _where(asking, handing, block, at, source.columns(metadata.columns_for(fields)), fields)
            frame = source.read(where, metadata.columns_for(fields))
            if fields:
                frame = metadata.with_struct(frame, fields)
                shown.append((relation.called or "").lower())
            twice = called.count(reference.called.lower()) > 1  # as in FROM a.t JOIN b.t
            alias = ".".join(reference.parts) if twice else reference.called
            done.add(statement, reference, frame, alias)
            if reference.alias is None and len(reference.parts) > 1:
                qualified.append((reference, alias))
        if shown:
            done.edits += metadata.star_edits(statement, block, shown)
    for reference in query.loose:
        if (loose := sources.of(reference)) is not None:
            done.add(statement, reference, loose.read(None, {}), None)
    if qualified:
        done.edits += _shortened(statement, query, qualified)
    return done


@dataclass(frozen=True)
class _Sources:
    """What the references of a statement read, looked up once."""

    asking: StatementContext
    statement: Statement
    found: dict[Span, ScanSource | None] = field(default_factory=dict)

    def of(self, reference: Reference) -> ScanSource | None:
        """What a reference reads; None where it is not ours."""
        if reference.span not in self.found:
            self.found[reference.span] = source_of(self.asking, self.statement, reference)
        return self.found[reference.span]

    def columns(self, reference: Reference) -> Struct | None:
        """The columns of what a reference reads; None where they are not known."""
        source = self.of(reference)
        columns = None if source is None else source.columns({})
        return columns if columns else None


@dataclass(frozen=True)
class _Changes:
    """The change data feed of a table; conditions leave nothing of it out."""

    frame: DataFrame

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return Struct(())

    def is_tracked(self) -> bool:
        return False

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        return self.frame


def _fields_of(
    statement: Statement, query: ParsedQuery, block: QueryBlock, relation: Relation, source: ScanSource
) -> Sequence[str]:
    """The fields of `_metadata` that a block names of one of its relations, where that has them."""
    if source.columns({}).find(METADATA) is not None:
        return ()
    fields = metadata.fields_of(statement, query, block, relation, tracked=source.is_tracked())
    columns = source.columns(metadata.columns_for(fields))
    if any(columns.find(name) is None for name in metadata.columns_for(fields).values()):
        return ()  # a view that has none: Spark says so
    return fields


def _where(
    asking: StatementContext, handing: Pushdown, block: QueryBlock, at: int, columns: Struct, fields: Sequence[str]
) -> str | None:
    """What a query says of one of our tables."""
    said = handing.said(block, at)
    if not said:
        return None
    relation = block.relations[at]
    assert relation.reference is not None, "only what is named is scanned"
    others = {r.called.lower() for r in block.relations if r is not relation and r.called is not None}
    whole = relation.reference.parts if relation.reference.alias is None else ()
    subject = Subject(
        relation.called or "", columns, others, metadata.in_conditions(fields), whole, at, relation.columns
    )
    zone = asking.zone
    return all_of(text for each in said if (text := understood(each, subject, zone=zone))) or None


def source_of(asking: StatementContext, statement: Statement, reference: Reference) -> ScanSource | None:
    """What a reference reads; None where it is not ours."""
    if reference.arguments is not None:
        return _changes(asking, statement, reference)
    asked = reference.when is not None or reference.suffix is not None
    if not asked and (view := asking.known.view(asking.spark, reference.parts)) is not None:
        return view
    parts, suffix = reference.parts, reference.suffix
    if (path := path_of(parts)) is not None and (dated := _AT.fullmatch(path)):
        parts, suffix = (parts[0], dated[1]), dated[2]
    found = asking.table(parts)
    if found is None:
        return None if asked else stored_rows(asking, parts, view_frame)
    if reference.when is not None:
        if reference.when.is_version:
            return asking.rows_of(found, asking.version(statement, reference.when.span))
        return asking.rows_of(found, None, asking.timestamp(statement, reference.when.span))
    return asking.rows_of(found) if suffix is None else _at_suffix(asking, found, suffix)


def _at_suffix(asking: StatementContext, found: ResolvedTable, suffix: str) -> TableRows:
    if re.fullmatch(r"[vV]\d+", suffix):
        return asking.rows_of(found, int(suffix[1:]))
    if re.fullmatch(r"\d{17}", suffix):
        moment = datetime.datetime.strptime(suffix[:14], "%Y%m%d%H%M%S").replace(microsecond=int(suffix[14:]) * 1000)
        return asking.rows_of(found, None, moment)
    raise Invalid(f"{found.name}@{suffix} names no version: write @v3, or @ and a time as yyyyMMddHHmmssSSS")


def _changes(asking: StatementContext, statement: Statement, reference: Reference) -> ScanSource | None:
    """The feed that `table_changes` reads."""
    assert reference.arguments is not None, "the caller looked"
    spans = arguments(statement, *reference.arguments)
    called = reference.parts[0]
    if not 2 <= len(spans) <= 3:
        raise Invalid(f"{called} takes a table, where its changes begin, and where they end")
    name, *points = (asking.value(statement, span) for span in spans)
    parts = ("delta", str(name)) if called.lower().endswith("_by_path") else split_parts(str(name))
    found = asking.table(parts)
    if found is None:
        return None
    if not isinstance(found.table, DeltaTable):
        raise Unsupported(f"{called} is for Delta tables, and {found.name} is an Iceberg table: use changes()")
    return _Changes(found.table.changeFeed(*points).toDF())


def arguments(statement: Statement, first: int, last: int) -> list[Span]:
    """What commas divide."""
    spans: list[Span] = []
    begun = at = first
    while at < last:
        if statement.upper(at) == ",":
            spans.append((begun, at))
            begun = at + 1
        at = statement.after(at)
    return [*spans, (begun, last)] if begun < last else spans


def _shortened(statement: Statement, query: ParsedQuery, qualified: Sequence[tuple[Reference, str]]) -> list[Edit]:
    """Columns that are qualified by a whole name, `db.t.c`, by the alias in its place: that is what is left of it."""
    prefixes = {
        tuple(part.lower() for part in reference.parts[at:]): alias
        for reference, alias in qualified
        for at in range(len(reference.parts) - 1)
    }
    spans = [reference.span for reference in query.references]
    edits: list[Edit] = []
    at, words = 0, statement.words
    while at < len(words):
        if (inside := next((end for begun, end in spans if begun == at), None)) is not None:
            at = inside
            continue
        end = name_end(statement, at)
        path = tuple(part.lower() for part in names(statement, at, end))
        for size in range(len(path), 1, -1):
            starred = size == len(path) and (statement.upper(end), statement.upper(end + 1)) == (".", "*")
            if path[:size] in prefixes and (size < len(path) or starred):
                last = words[at + 2 * (size - 1)]
                edits.append(Edit(words[at].start, last.end, quoted(prefixes[path[:size]])))
                break
        at = max(end, at + 1)
    return edits


def _framed(
    asking: StatementContext, statement: Statement, found: Replaced, span: Span, given: Span | None, before: str = ""
) -> DataFrame:
    """What Spark makes of a part of a statement, with its WITH before it."""
    prefix = "" if given is None else _edited(asking, statement, found, given) + " "
    text = prefix + before + _edited(asking, statement, found, span)
    values = asking.given.within(statement, span[0] if given is None else given[0], span[1])
    return asking.sql(text, values, **_fields(asking, found))


def _edited(asking: StatementContext, statement: Statement, found: Replaced, span: Span) -> str:
    start, end = statement.words[span[0]].start, statement.words[span[1] - 1].end
    if not found.frames:
        return applied(statement.text, found.edits, start=start, end=end)
    return _formatted(asking, statement.text, found, start, end)


def _formatted(asking: StatementContext, text: str, found: Replaced, start: int = 0, end: int | None = None) -> str:
    """The edited text, ready for formatting: braces that are not places to fill are doubled, unless the user did."""
    edits = [replace(e, text=e.text if e.text[1:-1] in found.frames else _doubled(e.text)) for e in found.edits]
    if not asking.given.fields:
        covered = [(e.start, e.end) for e in edits]
        braces = (each.start() for each in re.finditer(r"[{}]", text))
        edits += [Edit(at, at + 1, text[at] * 2) for at in braces if not any(a <= at < b for a, b in covered)]
    return applied(text, edits, start=start, end=end)


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")


def _fields(asking: StatementContext, found: Replaced) -> dict[str, Any]:
    return {**asking.given.fields, **found.frames}

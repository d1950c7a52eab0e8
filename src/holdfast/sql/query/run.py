"""Queries: reads our tables that a query names by scans, and lets Spark run the user's text over them.

    find the tables -> collect the conditions on each -> scan -> replace each name by a frame -> Spark

1. Only names of our tables are replaced, with the versions that follow them. Every other character stays, and the
   qualifiers of columns keep their meaning.
2. A scan reads the files that the conditions on its table leave, as `scan(where=...)` would.
3. Temporary views are dropped once Spark has analysed the statement; the returned frame does not need them.
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
from holdfast.errors import Invalid
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query import metadata
from holdfast.sql.query.conjuncts import METADATA, Conjunct, Subject, all_of, table_condition
from holdfast.sql.query.pushdown import Pushdown
from holdfast.sql.query.references import ParsedQuery, QueryBlock, Reference, Relation
from holdfast.sql.query.stored_views import stored_rows
from holdfast.sql.query.walk import expression_of, query_of, relation_of
from holdfast.sql.resolver import ResolvedTable, ScanSource, TableRows, path_of
from holdfast.sql.text import Edit, Span, Statement, TokenKind, applied, split_parts
from holdfast.table.table import Table

_AT = re.compile(r"(.*)@(v\d+|\d{17})", re.DOTALL)


@dataclass
class TableScans:
    """The scans of our tables that a query names, by placeholder, and the edits that put the placeholders in."""

    edits: list[Edit] = field(default_factory=list)
    frames: dict[str, DataFrame] = field(default_factory=dict)

    def add(self, statement: Statement, reference: Reference, frame: DataFrame, alias: str | None) -> None:
        """Replace a reference by a frame, under an alias unless the user gave one."""
        name = f"holdfast_{len(self.frames)}"
        self.frames[name] = frame
        first, last = (statement.words[reference.span[0]].start, statement.words[reference.span[1] - 1].end)
        self.edits.append(Edit(first, last, f"{{{name}}}"))
        if alias is not None and reference.alias is None:
            place = statement.words[reference.alias_at - 1].end
            self.edits.append(Edit(place, place, f" AS {quoted(alias)}"))


def run_query(context: StatementContext, span: Span | None = None, with_span: Span | None = None) -> DataFrame | None:
    """Run a statement that holds a query; None where it names none of our tables. `span` says where the query is."""
    scans = scan_tables(context, query_of(context.statement, span, with_span))
    if not scans.frames:
        return None
    text = _formatted(context, scans)
    return context.sql(text, context.parameters.args, **context.parameters.fields, **scans.frames)


def query_frame(
    context: StatementContext, span: Span, with_span: Span | None = None, more_edits: Sequence[Edit] = ()
) -> DataFrame:
    """The rows of a query that is part of a statement. `with_span` is the WITH before the statement."""
    scans = scan_tables(context, query_of(context.statement, span, with_span))
    scans.edits += more_edits
    return _spark_frame(context, scans, span, with_span)


def view_frame(
    context: StatementContext, span: Span, columns: tuple[str, ...], conditions: Sequence[Conjunct] = ()
) -> DataFrame:
    """The rows of a view; files in which no row satisfies the conditions are left out."""
    query = query_of(context.statement, span, columns=columns)
    frame = _spark_frame(context, scan_tables(context, query, conditions), span, None)
    return frame.toDF(*columns) if columns else frame


def relation_frame(
    context: StatementContext, span: Span, with_span: Span | None = None
) -> tuple[DataFrame, str | None]:
    """The rows of a relation as it stands in a FROM clause, and the qualifier of its columns."""
    query = relation_of(context.statement, span, with_span)
    frame = _spark_frame(context, scan_tables(context, query), span, with_span, before="SELECT * FROM ")
    return frame, query.blocks[-1].relations[0].qualifier


@contextmanager
def expressions(
    context: StatementContext, target: Reference, table: Table | None = None
) -> Iterator[Callable[[Span], str]]:
    """A function that gives expressions about a table as text, with the values of parameters written in.

    Queries within them read our tables through temporary views, which are dropped at the end. With `table`, whose rows
    change, fields of `_metadata` become the metadata columns that verbs take.
    """
    statement, views = context.statement, list[str]()

    def text_of(span: Span) -> str:
        query = expression_of(statement, span)
        scans = scan_tables(context, query)
        view_names: dict[str, str] = {}
        for name, frame in scans.frames.items():
            view_names[f"{{{name}}}"] = view = f"holdfast_{system().new_uuid().hex}"
            frame.createOrReplaceTempView(view)
            views.append(view)
        words, start, end = statement.words, *span
        edits = context.parameters.edits(statement, start, end)
        edits += [Edit(e.start, e.end, view_names.get(e.text, e.text)) for e in scans.edits]
        if table is not None and METADATA in statement.slice(*span).lower():
            schema = table.handle.newest().snapshot.schema
            edits += metadata.field_edits(statement, span, query, schema, target.qualifier)
        if len(target.parts) > 1 and target.alias is None:
            edits += _shortened(statement, ParsedQuery(()), [(target, target.qualifier)])
        text = applied(statement.text, edits, start=words[start].start, end=words[end - 1].end)
        return f"({text})" if _may_be_alias(statement, end - 1) and end - start > 1 else text

    try:
        yield text_of
    finally:
        for view in views:
            context.spark.catalog.dropTempView(view)


def _may_be_alias(statement: Statement, at: int) -> bool:
    """Whether Spark could take the last word of an expression for an alias; in brackets it refuses it instead."""
    before = statement.words[at - 1]
    ends = before.kind is not TokenKind.MARK or before.text in (")", "]")
    return statement.words[at].is_name and ends and before.upper not in ("IS", "NOT", "AND", "OR")


def scan_tables(context: StatementContext, query: ParsedQuery, conditions: Sequence[Conjunct] = ()) -> TableScans:
    """Scan our tables that a query names; `conditions` hold of the rows that are needed of the query."""
    scans, statement = TableScans(), context.statement
    sources = _Sources(context)
    if all(sources.of(reference) is None for reference in query.references):
        return scans
    pushdown = Pushdown(statement, query, context.parameters, sources.columns, conditions)
    shortened: list[tuple[Reference, str]] = []
    for block in query.blocks:
        with_metadata: list[str] = []
        qualifiers = [(relation.qualifier or "").lower() for relation in block.relations]
        for at, relation in enumerate(block.relations):
            reference = relation.reference
            if reference is None or (source := sources.of(reference)) is None:
                continue
            fields = _fields_of(statement, query, block, relation, source)
            where = _where(context, pushdown, block, at, source.columns(metadata.columns_for(fields)), fields)
            frame = source.read(where, metadata.columns_for(fields))
            if fields:
                frame = metadata.with_struct(frame, fields)
                with_metadata.append((relation.qualifier or "").lower())
            twice = qualifiers.count(reference.qualifier.lower()) > 1  # as in FROM a.t JOIN b.t
            alias = ".".join(reference.parts) if twice else reference.qualifier
            scans.add(statement, reference, frame, alias)
            if reference.alias is None and len(reference.parts) > 1:
                shortened.append((reference, alias))
        if with_metadata:
            scans.edits += metadata.star_edits(statement, block, with_metadata)
    for reference in query.loose:
        if (loose := sources.of(reference)) is not None:
            scans.add(statement, reference, loose.read(None, {}), None)
    if shortened:
        scans.edits += _shortened(statement, query, shortened)
    return scans


@dataclass(frozen=True)
class _Sources:
    """The sources of a statement's references, each looked up once."""

    context: StatementContext
    by_span: dict[Span, ScanSource | None] = field(default_factory=dict)

    def of(self, reference: Reference) -> ScanSource | None:
        """The source that a reference reads; None where it is not ours."""
        if reference.span not in self.by_span:
            self.by_span[reference.span] = source_of(self.context, reference)
        return self.by_span[reference.span]

    def columns(self, reference: Reference) -> Struct | None:
        """The columns of a reference's source; None where they are not known."""
        source = self.of(reference)
        return None if source is None else source.columns({}) or None


@dataclass(frozen=True)
class _ChangeFeed:
    """The change data feed of a table; no condition is pushed down to it."""

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
    """The fields of `_metadata` that a block names of one of its relations, where the source has them."""
    if source.columns({}).find(METADATA) is not None:
        return ()
    fields = metadata.fields_of(statement, query, block, relation, tracked=source.is_tracked())
    columns = source.columns(metadata.columns_for(fields))
    if any(columns.find(name) is None for name in metadata.columns_for(fields).values()):
        return ()  # a view without them: Spark reports the error
    return fields


def _where(
    context: StatementContext, pushdown: Pushdown, block: QueryBlock, at: int, columns: Struct, fields: Sequence[str]
) -> str | None:
    """The condition that a query puts on one of our tables."""
    conditions = pushdown.conditions(block, at)
    if not conditions:
        return None
    relation = block.relations[at]
    assert relation.reference is not None, "only what is named is scanned"
    others = {r.qualifier.lower() for r in block.relations if r is not relation and r.qualifier is not None}
    parts = relation.reference.parts if relation.reference.alias is None else ()
    names = metadata.in_conditions(fields)
    subject = Subject(relation.qualifier or "", columns, others, names, parts, at, relation.columns)
    zone = context.zone
    return all_of(text for each in conditions if (text := table_condition(each, subject, zone=zone))) or None


def source_of(context: StatementContext, reference: Reference) -> ScanSource | None:
    """The source that a reference reads; None where it is not ours."""
    if reference.arguments is not None:
        return _change_feed(context, reference, reference.arguments)
    is_versioned = reference.when is not None or reference.suffix is not None
    if not is_versioned and (view := context.resolver.view(context.spark, reference.parts)) is not None:
        return view
    parts, suffix = reference.parts, reference.suffix
    if (path := path_of(parts)) is not None and (dated := _AT.fullmatch(path)):
        parts, suffix = (parts[0], dated[1]), dated[2]
    resolved = context.table(parts)
    if resolved is None:
        return None if is_versioned else stored_rows(context, parts, view_frame)
    if reference.when is not None:
        if reference.when.is_version:
            return context.rows_of(resolved, context.version(reference.when.span))
        return context.rows_of(resolved, None, context.timestamp(reference.when.span))
    return context.rows_of(resolved) if suffix is None else _at_suffix(context, resolved, suffix)


def _at_suffix(context: StatementContext, resolved: ResolvedTable, suffix: str) -> TableRows:
    if re.fullmatch(r"[vV]\d+", suffix):
        return context.rows_of(resolved, int(suffix[1:]))
    if re.fullmatch(r"\d{17}", suffix):
        moment = datetime.datetime.strptime(suffix[:14], "%Y%m%d%H%M%S").replace(microsecond=int(suffix[14:]) * 1000)
        return context.rows_of(resolved, None, moment)
    raise Invalid(f"{resolved.name}@{suffix} names no version: write @v3, or @ and a time as yyyyMMddHHmmssSSS")


def _change_feed(context: StatementContext, reference: Reference, arguments: Span) -> ScanSource | None:
    """The feed that `table_changes` reads."""
    items = [(item.at, item.last) for item in Cursor(context.statement).listed(arguments)]
    function = reference.parts[0]
    if not 2 <= len(items) <= 3:
        raise Invalid(f"{function} takes a table, where its changes begin, and where they end")
    values: list[Any] = [context.value(span) for span in items]
    name, *bounds = values
    parts = ("delta", str(name)) if function.lower().endswith("_by_path") else split_parts(str(name))
    resolved = context.table(parts)
    if resolved is None:
        return None
    return _ChangeFeed(resolved.delta(function, instead="use changes()").changeFeed(*bounds).toDF())


def _shortened(statement: Statement, query: ParsedQuery, shortened: Sequence[tuple[Reference, str]]) -> list[Edit]:
    """Qualify columns by a table's alias where the text has the table's whole name, as in `db.t.c`."""
    prefixes = {
        tuple(part.lower() for part in reference.parts[at:]): alias
        for reference, alias in shortened
        for at in range(len(reference.parts) - 1)
    }
    ends = dict(reference.span for reference in query.references)
    edits: list[Edit] = []
    at, words = 0, statement.words
    while at < len(words):
        if at in ends:
            at = ends[at]
            continue
        end = statement.name_end(at)
        path = tuple(part.lower() for part in statement.names(at, end))
        for size in range(len(path), 1, -1):
            starred = size == len(path) and (statement.upper(end), statement.upper(end + 1)) == (".", "*")
            if path[:size] in prefixes and (size < len(path) or starred):
                last = words[at + 2 * (size - 1)]
                edits.append(Edit(words[at].start, last.end, quoted(prefixes[path[:size]])))
                break
        at = max(end, at + 1)
    return edits


def _spark_frame(
    context: StatementContext, scans: TableScans, span: Span, with_span: Span | None, before: str = ""
) -> DataFrame:
    """The frame that Spark makes of a part of a statement, with its WITH before it."""
    prefix = "" if with_span is None else _edited(context, scans, with_span) + " "
    text = prefix + before + _edited(context, scans, span)
    args = context.parameters.within(context.statement, span[0] if with_span is None else with_span[0], span[1])
    return context.sql(text, args, **context.parameters.fields, **scans.frames)


def _edited(context: StatementContext, scans: TableScans, span: Span) -> str:
    words = context.statement.words
    start, end = words[span[0]].start, words[span[1] - 1].end
    if not scans.frames:
        return applied(context.statement.text, scans.edits, start=start, end=end)
    return _formatted(context, scans, start, end)


def _formatted(context: StatementContext, scans: TableScans, start: int = 0, end: int | None = None) -> str:
    """The edited text for Python's formatting; braces that are no placeholders are doubled, unless the user did."""
    text = context.statement.text
    edits = [replace(e, text=e.text if e.text[1:-1] in scans.frames else _doubled(e.text)) for e in scans.edits]
    if not context.parameters.fields:
        covered = [(e.start, e.end) for e in edits]
        braces = (brace.start() for brace in re.finditer(r"[{}]", text))
        edits += [Edit(at, at + 1, text[at] * 2) for at in braces if not any(a <= at < b for a, b in covered)]
    return applied(text, edits, start=start, end=end)


def _doubled(text: str) -> str:
    return text.replace("{", "{{").replace("}", "}}")

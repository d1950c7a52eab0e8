"""MERGE INTO, by way of the merge builder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.errors import Invalid
from holdfast.schema.constraints import quoted
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.run import relation_frame
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.statements.dml import TargetTable, parse_sets, refuse_doubled
from holdfast.sql.text import Span
from holdfast.verbs.dml.merge import DeltaMergeBuilder

MATCHED, NOT_MATCHED, BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN ... THEN ...; an update or insert without `sets` is a star."""

    kind: str
    condition: Span | None
    deletes: bool = False
    sets: tuple[tuple[tuple[str, ...], Span], ...] = ()
    left_out: tuple[str, ...] = ()  # the columns in EXCEPT after a star


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO t USING source ON condition WHEN ..."""

    table: tuple[str, ...]
    alias: str | None
    source: Span
    on: Span
    clauses: tuple[MergeClause, ...]
    evolves: bool = False
    with_span: Span | None = None  # the WITH before the statement


def parse_merge(cursor: Cursor, with_span: Span | None = None) -> Merge:
    cursor.expect("MERGE")
    evolves = cursor.take("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    table, alias = cursor.table(), cursor.alias("USING")
    cursor.expect("USING")
    source = cursor.until("ON")
    cursor.expect("ON")
    on = cursor.until("WHEN")
    clauses = []
    while cursor.take("WHEN"):
        clauses.append(_clause(cursor))
    cursor.end()
    if not clauses:
        raise cursor.wrong("at least one WHEN is expected", "MERGE_WITHOUT_WHEN")
    return Merge(table, alias, source, on, tuple(clauses), evolves, with_span)


def run_merge(context: StatementContext, command: Merge, resolved: ResolvedTable) -> DataFrame:
    with _builder(context, command, resolved) as builder:
        result = builder.execute()
    return answers.merged(context.spark, result)


def explain_merge(context: StatementContext, command: Merge, resolved: ResolvedTable) -> DataFrame:
    with _builder(context, command, resolved) as builder:
        return answers.explained(context.spark, builder.plan())


@contextmanager
def _builder(context: StatementContext, command: Merge, resolved: ResolvedTable) -> Iterator[DeltaMergeBuilder]:
    """The merge builder with the clauses of a statement."""
    target = TargetTable(context, resolved, command.alias)
    source, qualifier = relation_frame(context, command.source, command.with_span)
    with target.expressions() as text_of:
        settings = context.settings
        builder = target.table.merge(source, text_of(command.on), userMetadata=settings.user_metadata)
        builder = builder.refusing_as_delta_spark()
        if command.evolves or settings.merges_schema:
            builder = builder.withSchemaEvolution()
        for clause in command.clauses:
            condition = None if clause.condition is None else text_of(clause.condition)
            sets = target.assignments(clause.sets, text_of) if clause.sets else None
            if clause.left_out:
                sets = _star_without(clause.left_out, source.columns, qualifier)
            builder = _with_clause(builder, clause, condition, sets)
        yield builder


def _star_without(left_out: Sequence[str], columns: Sequence[str], qualifier: str | None) -> dict[str, str]:
    """The assignments of a star with EXCEPT."""
    without = {name.lower() for name in left_out}
    prefix = "" if qualifier is None else f"{quoted(qualifier)}."
    return {quoted(name): f"{prefix}{quoted(name)}" for name in columns if name.lower() not in without}


def _with_clause(
    builder: DeltaMergeBuilder, clause: MergeClause, condition: str | None, sets: dict[str, str] | None
) -> DeltaMergeBuilder:
    """Add a clause to the builder; `sets` is None for a star."""
    match clause.kind, clause.deletes:
        case "MATCHED", True:
            return builder.whenMatchedDelete(condition)
        case "NOT MATCHED BY SOURCE", True:
            return builder.whenNotMatchedBySourceDelete(condition)
        case "NOT MATCHED BY SOURCE", False:
            return builder.whenNotMatchedBySourceUpdate(condition, sets)
        case "MATCHED", False if sets is None:
            return builder.whenMatchedUpdateAll(condition)
        case "MATCHED", False:
            return builder.whenMatchedUpdate(condition, sets)
        case _ if sets is None:
            return builder.whenNotMatchedInsertAll(condition)
        case _:
            return builder.whenNotMatchedInsert(condition, sets)


def _clause(cursor: Cursor) -> MergeClause:
    kind = MATCHED
    if cursor.take("NOT", "MATCHED"):
        kind = BY_SOURCE if cursor.take("BY", "SOURCE") else NOT_MATCHED
        cursor.take("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = cursor.until("THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if cursor.take("DELETE"):
        if kind == NOT_MATCHED:
            raise cursor.wrong("rows of the source that match nothing can only be inserted")
        return MergeClause(kind, condition, deletes=True)
    if kind == NOT_MATCHED:
        return _insert(cursor, condition)
    cursor.expect("UPDATE", "SET")
    if cursor.take("*"):
        return MergeClause(kind, condition, left_out=_left_out(cursor))
    return MergeClause(kind, condition, sets=parse_sets(cursor, "WHEN"))


def _insert(cursor: Cursor, condition: Span | None) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.take("*"):
        return MergeClause(NOT_MATCHED, condition, left_out=_left_out(cursor))
    columns = cursor.names_in(cursor.group())
    cursor.expect("VALUES")
    values = [item.until() for item in cursor.listed(cursor.group())]
    refuse_doubled(columns, "DELTA_DUPLICATE_COLUMN_ON_INSERT")
    if len(columns) != len(values):
        raise Invalid(f"INSERT names {len(columns)} columns and gives {len(values)} values: give one for each")
    return MergeClause(NOT_MATCHED, condition, sets=tuple(zip(columns, values, strict=True)))


def _left_out(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.take("EXCEPT"):
        return ()
    return tuple(".".join(path) for path in cursor.names_in(cursor.group()))

"""MERGE INTO: the clauses of the text, handed to the merge builder in their order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.errors import Invalid
from holdfast.schema.constraints import quoted
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.references import Span
from holdfast.sql.query.run import expressions, relation_frame
from holdfast.sql.query.walk import relation_of
from holdfast.sql.resolver import ResolvedTable, Table
from holdfast.sql.statements.dml import assigned, called, parse_sets, refuse_doubled, target_of
from holdfast.sql.text import Statement
from holdfast.verbs.dml.merge import DeltaMergeBuilder

MATCHED, NEW, ALONE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"


@dataclass(frozen=True, slots=True)
class MergeClause:
    """WHEN ... THEN ...; no columns set is a star, unless it deletes."""

    kind: str
    condition: Span | None
    deletes: bool = False
    sets: tuple[tuple[tuple[str, ...], Span], ...] = ()
    left_out: tuple[str, ...] = ()  # columns that a star does without


@dataclass(frozen=True, slots=True)
class Merge:
    """MERGE [WITH SCHEMA EVOLUTION] INTO t USING source ON condition WHEN ..."""

    table: tuple[str, ...]
    alias: str | None
    source: Span
    on: Span
    clauses: tuple[MergeClause, ...]
    evolves: bool = False
    given: Span | None = None  # the WITH before the statement


def parse_merge(cursor: Cursor, given: Span | None = None) -> Merge:
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
    return Merge(table, alias, source, on, tuple(clauses), evolves, given)


def run_merge(asking: StatementContext, statement: Statement, asked: Merge, found: ResolvedTable) -> DataFrame:
    with _merging(asking, statement, asked, found) as builder:
        done = builder.execute()
    return answers.merged(asking.spark, done)


def explain_merge(asking: StatementContext, statement: Statement, asked: Merge, found: ResolvedTable) -> DataFrame:
    with _merging(asking, statement, asked, found) as builder:
        return answers.explained(asking.spark, builder.plan())


@contextmanager
def _merging(
    asking: StatementContext, statement: Statement, asked: Merge, found: ResolvedTable
) -> Iterator[DeltaMergeBuilder]:
    """The merge that a statement asks for."""
    table = called(found, asked.alias)
    source = relation_frame(asking, statement, asked.source, asked.given)
    relation = relation_of(statement, asked.source).blocks[-1].relations[0]
    with expressions(asking, statement, target_of(asked.table, asked.alias), table) as text_of:
        builder = table.merge(source, text_of(asked.on), userMetadata=asking.user_metadata)._refusing_as_delta_spark()
        if asked.evolves or asking.evolves:
            builder = builder.withSchemaEvolution()
        for clause in asked.clauses:
            condition = None if clause.condition is None else text_of(clause.condition)
            sets = _sets(asking, clause, statement, asked, table, source.columns, relation.called, text_of)
            builder = _added(builder, clause, condition, sets)
        yield builder


def _added(
    builder: DeltaMergeBuilder, clause: MergeClause, condition: str | None, sets: dict[str, str] | None
) -> DeltaMergeBuilder:
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


def _sets(
    asking: StatementContext,
    clause: MergeClause,
    statement: Statement,
    asked: Merge,
    table: Table,
    columns: list[str],
    source: str | None,
    text_of: Callable[[Span], str],
) -> dict[str, str] | None:
    """What a clause sets; None for a star."""
    if clause.left_out:
        without = {name.lower() for name in clause.left_out}
        prefix = "" if source is None else f"{quoted(source)}."
        return {quoted(name): f"{prefix}{quoted(name)}" for name in columns if name.lower() not in without}
    if not clause.sets:
        return None
    return assigned(asking, statement, asked.table, asked.alias, clause.sets, table, text_of)


def _clause(cursor: Cursor) -> MergeClause:
    kind = MATCHED
    if cursor.take("NOT", "MATCHED"):
        kind = ALONE if cursor.take("BY", "SOURCE") else NEW
        cursor.take("BY", "TARGET")
    else:
        cursor.expect("MATCHED")
    condition = cursor.until("THEN") if cursor.take("AND") else None
    cursor.expect("THEN")
    if cursor.take("DELETE"):
        if kind == NEW:
            raise cursor.wrong("rows of the source that match nothing can only be inserted")
        return MergeClause(kind, condition, deletes=True)
    if kind == NEW:
        return _insert(cursor, condition)
    cursor.expect("UPDATE", "SET")
    if cursor.take("*"):
        return MergeClause(kind, condition, left_out=_left_out(cursor))
    return MergeClause(kind, condition, sets=parse_sets(cursor, "WHEN"))


def _insert(cursor: Cursor, condition: Span | None) -> MergeClause:
    cursor.expect("INSERT")
    if cursor.take("*"):
        return MergeClause(NEW, condition, left_out=_left_out(cursor))
    columns = cursor.names_in(cursor.group())
    cursor.expect("VALUES")
    values = [each.until() for each in cursor.listed(cursor.group())]
    refuse_doubled(columns, "DELTA_DUPLICATE_COLUMN_ON_INSERT")
    if len(columns) != len(values):
        raise Invalid(f"INSERT names {len(columns)} columns and gives {len(values)} values: give one for each")
    return MergeClause(NEW, condition, sets=tuple(zip(columns, values, strict=True)))


def _left_out(cursor: Cursor) -> tuple[str, ...]:
    if not cursor.take("EXCEPT"):
        return ()
    return tuple(".".join(path) for path in cursor.names_in(cursor.group()))

"""DELETE, UPDATE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.engines.spark.dml.stored import refuse_shadowed
from holdfast.engines.spark.session.catalog import quoted as quoted_name
from holdfast.errors import Invalid, UnknownColumn, Unsupported
from holdfast.schema.enforce import default_of
from holdfast.schema.literal_text import literal_text
from holdfast.schema.types import Field
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.references import Reference, Span
from holdfast.sql.query.run import expressions
from holdfast.sql.resolver import ResolvedTable, Table, path_of
from holdfast.sql.text import Statement
from holdfast.verbs.define.columns import path_of as columns_path


@dataclass(frozen=True, slots=True)
class Delete:
    """DELETE FROM t [AS a] [WHERE condition]."""

    table: tuple[str, ...]
    alias: str | None
    where: Span | None


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE t [AS a] SET column = expression, ... [WHERE condition]."""

    table: tuple[str, ...]
    alias: str | None
    sets: tuple[tuple[tuple[str, ...], Span], ...]
    where: Span | None


@dataclass(frozen=True, slots=True)
class Truncate:
    """TRUNCATE TABLE t."""

    table: tuple[str, ...]


def parse_delete(cursor: Cursor) -> Delete:
    cursor.expect("DELETE", "FROM")
    table, alias = cursor.table(), cursor.alias("WHERE")
    where = cursor.until() if cursor.take("WHERE") else None
    cursor.end()
    return Delete(table, alias, where)


def parse_update(cursor: Cursor) -> Update:
    cursor.expect("UPDATE")
    table, alias = cursor.table(), cursor.alias("SET")
    cursor.expect("SET")
    sets = parse_sets(cursor, "WHERE")
    where = cursor.until() if cursor.take("WHERE") else None
    cursor.end()
    return Update(table, alias, sets, where)


def parse_truncate(cursor: Cursor) -> Truncate:
    cursor.expect("TRUNCATE", "TABLE")
    table = cursor.table()
    if cursor.sees("PARTITION"):
        raise Unsupported("a partition of a Delta table is not truncated: delete its rows, DELETE FROM ... WHERE ...")
    cursor.end()
    return Truncate(table)


def parse_sets(cursor: Cursor, *stops: str) -> tuple[tuple[tuple[str, ...], Span], ...]:
    """`column = expression`, between commas."""
    sets = []
    while True:
        column = cursor.name()
        cursor.expect("=")
        sets.append((column, cursor.until(",", *stops)))
        if not cursor.take(","):
            refuse_doubled([path for path, _ in sets])
            return tuple(sets)


def refuse_doubled(columns: Sequence[tuple[str, ...]], condition: str = "DELTA_CONFLICT_SET_COLUMN") -> None:
    """Refuse columns among which one is named twice."""
    seen = set[tuple[str, ...]]()
    for path in columns:
        folded = tuple(part.lower() for part in path)
        if folded in seen:
            raise Invalid(f"{'.'.join(path)} is set twice: set it once").named(condition)
        seen.add(folded)


def run_delete(asking: StatementContext, statement: Statement, asked: Delete, found: ResolvedTable) -> DataFrame:
    with _deletion(asking, statement, asked, found) as (table, condition):
        done = table.delete(condition, userMetadata=asking.user_metadata)
    return answers.deleted(asking.spark, done)


def explain_delete(asking: StatementContext, statement: Statement, asked: Delete, found: ResolvedTable) -> DataFrame:
    with _deletion(asking, statement, asked, found) as (table, condition):
        return answers.explained(asking.spark, table.plan.delete(condition))


@contextmanager
def _deletion(
    asking: StatementContext, statement: Statement, asked: Delete, found: ResolvedTable
) -> Iterator[tuple[Table, str | None]]:
    """The table and what to delete from it."""
    table = called(found, asked.alias)
    with expressions(asking, statement, target_of(asked.table, asked.alias), table) as text_of:
        yield table, None if asked.where is None else text_of(asked.where)


def run_update(asking: StatementContext, statement: Statement, asked: Update, found: ResolvedTable) -> DataFrame:
    with _setting(asking, statement, asked, found) as (table, condition, sets):
        done = table.update(condition, sets, userMetadata=asking.user_metadata)
    return answers.updated(asking.spark, done)


def explain_update(asking: StatementContext, statement: Statement, asked: Update, found: ResolvedTable) -> DataFrame:
    with _setting(asking, statement, asked, found) as (table, condition, sets):
        return answers.explained(asking.spark, table.plan.update(condition, sets))


@contextmanager
def _setting(
    asking: StatementContext, statement: Statement, asked: Update, found: ResolvedTable
) -> Iterator[tuple[Table, str | None, dict[str, str]]]:
    """The table, which rows of it to change, and what to set."""
    table = called(found, asked.alias)
    with expressions(asking, statement, target_of(asked.table, asked.alias), table) as text_of:
        condition = None if asked.where is None else text_of(asked.where)
        yield table, condition, assigned(asking, statement, asked.table, asked.alias, asked.sets, table, text_of)


def run_truncate(asking: StatementContext, statement: Statement, asked: Truncate, found: ResolvedTable) -> DataFrame:
    found.table.delete(userMetadata=asking.user_metadata)
    return answers.nothing(asking.spark)


def called(found: ResolvedTable, alias: str | None) -> Table:
    """The table under the name that columns of it may be qualified by."""
    if alias is None and path_of(found.parts) is not None:
        return found.table
    return found.table.alias(alias or found.parts[-1])


def target_of(parts: tuple[str, ...], alias: str | None) -> Reference:
    """The table of a statement, as something whose columns are named."""
    return Reference((0, 0), parts, alias=alias)


def default_text(asking: StatementContext, f: Field) -> str:
    """What DEFAULT means for a column, as SQL that stands among the user's own."""
    default = default_of(f)
    if default is None:
        return "NULL" if f.write_default is None else literal_text(f.write_default, f.type)
    refuse_shadowed(asking.spark, [default])
    return default.sql


def assigned(
    asking: StatementContext,
    statement: Statement,
    named: tuple[str, ...],
    alias: str | None,
    sets: Sequence[tuple[tuple[str, ...], Span]],
    table: Table,
    text_of: Callable[[Span], str],
) -> dict[str, str]:
    """Columns as the verbs take them, and their values; `named` and `alias` are what the statement calls the table."""
    made = {}
    for column, span in sets:
        name = quoted_name(_less_qualified(column, named, table._alias) if alias is None else column)
        default = span[1] - span[0] == 1 and statement.upper(span[0]) == "DEFAULT"
        made[name] = _default(asking, name, table) if default else text_of(span)
    return made


def _default(asking: StatementContext, name: str, table: Table) -> str:
    """What DEFAULT means for a column: a field inside of one has none."""
    schema = table.handle.newest().snapshot.schema
    try:
        path = columns_path(schema, name, table._alias)
    except UnknownColumn:
        return "NULL"  # of a column that the statement adds; the verb refuses any other
    field = schema.find(path[0])
    return "NULL" if field is None or len(path) > 1 else default_text(asking, field)


def _less_qualified(column: tuple[str, ...], named: tuple[str, ...], called: str | None) -> tuple[str, ...]:
    """A column behind the whole name of its table, behind what the verbs call the table instead."""
    size = len(named)
    same = [part.lower() for part in column[:size]] == [part.lower() for part in named]
    if size == 1 or len(column) <= size or not same:
        return column
    return column[size:] if called is None else (called, *column[size:])

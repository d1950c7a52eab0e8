"""DELETE, UPDATE and TRUNCATE."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
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
from holdfast.sql.query.references import Reference
from holdfast.sql.query.run import expressions
from holdfast.sql.resolver import ResolvedTable, path_of
from holdfast.sql.text import Span
from holdfast.table.table import Table
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
    """Read `column = expression, ...`."""
    sets = []
    while True:
        column = cursor.name()
        cursor.expect("=")
        sets.append((column, cursor.until(",", *stops)))
        if not cursor.take(","):
            refuse_doubled([path for path, _ in sets])
            return tuple(sets)


def refuse_doubled(columns: Sequence[tuple[str, ...]], condition: str = "DELTA_CONFLICT_SET_COLUMN") -> None:
    """Refuse a list of columns that names one twice."""
    lower = set[tuple[str, ...]]()
    for path in columns:
        folded = tuple(part.lower() for part in path)
        if folded in lower:
            raise Invalid(f"{'.'.join(path)} is set twice: set it once").named(condition)
        lower.add(folded)


@dataclass(frozen=True, slots=True)
class TargetTable:
    """The table that a statement changes, under the name that qualifies its columns."""

    context: StatementContext
    resolved: ResolvedTable
    alias: str | None = None  # the user's own

    @property
    def qualifier(self) -> str | None:
        """The name that qualifies columns of the table; None for a path without an alias."""
        if self.alias is None and path_of(self.resolved.parts) is not None:
            return None
        return self.alias or self.resolved.parts[-1]

    @property
    def table(self) -> Table:
        return self.resolved.table if self.qualifier is None else self.resolved.table.alias(self.qualifier)

    def expressions(self, *, changes_rows: bool = True) -> AbstractContextManager[Callable[[Span], str]]:
        """A function that gives the text of expressions about the table."""
        reference = Reference((0, 0), self.resolved.parts, alias=self.alias)
        return expressions(self.context, reference, self.resolved.table if changes_rows else None)

    def assignments(
        self, sets: Sequence[tuple[tuple[str, ...], Span]], text_of: Callable[[Span], str]
    ) -> dict[str, str]:
        """Columns and their values, as the verbs take them."""
        statement, assignments = self.context.statement, {}
        for column, span in sets:
            name = quoted_name(self._shortened(column))
            is_default = span[1] - span[0] == 1 and statement.upper(span[0]) == "DEFAULT"
            assignments[name] = self._default(name) if is_default else text_of(span)
        return assignments

    def _default(self, name: str) -> str:
        """The meaning of DEFAULT for a column; a field of a struct has no default."""
        schema = self.resolved.table.handle.newest().snapshot.schema
        try:
            path = columns_path(schema, name, self.qualifier)
        except UnknownColumn:
            return "NULL"  # of a column that the statement adds; the verb refuses any other
        field = schema.find(path[0])
        return "NULL" if field is None or len(path) > 1 else default_text(self.context, field)

    def _shortened(self, column: tuple[str, ...]) -> tuple[str, ...]:
        """A column with the table's qualifier in the place of the table's whole name."""
        parts = self.resolved.parts
        size = len(parts)
        same = [part.lower() for part in column[:size]] == [part.lower() for part in parts]
        if self.alias is not None or size == 1 or len(column) <= size or not same:
            return column
        return column[size:] if self.qualifier is None else (self.qualifier, *column[size:])


def default_text(context: StatementContext, f: Field) -> str:
    """The meaning of DEFAULT for a column, as SQL."""
    default = default_of(f)
    if default is None:
        return "NULL" if f.write_default is None else literal_text(f.write_default, f.type)
    refuse_shadowed(context.spark, [default])
    return default.sql


def run_delete(context: StatementContext, command: Delete, resolved: ResolvedTable) -> DataFrame:
    with _deletion(context, command, resolved) as (table, condition):
        result = table.delete(condition, userMetadata=context.settings.user_metadata)
    return answers.deleted(context.spark, result)


def explain_delete(context: StatementContext, command: Delete, resolved: ResolvedTable) -> DataFrame:
    with _deletion(context, command, resolved) as (table, condition):
        return answers.explained(context.spark, table.plan.delete(condition))


@contextmanager
def _deletion(
    context: StatementContext, command: Delete, resolved: ResolvedTable
) -> Iterator[tuple[Table, str | None]]:
    """The table, and the condition of the rows to delete."""
    target = TargetTable(context, resolved, command.alias)
    with target.expressions() as text_of:
        yield target.table, None if command.where is None else text_of(command.where)


def run_update(context: StatementContext, command: Update, resolved: ResolvedTable) -> DataFrame:
    with _update(context, command, resolved) as (table, condition, sets):
        result = table.update(condition, sets, userMetadata=context.settings.user_metadata)
    return answers.updated(context.spark, result)


def explain_update(context: StatementContext, command: Update, resolved: ResolvedTable) -> DataFrame:
    with _update(context, command, resolved) as (table, condition, sets):
        return answers.explained(context.spark, table.plan.update(condition, sets))


@contextmanager
def _update(
    context: StatementContext, command: Update, resolved: ResolvedTable
) -> Iterator[tuple[Table, str | None, dict[str, str]]]:
    """The table, the condition of the rows to update, and their new values."""
    target = TargetTable(context, resolved, command.alias)
    with target.expressions() as text_of:
        condition = None if command.where is None else text_of(command.where)
        yield target.table, condition, target.assignments(command.sets, text_of)


def run_truncate(context: StatementContext, command: Truncate, resolved: ResolvedTable) -> DataFrame:
    resolved.table.delete(userMetadata=context.settings.user_metadata)
    return answers.nothing(context.spark)

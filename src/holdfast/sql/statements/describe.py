"""DESCRIBE and SHOW, with the columns of Spark's answers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, UnknownColumn
from holdfast.model.snapshot import Snapshot
from holdfast.plan.scan.request import partition_fields
from holdfast.schema.constraints import quoted
from holdfast.schema.enforce import DEFAULT, GENERATION
from holdfast.schema.identity import identity_of
from holdfast.schema.literal_text import literal_text
from holdfast.schema.partition import column, typed
from holdfast.schema.types import Field
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.parameters import literal
from holdfast.sql.resolver import ResolvedTable, path_of
from holdfast.sql.statements.create_parse import OF_ITSELF, parse_key
from holdfast.sql.statements.maintain import place_of

T = TypeVar("T")
_STRING = pa.string()
_COLUMNS = pa.schema(
    [pa.field("col_name", _STRING, False), pa.field("data_type", _STRING, False), pa.field("comment", _STRING)]
)
_FACTS = pa.schema([pa.field("info_name", _STRING, False), pa.field("info_value", _STRING, False)])
_PROPERTIES = pa.schema([pa.field("key", _STRING, False), pa.field("value", _STRING, False)])
_NOT_TABLES = frozenset(("QUERY", "FUNCTION", "DATABASE", "SCHEMA", "CATALOG", "NAMESPACE", "SELECT", "WITH", "VALUES"))


@dataclass(frozen=True, slots=True)
class DescribeHistory:
    """DESCRIBE HISTORY t [LIMIT n]."""

    table: tuple[str, ...]
    limit: int | None = None


@dataclass(frozen=True, slots=True)
class Detail:
    """DESCRIBE DETAIL t."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE [TABLE] [EXTENDED] t [column]."""

    table: tuple[str, ...]
    extended: bool = False
    column: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """SHOW TBLPROPERTIES t [(key)]."""

    table: tuple[str, ...]
    key: str | None = None


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """SHOW COLUMNS IN t."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS t."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ShowCreate:
    """SHOW CREATE TABLE t."""

    table: tuple[str, ...]


def parse_describe(cursor: Cursor) -> DescribeHistory | Detail | Describe:
    if cursor.one_of("DESCRIBE", "DESC") is None or cursor.upper() in _NOT_TABLES:
        raise cursor.wrong("a table is expected")
    if cursor.last - cursor.at > 1 and cursor.take("HISTORY"):
        table = cursor.table()
        limit = cursor.number() if cursor.take("LIMIT") else None
        cursor.end()
        return DescribeHistory(table, limit)
    if cursor.take("DETAIL"):
        return _ended(cursor, Detail(cursor.table()))
    cursor.take("TABLE")
    extended = cursor.one_of("EXTENDED", "FORMATTED") is not None
    table = cursor.table()
    if cursor.take("AS", "JSON"):
        raise cursor.wrong("a description as JSON is not given: leave AS JSON out")
    column = None if cursor.is_over else cursor.name()
    return _ended(cursor, Describe(table, extended, column))


def parse_show(cursor: Cursor) -> ShowProperties | ShowColumns | ShowPartitions | ShowCreate:
    cursor.expect("SHOW")
    if cursor.take("TBLPROPERTIES"):
        table = cursor.table()
        key = parse_key(Cursor(cursor.statement, *cursor.group())) if cursor.sees("(") else None
        return _ended(cursor, ShowProperties(table, key))
    if cursor.take("COLUMNS"):
        if cursor.one_of("IN", "FROM") is None:
            raise cursor.wrong("IN or FROM is expected")
        table = cursor.table()
        if cursor.one_of("IN", "FROM") is not None:
            cursor.table_name = table = (*cursor.name(), *table)
        return _ended(cursor, ShowColumns(table))
    if cursor.take("PARTITIONS"):
        return _ended(cursor, ShowPartitions(cursor.table()))
    if cursor.take("CREATE", "TABLE"):
        return _ended(cursor, ShowCreate(cursor.table()))
    raise cursor.wrong("what to show is expected")


def run_describe(
    context: StatementContext, command: DescribeHistory | Detail | Describe, resolved: ResolvedTable
) -> DataFrame:
    spark = context.spark
    match command:
        case DescribeHistory(_, limit):
            return resolved.table.history(limit)
        case Detail():
            name = None if resolved.entry is None else resolved.entry.full_name
            return answers.detail(spark, resolved.delta("DESCRIBE DETAIL"), name)
        case Describe(_, extended, None):
            return answers.of_rows(spark, _COLUMNS, list(_described(resolved, extended=extended)))
        case Describe(_, _, path):
            return answers.of_rows(spark, _FACTS, list(_described_column(resolved, path or ())))


def run_show(
    context: StatementContext,
    command: ShowProperties | ShowColumns | ShowPartitions | ShowCreate,
    resolved: ResolvedTable,
) -> DataFrame:
    spark, snapshot = context.spark, resolved.table.handle.newest().snapshot
    match command:
        case ShowProperties(_, key):
            return answers.of_rows(spark, _PROPERTIES, _properties(resolved, key))
        case ShowColumns():
            names = [{"col_name": f.name} for f in snapshot.schema.fields]
            return answers.of_rows(spark, pa.schema([("col_name", _STRING)]), names)
        case ShowPartitions():
            return spark.createDataFrame(_partitions(resolved, snapshot, context.zone))
        case ShowCreate():
            resolved.delta("SHOW CREATE TABLE")
            text = _create_text(resolved)
            return answers.of_rows(spark, pa.schema([("createtab_stmt", _STRING)]), [{"createtab_stmt": text}])


def _described(resolved: ResolvedTable, *, extended: bool) -> Iterator[dict[str, str | None]]:
    snapshot = resolved.table.handle.newest().snapshot
    for f in snapshot.schema.fields:
        yield _row(f.name, _type(f), f.metadata.get("comment"))
    heading = _row("# col_name", "data_type", "comment")
    if snapshot.partition_columns:
        yield _row("# Partition Information", "", "")
        yield heading
        for f in partition_fields(snapshot):
            yield _row(f.name, _type(f), f.metadata.get("comment"))
    clustering = resolved.table.handle.details().clustering_columns if extended else ()
    if clustering:
        yield _row("# Clustering Information", "", "")
        yield heading
        for name in clustering:
            f_ = snapshot.schema.find(name)
            yield _row(name, "" if f_ is None else _type(f_), None)
    if extended:
        yield _row("", "", "")
        yield _row("# Detailed Table Information", "", "")
        for name, value in _facts(resolved, snapshot):
            yield _row(name, value, "")


def _facts(resolved: ResolvedTable, snapshot: Snapshot) -> Iterator[tuple[str, str]]:
    yield "Name", resolved.name if resolved.entry is None else resolved.entry.full_name
    if resolved.entry is not None:
        yield "Type", "MANAGED" if resolved.entry.managed else "EXTERNAL"
    if comment := resolved.table.handle.details().description:
        yield "Comment", comment
    yield "Location", place_of(resolved)
    yield "Provider", resolved.table.handle.format_name
    properties = ",".join(f"{row['key']}={row['value']}" for row in _properties(resolved, None))
    yield "Table Properties", f"[{properties}]"


def _described_column(resolved: ResolvedTable, path: tuple[str, ...]) -> Iterator[dict[str, str | None]]:
    f = resolved.table.handle.newest().snapshot.schema.find(path[-1] if len(path) == 1 else ".".join(path))
    if f is None:
        raise UnknownColumn(f"{resolved.name} has no column {'.'.join(path)}", column=".".join(path))
    yield {"info_name": "col_name", "info_value": f.name}
    yield {"info_name": "data_type", "info_value": _type(f)}
    yield {"info_name": "comment", "info_value": str(f.metadata.get("comment", "NULL"))}


def _properties(resolved: ResolvedTable, key: str | None) -> list[dict[str, str]]:
    handle = resolved.table.handle
    properties = {**handle.newest().snapshot.properties, **handle.details().protocol}
    if key is None:
        return [{"key": name, "value": properties[name]} for name in sorted(properties)]
    name = resolved.name.replace("`", "") if resolved.entry is None else resolved.entry.full_name
    value = properties.get(key, f"Table {name} does not have property: {key}")
    return [{"key": key, "value": value}]


def _partitions(resolved: ResolvedTable, snapshot: Snapshot, zone: str) -> pa.Table:
    """The distinct partition values, in order, with a column for each partition column."""
    if not snapshot.partition_columns:
        raise Invalid(f"{resolved.name} is not partitioned by columns, so there is nothing to show")
    values = snapshot.files.column("partition_values")
    parts = {
        f.name: typed(column(values, f.physical_name), f.type, where=f"{f.name} of {resolved.name}", zone=zone)
        for f in partition_fields(snapshot)
    }
    unique = pa.table(parts).group_by(list(parts)).aggregate([])
    return unique.sort_by([(name, "ascending") for name in parts])


def _create_text(resolved: ResolvedTable) -> str:
    """The CREATE TABLE statement of a table."""
    handle = resolved.table.handle
    snapshot, details = handle.newest().snapshot, handle.details()
    name = resolved.name if path_of(resolved.parts) else (resolved.entry.full_name if resolved.entry else resolved.name)
    lines = ",\n  ".join(_column_text(f) for f in snapshot.schema.fields)
    text = f"CREATE TABLE {name} (\n  {lines})\nUSING delta\n"
    if snapshot.partition_columns:
        text += f"PARTITIONED BY ({', '.join(map(quoted, snapshot.partition_columns))})\n"
    if details.clustering_columns:
        text += f"CLUSTER BY ({', '.join(details.clustering_columns)})\n"
    if details.description:
        text += f"COMMENT {literal(details.description)}\n"
    if resolved.entry is None or not resolved.entry.managed:
        text += f"LOCATION {literal(place_of(resolved))}\n"
    own = [(k, v) for k, v in sorted(snapshot.properties.items()) if not k.startswith(OF_ITSELF)]
    properties = ",\n  ".join(f"{literal(k)} = {literal(v)}" for k, v in own)
    return text + (f"TBLPROPERTIES (\n  {properties})\n" if properties else "")


def _column_text(f: Field) -> str:
    text = f"{quoted(f.name)} {_type(f).upper()}"
    identity = identity_of(f)
    if GENERATION in f.metadata:
        text += f" GENERATED ALWAYS AS ({f.metadata[GENERATION]})"
    elif identity is not None:
        kind = "BY DEFAULT" if identity.explicit else "ALWAYS"
        text += f" GENERATED {kind} AS IDENTITY (START WITH {identity.start} INCREMENT BY {identity.step})"
    elif DEFAULT in f.metadata:
        text += f" DEFAULT {f.metadata[DEFAULT]}"
    elif f.write_default is not None:
        text += f" DEFAULT {literal_text(f.write_default, f.type)}"
    text += "" if f.nullable else " NOT NULL"
    comment = f.metadata.get("comment")
    return text + (f" COMMENT {literal(str(comment))}" if comment else "")


def _type(f: Field) -> str:
    return spark_struct([f]).fields[0].dataType.simpleString()


def _row(name: str, kind: str, comment: object) -> dict[str, str | None]:
    return {"col_name": name, "data_type": kind, "comment": None if comment is None else str(comment)}


def _ended(cursor: Cursor, command: T) -> T:
    cursor.end()
    return command

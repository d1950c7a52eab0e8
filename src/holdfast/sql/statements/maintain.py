"""Maintenance statements: OPTIMIZE, VACUUM, RESTORE, REORG, GENERATE, CONVERT TO DELTA, REFRESH and ANALYZE."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.engines.spark.session.catalog import enter, find, forget
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, NotATable, Unsupported
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.resolver import ResolvedTable, as_delta
from holdfast.sql.statements.create_parse import parse_column
from holdfast.sql.statements.dml import TargetTable
from holdfast.sql.text import Span
from holdfast.table.delta import DeltaTable
from holdfast.verbs.stream.follow import nullable


@dataclass(frozen=True, slots=True)
class Optimize:
    """OPTIMIZE t [FULL] [WHERE condition] [ZORDER BY (columns)]."""

    table: tuple[str, ...]
    full: bool = False
    where: Span | None = None
    z_order: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True, slots=True)
class Vacuum:
    """VACUUM t [LITE | FULL] [RETAIN n HOURS] [DRY RUN]."""

    table: tuple[str, ...]
    lite: bool = False
    retain: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Restore:
    """RESTORE t TO VERSION or TIMESTAMP AS OF x."""

    table: tuple[str, ...]
    is_version: bool
    point: Span


@dataclass(frozen=True, slots=True)
class Reorg:
    """REORG TABLE t APPLY (PURGE)."""

    table: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Generate:
    """GENERATE mode FOR TABLE t."""

    table: tuple[str, ...]
    mode: str


@dataclass(frozen=True, slots=True)
class Convert:
    """CONVERT TO DELTA t [PARTITIONED BY (columns)]."""

    source: tuple[str, ...]
    partitions: str | None = None


@dataclass(frozen=True, slots=True)
class Refresh:
    """REFRESH TABLE t, which does nothing: every statement reads the newest version."""

    table: tuple[str, ...]


def parse_optimize(cursor: Cursor) -> Optimize:
    cursor.expect("OPTIMIZE")
    table, full = cursor.table(), cursor.take("FULL")
    where = cursor.until("ZORDER") if cursor.take("WHERE") else None
    columns: tuple[tuple[str, ...], ...] = ()
    if cursor.take("ZORDER", "BY"):
        columns = tuple(cursor.names_in(cursor.group() if cursor.sees("(") else cursor.rest()))
    cursor.end()
    return Optimize(table, full, where, columns)


def parse_vacuum(cursor: Cursor) -> Vacuum:
    cursor.expect("VACUUM")
    table = cursor.table()
    lite, retain, dry_run = False, None, False
    while not cursor.is_over:
        if cursor.take("LITE"):
            lite = True
        elif cursor.take("RETAIN"):
            try:
                retain = float(cursor.statement.slice(*cursor.until("HOURS", "HOUR")))
            except ValueError:
                raise cursor.wrong("a number of hours is expected") from None
            cursor.at += 1
        elif cursor.take("DRY", "RUN"):
            dry_run = True
        elif cursor.sees("USING", "INVENTORY"):
            raise Unsupported("VACUUM ... USING INVENTORY is not done: leave it out, or use VACUUM ... LITE")
        elif not cursor.take("FULL"):
            raise cursor.wrong("LITE, FULL, RETAIN or DRY RUN is expected")
    return Vacuum(table, lite, retain, dry_run)


def parse_restore(cursor: Cursor) -> Restore:
    cursor.expect("RESTORE")
    cursor.take("TABLE")
    table = cursor.table()
    cursor.take("TO")
    is_version = cursor.take("VERSION")
    if not is_version:
        cursor.expect("TIMESTAMP")
    cursor.expect("AS", "OF")
    return Restore(table, is_version, cursor.until())


def parse_reorg(cursor: Cursor) -> Reorg:
    cursor.expect("REORG", "TABLE")
    table = cursor.table()
    if cursor.sees("WHERE"):
        raise Unsupported("REORG writes every file anew that hides rows: leave WHERE out, or use OPTIMIZE ... WHERE")
    cursor.expect("APPLY")
    inner = Cursor(cursor.statement, *cursor.group())
    if not inner.take("PURGE"):
        raise Unsupported("REORG ... APPLY is for (PURGE): tables are published as Iceberg by publish() instead")
    inner.end()
    cursor.end()
    return Reorg(table)


def parse_generate(cursor: Cursor) -> Generate:
    cursor.expect("GENERATE")
    mode = cursor.identifier()
    cursor.expect("FOR", "TABLE")
    table = cursor.table()
    cursor.end()
    return Generate(table, mode)


def parse_convert(cursor: Cursor) -> Convert:
    cursor.expect("CONVERT", "TO", "DELTA")
    source = cursor.name()
    cursor.take("NO", "STATISTICS")
    partitions = None
    if cursor.take("PARTITIONED", "BY"):
        inner = Cursor(cursor.statement, *cursor.group())
        columns = []
        while not inner.is_over:
            column = parse_column(inner)
            columns.append(f"`{column.name}` {column.type}")
            inner.take(",")
        partitions = ", ".join(columns)
    cursor.end()
    return Convert(source, partitions)


def parse_refresh(cursor: Cursor) -> Refresh:
    cursor.expect("REFRESH", "TABLE")
    table = cursor.table()
    cursor.end()
    return Refresh(table)


def parse_analyze(cursor: Cursor) -> Refresh:
    cursor.expect("ANALYZE", "TABLE")
    cursor.table()
    raise Unsupported("ANALYZE TABLE is not done: statistics of a Delta table are written with its files")


def run_optimize(context: StatementContext, command: Optimize, resolved: ResolvedTable) -> DataFrame:
    builder = resolved.table.optimize(full=command.full)
    with TargetTable(context, resolved).expressions(changes_rows=False) as text_of:
        if command.where is not None:
            builder = builder.where(text_of(command.where))
        if command.z_order:
            result = builder.executeZOrderBy(*(".".join(path) for path in command.z_order))
        else:
            result = builder.executeCompaction()
    return answers.optimized(context.spark, result, place_of(resolved))


def run_vacuum(context: StatementContext, command: Vacuum, resolved: ResolvedTable) -> DataFrame:
    table = resolved.delta("VACUUM")
    enforced = context.settings.checks_retention
    result = table.vacuum(command.retain, dryRun=command.dry_run, lite=command.lite, enforceRetention=enforced)
    return answers.vacuumed(context.spark, result, place_of(resolved))


def run_restore(context: StatementContext, command: Restore, resolved: ResolvedTable) -> DataFrame:
    table = resolved.table
    if not command.is_version:
        result = table.restoreToTimestamp(context.timestamp(command.point))
    else:
        version = context.version(command.point)
        if isinstance(version, str) and (delta := as_delta(table)) is not None:
            pins = delta.pins()
            if version not in pins:
                raise Invalid(f"no version of {resolved.name} is pinned as {version!r}: give its number")
            version = pins[version]
        result = table.restoreToVersion(version)
    return answers.restored(context.spark, result)


def run_reorg(context: StatementContext, command: Reorg, resolved: ResolvedTable) -> DataFrame:
    return answers.optimized(context.spark, resolved.table.purge(), place_of(resolved))


def run_generate(context: StatementContext, command: Generate, resolved: ResolvedTable) -> DataFrame:
    resolved.delta("GENERATE").generate(command.mode)
    return answers.nothing(context.spark)


def run_refresh(context: StatementContext, command: Refresh, resolved: ResolvedTable) -> DataFrame:
    return answers.nothing(context.spark)


def run_convert(context: StatementContext, command: Convert) -> DataFrame:
    """Make a Delta table of the Parquet files at a path, or of a table in the catalog."""
    spark, parts = context.spark, command.source
    if len(parts) == 2 and parts[0].lower() in ("parquet", "delta", "iceberg"):
        if parts[0].lower() != "delta":
            DeltaTable.convertToDelta(
                spark, f"{parts[0]}.`{parts[1]}`", command.partitions, properties=context.settings.properties
            )
        return answers.nothing(spark)
    name, entry = ".".join(parts), find(spark, parts)
    if entry is None:
        raise NotATable(f"there is no table {name} in Spark's catalog", location=name)
    if entry.managed and not entry.is_delta:
        raise Unsupported(
            f"{name} is managed by Spark, which would delete its files with its entry: convert the directory, "
            f"CONVERT TO DELTA parquet.`{entry.location}`, after copying it elsewhere"
        )
    if not entry.is_delta:
        table = DeltaTable.convertToDelta(
            spark, f"{entry.provider}.`{entry.location}`", command.partitions, properties=context.settings.properties
        )
        forget(spark, parts)
        schema = spark_struct(nullable(table.handle.newest().snapshot.schema).fields)
        enter(spark, parts, location=entry.location, schema=schema)
    return answers.nothing(spark)


def place_of(resolved: ResolvedTable) -> str:
    """The location of a table, as Spark spells it."""
    return resolved.table.handle.newest().snapshot.location.spark_uri("").rstrip("/")

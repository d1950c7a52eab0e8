"""OPTIMIZE, VACUUM, RESTORE, REORG, GENERATE, CONVERT TO DELTA, and what Spark asks of any table: REFRESH, ANALYZE."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from holdfast.engines.spark.session.catalog import enter, find, forget
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid, NotATable, Unsupported
from holdfast.sql import answers
from holdfast.sql.context import StatementContext
from holdfast.sql.cursor import Cursor
from holdfast.sql.query.references import Span
from holdfast.sql.query.run import expressions
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.statements.create_parse import parse_column
from holdfast.sql.statements.dml import target_of
from holdfast.sql.text import Statement
from holdfast.table.delta import DeltaTable
from holdfast.verbs.stream.follow import nullable

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"


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
    """REFRESH TABLE t: a table is read anew for every statement, so there is nothing to do."""

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
            begun, end = cursor.until("HOURS", "HOUR")
            try:
                retain = float(cursor.statement.slice(begun, end))
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


def run_optimize(asking: StatementContext, statement: Statement, asked: Optimize, found: ResolvedTable) -> DataFrame:
    builder = found.table.optimize(full=asked.full)
    with expressions(asking, statement, target_of(asked.table, None)) as text_of:
        if asked.where is not None:
            builder = builder.where(text_of(asked.where))
        if asked.z_order:
            done = builder.executeZOrderBy(*(".".join(path) for path in asked.z_order))
        else:
            done = builder.executeCompaction()
    return answers.optimized(asking.spark, done, place_of(found))


def run_vacuum(asking: StatementContext, statement: Statement, asked: Vacuum, found: ResolvedTable) -> DataFrame:
    table = found.delta("VACUUM")
    enforced = asking.setting(_CHECK, "true") == "true"
    done = table.vacuum(asked.retain, dryRun=asked.dry_run, lite=asked.lite, enforceRetention=enforced)
    return answers.vacuumed(asking.spark, done, place_of(found))


def run_restore(asking: StatementContext, statement: Statement, asked: Restore, found: ResolvedTable) -> DataFrame:
    table = found.table
    if not asked.is_version:
        done = table.restoreToTimestamp(asking.timestamp(statement, asked.point))
    else:
        version = asking.version(statement, asked.point)
        if isinstance(version, int):
            done = table.restoreToVersion(version)
        elif isinstance(table, DeltaTable):
            pins = table.pins()
            if version not in pins:
                raise Invalid(f"no version of {found.name} is pinned as {version!r}: give its number")
            done = table.restoreToVersion(pins[version])
        else:
            done = table.restoreToVersion(version)
    return answers.restored(asking.spark, done)


def run_reorg(asking: StatementContext, statement: Statement, asked: Reorg, found: ResolvedTable) -> DataFrame:
    return answers.optimized(asking.spark, found.table.purge(), place_of(found))


def run_generate(asking: StatementContext, statement: Statement, asked: Generate, found: ResolvedTable) -> DataFrame:
    found.delta("GENERATE").generate(asked.mode)
    return answers.nothing(asking.spark)


def run_refresh(asking: StatementContext, statement: Statement, asked: Refresh, found: ResolvedTable) -> DataFrame:
    return answers.nothing(asking.spark)


def run_convert(asking: StatementContext, asked: Convert) -> DataFrame:
    """Make a Delta table of Parquet files, at a path or of a table in the catalog, which then is one of ours."""
    spark, parts = asking.spark, asked.source
    if len(parts) == 2 and parts[0].lower() in ("parquet", "delta", "iceberg"):
        if parts[0].lower() != "delta":
            DeltaTable.convertToDelta(
                spark, f"{parts[0]}.`{parts[1]}`", asked.partitions, properties=asking.table_defaults
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
            spark, f"{entry.provider}.`{entry.location}`", asked.partitions, properties=asking.table_defaults
        )
        forget(spark, parts)
        schema = spark_struct(nullable(table.handle.newest().snapshot.schema).fields)
        enter(spark, parts, location=entry.location, schema=schema)
    return answers.nothing(spark)


def place_of(found: ResolvedTable) -> str:
    """Where a table is, as Spark spells it."""
    return found.table.handle.newest().snapshot.location.spark_uri("").rstrip("/")

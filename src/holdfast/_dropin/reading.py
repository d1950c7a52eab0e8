"""`spark.read` in a session with the drop-in: Delta tables by native scans, everything else as Spark reads it.

1. A reader notes what it is told and tells Spark's own reader too, so any other format is read as without the drop-in.
2. Delta is meant by the format, or where none is named by `spark.sql.sources.default`.
3. A version is chosen by one thing only: an option, or the end of the path (`@v3`, `@20240501120000000`).
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast._dropin.errors import ILLEGAL_OPTION, PATH_NOT_FOUND, TABLE_NOT_FOUND, as_delta_spark
from holdfast._dropin.frames import going_on, remembering
from holdfast._dropin.lazy_frame import ViewRows, pinned
from holdfast._dropin.options import SourceOptions, is_delta
from holdfast._dropin.recording import NotingFormat, noting
from holdfast.engines.spark.session.catalog import quoted, split
from holdfast.errors import Invalid
from holdfast.sql.resolver import TableResolver
from holdfast.sql.run import run
from holdfast.table.delta import DeltaTable
from holdfast.table.either import IcebergTable

_VERSIONS = ("versionAsOf", "timestampAsOf")
_FEED = ("readChangeFeed", "readChangeData")
_BOUNDS = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_KNOWN = (*_VERSIONS, *_FEED, *_BOUNDS, "path")
_AT_VERSION = re.compile(r"(.+)@[vV](\d+)", re.DOTALL)
_AT_MOMENT = re.compile(r"(.+)@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})", re.DOTALL)


def reader(plain: Any, spark: SparkSession, known: TableResolver) -> Any:
    """A reader of a session with the drop-in."""
    return noting(plain, _FrameReader, asking=(spark, known), schema=None)


def by_name(
    spark: SparkSession, name: str, known: TableResolver, options: SourceOptions | None = None
) -> DataFrame | None:
    """The rows of one of our tables, or of a view that remembers one; None where the name means neither."""
    with as_delta_spark(missing=TABLE_NOT_FOUND, invalid=ILLEGAL_OPTION):
        try:
            parts = split(name)
        except Invalid:
            return None  # Spark says what is wrong with it
        view = known.view(spark, parts)
        if isinstance(view, ViewRows):
            return going_on(view.called(parts[-1]))
        if view is not None:
            return None
        found = known.table(spark, parts)
        if found is None and known.stored(parts) is not None:
            return run(spark, f"SELECT * FROM {quoted(parts)}", resolver=known)
        return None if found is None else rows_of(spark, found.table, options or SourceOptions(), name=parts[-1])


def by_path(spark: SparkSession, path: str, options: SourceOptions) -> DataFrame:
    """The rows of the table at a path."""
    with as_delta_spark(missing=PATH_NOT_FOUND, invalid=ILLEGAL_OPTION):
        path = _chosen(spark, path, options)
        table = DeltaTable.forPath(spark, path, storage_options=options.storage())
        return rows_of(spark, table, options)


def rows_of(
    spark: SparkSession, table: DeltaTable | IcebergTable, options: SourceOptions, *, name: str | None = None
) -> DataFrame:
    """The rows of a table that options ask for."""
    options.refuse_misspelt(_KNOWN, "reading a Delta table")
    version, moment = options.get("versionAsOf"), options.get("timestampAsOf")
    if version is not None and moment is not None:
        wrong = Invalid("versionAsOf and timestampAsOf exclude each other: choose one")
        raise wrong.named("DELTA_ONEOF_IN_TIMETRAVEL")
    if any(options.flag(each) for each in _FEED):
        return _changes(table, options)
    if version is not None and not version.strip().isdigit():
        raise Invalid(f"versionAsOf is a version, not {version!r}")
    at = None if version is None else int(version)
    return remembering(pinned(spark, table, version=at, timestamp=moment, name=name))


def _changes(table: DeltaTable | IcebergTable, options: SourceOptions) -> DataFrame:
    if isinstance(table, IcebergTable):
        raise Invalid("an Iceberg table has no change data feed: use changes() of the table")
    if options.get("versionAsOf") or options.get("timestampAsOf"):
        raise Invalid("readChangeFeed reads from a start to an end: leave versionAsOf and timestampAsOf out")
    start, end = _bound(options, "starting"), _bound(options, "ending")
    if start is None:
        raise Invalid("readChangeFeed needs a start: startingVersion or startingTimestamp")
    return table.changeFeed(start, end).toDF()


def _bound(options: SourceOptions, which: str) -> int | str | None:
    version, moment = options.get(f"{which}Version"), options.get(f"{which}Timestamp")
    if version is not None and moment is not None:
        raise Invalid(f"{which}Version and {which}Timestamp exclude each other: choose one")
    if version is None:
        return moment
    if not version.strip().isdigit():
        raise Invalid(f"{which}Version is a version, not {version!r}")
    return int(version)


def _chosen(spark: SparkSession, path: str, options: SourceOptions) -> str:
    """The path without a version at its end, which becomes an option."""
    by_version, by_moment = _AT_VERSION.fullmatch(path), _AT_MOMENT.fullmatch(path)
    at = by_version or by_moment
    if at is None or DeltaTable.isDeltaTable(spark, f"`{path}`", storage_options=options.storage()):
        return path
    if options.get("versionAsOf") or options.get("timestampAsOf"):
        raise Invalid(f"{path} names a version, and so do the options: choose one")
    if by_version is not None:
        options.set("versionAsOf", by_version[2])
        return by_version[1]
    year, month, day, hour, minute, second, millis = at.groups()[1:]
    options.set("timestampAsOf", f"{year}-{month}-{day}T{hour}:{minute}:{second}.{millis}")
    return at[1]


class _FrameReader(NotingFormat):
    """The part of `spark.read` that knows Delta tables."""

    _holdfast_asking: tuple[SparkSession, TableResolver]
    _holdfast_schema: Any

    def schema(self, schema: Any) -> Any:
        self._holdfast_schema = schema
        return self._holdfast_plain.schema(schema)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark, _ = self._holdfast_asking
        source = format or self._holdfast_format
        if source is None:
            source = spark.conf.get("spark.sql.sources.default", "parquet")
        if not is_delta(source):
            return self._holdfast_plain.load(path, format, schema, **options)
        self._holdfast_note(options)
        with as_delta_spark(invalid=ILLEGAL_OPTION):
            if schema is not None or self._holdfast_schema is not None:
                raise Invalid("a Delta table has its own schema: leave schema(...) out")
            path = self._holdfast_options.get("path") if path is None else path
            if isinstance(path, list | tuple) and len(path) == 1:
                path = path[0]
            if not isinstance(path, str):
                raise Invalid("a Delta table is read from one path: load(path)")
        return by_path(spark, path, self._holdfast_options)

    def table(self, tableName: str) -> Any:
        spark, known = self._holdfast_asking
        found = by_name(spark, tableName, known, self._holdfast_options)
        return self._holdfast_plain.table(tableName) if found is None else found

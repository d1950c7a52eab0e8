"""`spark.read` in a session with the drop-in: reads Delta tables by native scans, and other formats by Spark.

1. A reader records its options and passes them on to Spark's own reader, which reads any other format.
2. The format is Delta by name, or by `spark.sql.sources.default` where none is named.
3. Either an option or the end of the path (`@v3`, `@20240501120000000`) chooses a version, not both.
"""

from __future__ import annotations

import re
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from holdfast._dropin.errors import ILLEGAL_OPTION, PATH_NOT_FOUND, TABLE_NOT_FOUND, as_delta_spark
from holdfast._dropin.frames import lazy_frame
from holdfast._dropin.lazy_query import LazyQuery, ViewRows, pinned
from holdfast._dropin.options import SourceOptions, is_delta
from holdfast._dropin.recording import RecordsFormat, recording
from holdfast.engines.spark.session.catalog import quoted, split
from holdfast.errors import Invalid
from holdfast.sql.resolver import TableResolver, as_delta
from holdfast.sql.run import run
from holdfast.sql.settings import settings_of
from holdfast.table.delta import DeltaTable
from holdfast.table.table import Table

_VERSIONS = ("versionAsOf", "timestampAsOf")
_FEED = ("readChangeFeed", "readChangeData")
_BOUNDS = ("startingVersion", "startingTimestamp", "endingVersion", "endingTimestamp")
_OPTIONS = (*_VERSIONS, *_FEED, *_BOUNDS, "path")
_AT_VERSION = re.compile(r"(.+)@[vV](\d+)", re.DOTALL)
_AT_MOMENT = re.compile(r"(.+)@(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)(\d{3})", re.DOTALL)


def reader(plain: Any, spark: SparkSession, resolver: TableResolver) -> Any:
    """A reader of a session with the drop-in."""
    return recording(plain, _FrameReader, spark=spark, resolver=resolver, schema=None)


def by_name(
    spark: SparkSession, name: str, resolver: TableResolver, options: SourceOptions | None = None
) -> DataFrame | None:
    """The rows of one of our tables, or of a view over one; None where the name means neither."""
    with as_delta_spark(missing=TABLE_NOT_FOUND, invalid=ILLEGAL_OPTION):
        try:
            parts = split(name)
        except Invalid:
            return None  # Spark reports the error
        view = resolver.view(spark, parts)
        if isinstance(view, ViewRows):
            return lazy_frame(view.under_name(parts[-1]))
        if view is not None:
            return None
        resolved = resolver.table(spark, parts)
        if resolved is None and resolver.stored(parts) is not None:
            return run(spark, f"SELECT * FROM {quoted(parts)}", resolver=resolver)
        return None if resolved is None else rows_of(spark, resolved.table, options or SourceOptions(), name=parts[-1])


def by_path(spark: SparkSession, path: str, options: SourceOptions) -> DataFrame:
    """The rows of the table at a path."""
    with as_delta_spark(missing=PATH_NOT_FOUND, invalid=ILLEGAL_OPTION):
        path = _without_version(spark, path, options)
        table = DeltaTable.forPath(spark, path, storage_options=options.storage())
        return rows_of(spark, table, options)


def rows_of(spark: SparkSession, table: Table, options: SourceOptions, *, name: str | None = None) -> DataFrame:
    """The rows, or the change data feed, of a table, as the options say."""
    options.refuse_misspelt(_OPTIONS, "reading a Delta table")
    version, moment = options.get("versionAsOf"), options.get("timestampAsOf")
    if version is not None and moment is not None:
        wrong = Invalid("versionAsOf and timestampAsOf exclude each other: choose one")
        raise wrong.named("DELTA_ONEOF_IN_TIMETRAVEL")
    if any(options.flag(option) for option in _FEED):
        return _change_feed(table, options)
    if version is not None and not version.strip().isdigit():
        raise Invalid(f"versionAsOf is a version, not {version!r}")
    at = None if version is None else int(version)
    return lazy_frame(LazyQuery(pinned(spark, table, version=at, timestamp=moment, name=name)))


def _change_feed(table: Table, options: SourceOptions) -> DataFrame:
    delta = as_delta(table)
    if delta is None:
        raise Invalid("an Iceberg table has no change data feed: use changes() of the table")
    if options.get("versionAsOf") or options.get("timestampAsOf"):
        raise Invalid("readChangeFeed reads from a start to an end: leave versionAsOf and timestampAsOf out")
    start, end = _bound(options, "starting"), _bound(options, "ending")
    if start is None:
        raise Invalid("readChangeFeed needs a start: startingVersion or startingTimestamp")
    return delta.changeFeed(start, end).toDF()


def _bound(options: SourceOptions, which: str) -> int | str | None:
    version, moment = options.get(f"{which}Version"), options.get(f"{which}Timestamp")
    if version is not None and moment is not None:
        raise Invalid(f"{which}Version and {which}Timestamp exclude each other: choose one")
    if version is None:
        return moment
    if not version.strip().isdigit():
        raise Invalid(f"{which}Version is a version, not {version!r}")
    return int(version)


def _without_version(spark: SparkSession, path: str, options: SourceOptions) -> str:
    """The path without the version at its end, which becomes an option."""
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


class _FrameReader(RecordsFormat):
    """The mixin of `spark.read`."""

    _holdfast_spark: SparkSession
    _holdfast_resolver: TableResolver
    _holdfast_schema: Any

    def schema(self, schema: Any) -> Any:
        self._holdfast_schema = schema
        return self._holdfast_plain.schema(schema)

    def load(self, path: Any = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark = self._holdfast_spark
        source = format or self._holdfast_format
        if not is_delta(settings_of(spark).default_source if source is None else source):
            return self._holdfast_plain.load(path, format, schema, **options)
        self._holdfast_record(options)
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
        rows = by_name(self._holdfast_spark, tableName, self._holdfast_resolver, self._holdfast_options)
        return self._holdfast_plain.table(tableName) if rows is None else rows

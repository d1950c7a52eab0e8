"""`readStream` and `writeStream` with `format("delta")`: Holdfast's source and sink with delta-spark's options.

1. Streams of other formats, `foreach` and `foreachBatch` are Spark's, as without the drop-in.
2. The table of a sink exists before the query starts, with the partitions and columns of the writer.
3. On Spark Connect the function of `foreachBatch` runs on the server, in a session with the drop-in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast._dropin.errors import ILLEGAL_OPTION, PATH_NOT_FOUND, as_delta_spark
from holdfast._dropin.options import SourceOptions, is_delta
from holdfast._dropin.recording import RecordsFormat, names, recording
from holdfast._dropin.saving import SaveRequest, refuse_options, save, save_as_table, write_into
from holdfast.engines.spark.session.catalog import split
from holdfast.engines.spark.session.unpatched import plain
from holdfast.errors import Invalid, Unsupported
from holdfast.plan.changefeed.stream import parse_options
from holdfast.sql.resolver import TableResolver
from holdfast.sql.settings import settings_of
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.stream.source import FORMAT, register

_FIXED = {"failondataloss": "true"}  # the source has no other mode
_SINK = ("checkpointLocation", "txnAppId", "userMetadata")
_WRITES_ONLY = (
    "overwriteSchema",
    "replaceWhere",
    "partitionOverwriteMode",
    "txnVersion",
    "compression",
    "optimizeWrite",
    "maxRecordsPerFile",
)
_registered: WeakSet[SparkSession] = WeakSet()


def reader(spark_reader: Any, spark: SparkSession, resolver: TableResolver) -> Any:
    """A reader of streams in a session with the drop-in."""
    return recording(spark_reader, _StreamReader, spark=spark, resolver=resolver)


def writer(spark_writer: Any, rows: DataFrame, resolver: TableResolver) -> Any:
    """A writer of streams in a session with the drop-in."""
    fields = {"partitions": (), "clustering": (), "calls": False}
    return recording(spark_writer, _StreamWriter, rows=rows, resolver=resolver, **fields)


class _StreamReader(RecordsFormat):
    """The mixin of `spark.readStream`."""

    _holdfast_spark: SparkSession
    _holdfast_resolver: TableResolver

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark = self._holdfast_spark
        source = format or self._holdfast_format or settings_of(spark).default_source
        if not is_delta(source):
            return self._holdfast_plain.load(path, format, schema, **options)
        self._holdfast_record(options)
        with as_delta_spark(missing=PATH_NOT_FOUND, invalid=ILLEGAL_OPTION):
            if schema is not None:
                raise Invalid("a Delta table has its own schema: leave schema out")
            place = path or self._holdfast_options.get("path")
            if place is None:
                raise Invalid("a stream needs the path of a table: load(path)")
            return _stream(spark, place, self._holdfast_options)

    def table(self, tableName: str) -> Any:
        spark = self._holdfast_spark
        with as_delta_spark():
            resolved = self._holdfast_resolver.table(spark, split(tableName))
            if resolved is not None:
                place = resolved.delta("a stream").handle.newest().snapshot.location.spark_path()
                return _stream(spark, place, self._holdfast_options)
        return self._holdfast_plain.table(tableName)


def _stream(spark: SparkSession, place: str, options: SourceOptions) -> DataFrame:
    location = open_location(place, storage_options=options.storage())
    DeltaTable.forPath(spark, place, storage_options=options.storage())  # refuses a path without a table
    settings = {name: value for name, value in options.items() if not name.startswith("fs.") and name.lower() != "path"}
    for name, value in list(settings.items()):
        if name.lower() in _FIXED:
            if value.lower() != _FIXED[name.lower()]:
                raise Unsupported(f"{name}={value} would lose rows without a word, which Holdfast does not do")
            del settings[name]
    if options.get("startingTimestamp") is not None:
        settings["timeZone"] = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    settings |= {
        f"storage.{name}": value for name, value in (options.storage() or {}).items() if name.startswith("fs.")
    }
    parse_options({**settings, "path": location.spark_path()})  # refuses here what the query would refuse later
    _let_stream(spark)
    reader = plain(type(spark).__dict__["readStream"].fget)(spark)
    rows: DataFrame = reader.format(FORMAT).options(**settings).load(location.spark_path())
    return rows


class _StreamWriter(RecordsFormat):
    """The mixin of `df.writeStream`; Spark's own writer gets the options when the query starts."""

    _holdfast_rows: DataFrame
    _holdfast_resolver: TableResolver
    _holdfast_partitions: tuple[str, ...]
    _holdfast_clustering: tuple[str, ...]
    _holdfast_calls: bool  # a function of the user, by foreach or foreachBatch

    def option(self, key: str, value: Any) -> Any:
        self._holdfast_options.set(key, value)
        return self

    def options(self, **options: Any) -> Any:
        self._holdfast_record(options)
        return self

    def partitionBy(self, *cols: Any) -> Any:
        self._holdfast_partitions = names(cols)
        return self._holdfast_plain.partitionBy(*cols)

    def clusterBy(self, *cols: Any) -> Any:
        self._holdfast_clustering = names(cols)
        return self._holdfast_plain.clusterBy(*cols)

    def foreach(self, f: Any) -> Any:
        self._holdfast_calls = True
        return self._holdfast_plain.foreach(f)

    def foreachBatch(self, func: Callable[[DataFrame, int], None]) -> Any:
        self._holdfast_calls = True
        remote = ".connect." in type(self._holdfast_rows).__module__
        return self._holdfast_plain.foreachBatch(_with_drop_in(func) if remote else func)

    def start(
        self,
        path: str | None = None,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._holdfast_record_start(partitionBy, options)
        if self._holdfast_calls or not is_delta(format or self._holdfast_format):
            self._holdfast_pass_options()
            return self._holdfast_plain.start(path, format, outputMode, partitionBy, queryName)
        with as_delta_spark():
            place = path or self._holdfast_options.get("path")
            if place is None:
                raise Invalid("say where the table is: start(path), or toTable(name)")
            return self._holdfast_start(place, None, outputMode, queryName)

    def toTable(
        self,
        tableName: str,
        format: str | None = None,
        outputMode: str | None = None,
        partitionBy: Any = None,
        queryName: str | None = None,
        **options: Any,
    ) -> Any:
        self._holdfast_record_start(partitionBy, options)
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        source = format or self._holdfast_format
        with as_delta_spark():
            is_ours = is_delta(source) or resolver.table(rows.sparkSession, split(tableName)) is not None
            if source is None and not is_ours:
                is_ours = is_delta(settings_of(rows.sparkSession).default_source)
        if not is_ours:
            self._holdfast_pass_options()
            return self._holdfast_plain.toTable(tableName, format, outputMode, partitionBy, queryName)
        with as_delta_spark():
            return self._holdfast_start(None, tableName, outputMode, queryName)

    def _holdfast_record_start(self, partitions: Any, options: dict[str, Any]) -> None:
        if partitions is not None:
            self._holdfast_partitions = names([partitions])
        self._holdfast_record(options)

    def _holdfast_pass_options(self) -> None:
        for name, value in list(self._holdfast_options.items()):
            self._holdfast_plain.option(name, value)

    def _holdfast_start(self, path: str | None, name: str | None, mode: str | None, query: str | None) -> Any:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        options = self._holdfast_options
        refuse_options(options)
        for option in _WRITES_ONLY:
            if options.get(option) is not None:
                raise Unsupported(f"a stream into a Delta table has no option {option}: use foreachBatch")
        place = self._holdfast_table(rows, resolver, path, name)
        for option in _SINK:
            if (value := options.get(option)) is not None:
                self._holdfast_plain.option(option, value)
        for option, value in (options.storage() or {}).items():
            self._holdfast_plain.option(f"storage.{option}", value)
        _let_stream(rows.sparkSession)
        return self._holdfast_plain.start(place, FORMAT, mode, None, query)

    def _holdfast_table(self, rows: DataFrame, resolver: TableResolver, path: str | None, name: str | None) -> str:
        """The location of the table, which is created where there is none."""
        spark, options = rows.sparkSession, self._holdfast_options
        nothing = spark.createDataFrame([], StructType(rows.schema.fields))
        table_options = SourceOptions({name: value for name, value in options.items() if name.lower() != "txnappid"})
        request = SaveRequest("ignore", self._holdfast_partitions, self._holdfast_clustering, table_options)
        if name is not None:
            save_as_table(nothing, name, request, resolver)
            resolved = resolver.table(spark, split(name))
            assert resolved is not None, f"{name} was just made"
            table = resolved.delta("a stream")
        else:
            assert path is not None, "a table has a path or a name"
            save(nothing, path, request)
            table = DeltaTable.forPath(spark, path, storage_options=options.storage())
        if options.flag("mergeSchema") and not set(rows.columns) <= set(table.handle.newest().snapshot.schema.names):
            write_into(nothing, table, SaveRequest("append", options=table_options))
        return table.handle.newest().snapshot.location.spark_path()


def _with_drop_in(func: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """The user's function, which first enables the drop-in in its process."""

    def run(rows: DataFrame, batch: int) -> None:
        from holdfast._dropin.enabling import enable

        enable(rows.sparkSession)
        func(rows, batch)

    return run


def _let_stream(spark: SparkSession) -> None:
    if spark not in _registered:
        register(spark)
        _registered.add(spark)

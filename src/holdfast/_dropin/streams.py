"""`readStream` and `writeStream` with `format("delta")`: Holdfast's own source and sink, under delta-spark's options.

1. A stream of another format, and `foreach` and `foreachBatch`, are Spark's, as without the drop-in.
2. The table of a sink is there before the query starts, with the partitions and columns that were asked for.
3. On Spark Connect the function of `foreachBatch` runs on the server, where it is given a session with the drop-in too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from weakref import WeakSet

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast._dropin.errors import ILLEGAL_OPTION, PATH_NOT_FOUND, as_delta_spark
from holdfast._dropin.options import SourceOptions, is_delta
from holdfast._dropin.recording import NotingFormat, names, noting
from holdfast._dropin.saving import SaveRequest, refuse_options, save, save_as_table, write_into
from holdfast.engines.spark.session.catalog import split
from holdfast.engines.spark.session.unpatched import plain
from holdfast.errors import Invalid, Unsupported
from holdfast.plan.changefeed.stream import parse_options
from holdfast.sql.resolver import TableResolver
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.stream.source import FORMAT, register

_READER_KEEPS = {"failondataloss": "true"}  # what our source always does
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


def reader(plain_one: Any, spark: SparkSession, known: TableResolver) -> Any:
    """A reader of streams in a session with the drop-in."""
    return noting(plain_one, _StreamReader, asking=(spark, known))


def writer(plain_one: Any, rows: DataFrame, known: TableResolver) -> Any:
    """A writer of streams in a session with the drop-in."""
    return noting(plain_one, _StreamWriter, asking=(rows, known), partitions=(), clustering=(), calls=False)


class _StreamReader(NotingFormat):
    """The part of `spark.readStream` that knows Delta tables."""

    _holdfast_asking: tuple[SparkSession, TableResolver]

    def load(self, path: str | None = None, format: str | None = None, schema: Any = None, **options: Any) -> Any:
        spark, _ = self._holdfast_asking
        source = format or self._holdfast_format or spark.conf.get("spark.sql.sources.default", "parquet")
        if not is_delta(source):
            return self._holdfast_plain.load(path, format, schema, **options)
        self._holdfast_note(options)
        with as_delta_spark(missing=PATH_NOT_FOUND, invalid=ILLEGAL_OPTION):
            if schema is not None:
                raise Invalid("a Delta table has its own schema: leave schema out")
            place = path or self._holdfast_options.get("path")
            if place is None:
                raise Invalid("a stream needs the path of a table: load(path)")
            return _stream(spark, place, self._holdfast_options)

    def table(self, tableName: str) -> Any:
        spark, known = self._holdfast_asking
        with as_delta_spark():
            found = known.table(spark, split(tableName))
            if found is not None:
                place = found.delta("a stream").handle.newest().snapshot.location.spark_path()
                return _stream(spark, place, self._holdfast_options)
        return self._holdfast_plain.table(tableName)


def _stream(spark: SparkSession, place: str, options: SourceOptions) -> DataFrame:
    location = open_location(place, storage_options=options.storage())
    DeltaTable.forPath(spark, place, storage_options=options.storage())  # is there
    given = {name: value for name, value in options.items() if not name.startswith("fs.") and name.lower() != "path"}
    for name, value in list(given.items()):
        if name.lower() in _READER_KEEPS:
            if value.lower() != _READER_KEEPS[name.lower()]:
                raise Unsupported(f"{name}={value} would lose rows without a word, which Holdfast does not do")
            del given[name]
    if options.get("startingTimestamp") is not None:
        given["timeZone"] = spark.conf.get("spark.sql.session.timeZone") or "UTC"
    given |= {f"storage.{name}": value for name, value in (options.storage() or {}).items() if name.startswith("fs.")}
    parse_options({**given, "path": location.spark_path()})  # refuses here what the query would refuse later
    _let_stream(spark)
    reader = plain(type(spark).__dict__["readStream"].fget)(spark)
    found: DataFrame = reader.format(FORMAT).options(**given).load(location.spark_path())
    return found


class _StreamWriter(NotingFormat):
    """The part of `df.writeStream` that knows Delta tables; options reach Spark's own when the query starts."""

    _holdfast_asking: tuple[DataFrame, TableResolver]
    _holdfast_partitions: tuple[str, ...]
    _holdfast_clustering: tuple[str, ...]
    _holdfast_calls: bool  # a function of the user's

    def option(self, key: str, value: Any) -> Any:
        self._holdfast_options.set(key, value)
        return self

    def options(self, **options: Any) -> Any:
        self._holdfast_note(options)
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
        remote = ".connect." in type(self._holdfast_asking[0]).__module__
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
        self._holdfast_told(partitionBy, options)
        if self._holdfast_calls or not is_delta(format or self._holdfast_format):
            self._holdfast_hand_on()
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
        self._holdfast_told(partitionBy, options)
        rows, known = self._holdfast_asking
        source = format or self._holdfast_format
        with as_delta_spark():
            ours = is_delta(source) or known.table(rows.sparkSession, split(tableName)) is not None
            if source is None and not ours:
                ours = is_delta(rows.sparkSession.conf.get("spark.sql.sources.default", "parquet"))
        if not ours:
            self._holdfast_hand_on()
            return self._holdfast_plain.toTable(tableName, format, outputMode, partitionBy, queryName)
        with as_delta_spark():
            return self._holdfast_start(None, tableName, outputMode, queryName)

    def _holdfast_told(self, partitions: Any, options: dict[str, Any]) -> None:
        if partitions is not None:
            self._holdfast_partitions = names([partitions])
        self._holdfast_note(options)

    def _holdfast_hand_on(self) -> None:
        for name, value in list(self._holdfast_options.items()):
            self._holdfast_plain.option(name, value)

    def _holdfast_start(self, path: str | None, name: str | None, mode: str | None, query: str | None) -> Any:
        rows, known = self._holdfast_asking
        options = self._holdfast_options
        refuse_options(options)
        for option in _WRITES_ONLY:
            if options.get(option) is not None:
                raise Unsupported(f"a stream into a Delta table has no option {option}: use foreachBatch")
        place = self._holdfast_table(rows, known, path, name)
        for option in _SINK:
            if (value := options.get(option)) is not None:
                self._holdfast_plain.option(option, value)
        for option, value in (options.storage() or {}).items():
            self._holdfast_plain.option(f"storage.{option}", value)
        _let_stream(rows.sparkSession)
        return self._holdfast_plain.start(place, FORMAT, mode, None, query)

    def _holdfast_table(self, rows: DataFrame, known: TableResolver, path: str | None, name: str | None) -> str:
        """Where the table is, which is made where there is none."""
        spark, options = rows.sparkSession, self._holdfast_options
        nothing = spark.createDataFrame([], StructType(rows.schema.fields))
        about = SourceOptions(
            {name: value for name, value in options.items() if name.lower() != "txnappid"}
        )  # of batches
        ask = SaveRequest("ignore", self._holdfast_partitions, self._holdfast_clustering, about)
        if name is not None:
            save_as_table(nothing, name, ask, known)
            found = known.table(spark, split(name))
            assert found is not None, f"{name} was just made"
            table = found.delta("a stream")
        else:
            assert path is not None, "a table has a path or a name"
            save(nothing, path, ask)
            table = DeltaTable.forPath(spark, path, storage_options=options.storage())
        if options.flag("mergeSchema") and not set(rows.columns) <= set(table.handle.newest().snapshot.schema.names):
            write_into(nothing, table, SaveRequest("append", options=about))
        return table.handle.newest().snapshot.location.spark_path()


def _with_drop_in(func: Callable[[DataFrame, int], None]) -> Callable[[DataFrame, int], None]:
    """A function of the user's, for a process where nobody enabled the drop-in yet."""

    def run(rows: DataFrame, batch: int) -> None:
        from holdfast._dropin.enabling import enable

        enable(rows.sparkSession)
        func(rows, batch)

    return run


def _let_stream(spark: SparkSession) -> None:
    if spark not in _registered:
        register(spark)
        _registered.add(spark)

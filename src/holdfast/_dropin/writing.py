"""`df.write` and `df.writeTo` in a session with the drop-in: Holdfast writes Delta tables, and Spark other formats.

1. A writer records its options and passes them on to Spark's own writer, which writes any other format.
2. The format of a write, or the existing table, decides at execution whether it is a write to a Delta table.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame

from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.frames import ordinary
from holdfast._dropin.options import is_delta
from holdfast._dropin.recording import RecordsFormat, RecordsOptions, names, recording
from holdfast._dropin.saving import (
    SaveRequest,
    create_table,
    insert_into,
    mode_of,
    save,
    save_as_table,
    table_named,
    write_into,
)
from holdfast.engines.spark.column_text import UNREADABLE, sql_of
from holdfast.engines.spark.session.catalog import split
from holdfast.errors import Invalid, Unsupported
from holdfast.sql.resolver import TableResolver
from holdfast.sql.settings import settings_of
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.open.spark_values import stated_in_text


def writer(plain: Any, rows: DataFrame, resolver: TableResolver) -> Any:
    """A writer of a session with the drop-in."""
    fields = {"mode": None, "partitions": (), "clustering": (), "buckets": False}
    return recording(plain, _FrameWriter, rows=rows, resolver=resolver, **fields)


def writer_to(plain: Any, rows: DataFrame, name: str, resolver: TableResolver) -> Any:
    """A writer of `writeTo` in a session with the drop-in."""
    fields: dict[str, object] = {"name": name, "provider": None, "properties": {}, "partitions": (), "clustering": ()}
    return recording(plain, _WriterTo, rows=rows, resolver=resolver, **fields)


class _FrameWriter(RecordsFormat):
    """The mixin of `df.write`."""

    _holdfast_rows: DataFrame
    _holdfast_resolver: TableResolver
    _holdfast_mode: str | None
    _holdfast_partitions: tuple[str, ...]
    _holdfast_clustering: tuple[str, ...]
    _holdfast_buckets: bool

    def mode(self, saveMode: str | None) -> Any:
        self._holdfast_mode = saveMode or self._holdfast_mode
        return self._holdfast_plain.mode(saveMode)

    def partitionBy(self, *cols: Any) -> Any:
        self._holdfast_partitions = names(cols)
        return self._holdfast_plain.partitionBy(*cols)

    def clusterBy(self, *cols: Any) -> Any:
        self._holdfast_clustering = names(cols)
        return self._holdfast_plain.clusterBy(*cols)

    def bucketBy(self, numBuckets: int, col: Any, *cols: Any) -> Any:
        self._holdfast_buckets = True
        return self._holdfast_plain.bucketBy(numBuckets, col, *cols)

    def save(
        self,
        path: str | None = None,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        if not is_delta(self._holdfast_source(format)):
            self._holdfast_plain.save(path, format, mode, partitionBy, **options)
            return
        with as_delta_spark():
            request = self._holdfast_request(mode, partitionBy, options)
            place = path or request.options.get("path")
            if place is None:
                raise Invalid("say where the table is: save(path), or saveAsTable(name)")
            save(self._holdfast_rows, place, request)

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        is_ours = is_delta(self._holdfast_source(format))
        if not is_ours and format is None and self._holdfast_format is None:
            with as_delta_spark():
                is_ours = _is_ours(rows, name, resolver)
        if not is_ours:
            self._holdfast_plain.saveAsTable(name, format, mode, partitionBy, **options)
            return
        with as_delta_spark():
            save_as_table(rows, name, self._holdfast_request(mode, partitionBy, options), resolver)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        with as_delta_spark():
            is_ours = _is_ours(rows, tableName, resolver)
        if not is_ours:
            self._holdfast_plain.insertInto(tableName, overwrite)
            return
        with as_delta_spark():
            if self._holdfast_partitions:
                raise Invalid("insertInto goes by the partitions of the table: leave partitionBy out")
            mode = {None: self._holdfast_mode or "append", True: "overwrite", False: "append"}[overwrite]
            insert_into(rows, tableName, SaveRequest(mode_of(mode), options=self._holdfast_options), resolver)

    def _holdfast_source(self, format: str | None) -> str | None:
        """The format of the write."""
        source = format or self._holdfast_format
        return source or settings_of(self._holdfast_rows.sparkSession).default_source

    def _holdfast_request(self, mode: str | None, partitions: Any, options: dict[str, Any]) -> SaveRequest:
        self._holdfast_record(options)
        if self._holdfast_buckets:
            raise Invalid("Delta tables have no buckets: use clusterBy").named("DELTA_OPERATION_NOT_ALLOWED_DETAIL")
        columns = self._holdfast_partitions if partitions is None else names([partitions])
        return SaveRequest(
            mode_of(mode or self._holdfast_mode), columns, self._holdfast_clustering, self._holdfast_options
        )


class _WriterTo(RecordsOptions):
    """The mixin of `df.writeTo`."""

    _holdfast_rows: DataFrame
    _holdfast_resolver: TableResolver
    _holdfast_name: str
    _holdfast_provider: str | None
    _holdfast_properties: dict[str, str]
    _holdfast_partitions: tuple[str, ...]
    _holdfast_clustering: tuple[str, ...]

    def using(self, provider: str) -> Any:
        self._holdfast_provider = provider
        return self._holdfast_plain.using(provider)

    def tableProperty(self, property: str, value: str) -> Any:
        self._holdfast_properties[property] = value
        return self._holdfast_plain.tableProperty(property, value)

    def partitionedBy(self, col: Any, *cols: Any) -> Any:
        self._holdfast_partitions = tuple(_column_name(c) for c in (col, *cols))
        return self._holdfast_plain.partitionedBy(col, *cols)

    def clusterBy(self, col: str, *cols: str) -> Any:
        self._holdfast_clustering = (col, *cols)
        return self._holdfast_plain.clusterBy(col, *cols)

    def create(self) -> None:
        self._holdfast_create(CreateMode.CREATE, "create")

    def replace(self) -> None:
        self._holdfast_create(CreateMode.REPLACE, "replace")

    def createOrReplace(self) -> None:
        self._holdfast_create(CreateMode.CREATE_OR_REPLACE, "createOrReplace")

    def append(self) -> None:
        if self._holdfast_is_ours():
            self._holdfast_write(SaveRequest("append", options=self._holdfast_options))
        else:
            self._holdfast_plain.append()

    def overwrite(self, condition: Any) -> None:
        if self._holdfast_is_ours():
            with as_delta_spark():
                where = stated_in_text(condition, "overwrite()")
            self._holdfast_write(SaveRequest("overwrite", options=self._holdfast_options, where=where))
        else:
            self._holdfast_plain.overwrite(condition)

    def overwritePartitions(self) -> None:
        if self._holdfast_is_ours():
            self._holdfast_write(SaveRequest("overwrite", options=self._holdfast_options, dynamic=True))
        else:
            self._holdfast_plain.overwritePartitions()

    def _holdfast_is_ours(self) -> bool:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        with as_delta_spark():
            return _is_ours(rows, self._holdfast_name, resolver)

    def _holdfast_write(self, request: SaveRequest) -> None:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        with as_delta_spark():
            write_into(rows, table_named(rows.sparkSession, self._holdfast_name, resolver), request)

    def _holdfast_create(self, mode: CreateMode, method: str) -> None:
        rows, resolver = self._holdfast_rows, self._holdfast_resolver
        provider = self._holdfast_provider or settings_of(rows.sparkSession).default_source
        if not is_delta(provider):
            getattr(self._holdfast_plain, method)()
            return
        with as_delta_spark():
            request = SaveRequest(
                "overwrite" if mode is not CreateMode.CREATE else "error",
                self._holdfast_partitions,
                self._holdfast_clustering,
                self._holdfast_options,
                tuple(self._holdfast_properties.items()),
            )
            create_table(ordinary(rows), self._holdfast_name, request, resolver, mode)


def _is_ours(rows: DataFrame, name: str, resolver: TableResolver) -> bool:
    try:
        return resolver.table(rows.sparkSession, split(name)) is not None
    except Invalid:
        return False  # no name, or no table at the path: Spark or the caller reports the error


def _column_name(col: Any) -> str:
    text = sql_of(col) if isinstance(col, Column) else str(col)
    if UNREADABLE in text or "(" in text:
        raise Unsupported(f"a Delta table is partitioned by columns, not by {text}: add a generated column")
    return text.replace("`", "")

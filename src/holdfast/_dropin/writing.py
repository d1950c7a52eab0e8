"""`df.write` and `df.writeTo` in a session with the drop-in: Delta tables by Holdfast's writer, the rest by Spark's.

1. A writer notes what it is told and tells Spark's own writer too, so another format is written as without the drop-in.
2. Whether a write is about a Delta table is decided when it is run: by its format, or by the table that is there.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import Column, DataFrame

from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.frames import ordinary
from holdfast._dropin.options import is_delta
from holdfast._dropin.recording import Noting, NotingFormat, names, noting
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
from holdfast.verbs.define.builder import CreateMode
from holdfast.verbs.open.spark_values import stated_in_text


def writer(plain: Any, rows: DataFrame, known: TableResolver) -> Any:
    """A writer of a session with the drop-in."""
    return noting(plain, _FrameWriter, asking=(rows, known), mode=None, partitions=(), clustering=(), buckets=False)


def writer_to(plain: Any, rows: DataFrame, name: str, known: TableResolver) -> Any:
    """A writer of `writeTo` in a session with the drop-in."""
    told: dict[str, Any] = {"provider": None, "properties": {}, "partitions": (), "clustering": ()}
    return noting(plain, _WriterTo, asking=(rows, known), name=name, **told)


class _FrameWriter(NotingFormat):
    """The part of `df.write` that knows Delta tables."""

    _holdfast_asking: tuple[DataFrame, TableResolver]
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
            ask = self._holdfast_ask(mode, partitionBy, options)
            place = path or ask.options.get("path")
            if place is None:
                raise Invalid("say where the table is: save(path), or saveAsTable(name)")
            save(self._holdfast_asking[0], place, ask)

    def saveAsTable(
        self,
        name: str,
        format: str | None = None,
        mode: str | None = None,
        partitionBy: Any = None,
        **options: Any,
    ) -> None:
        rows, known = self._holdfast_asking
        ours = is_delta(self._holdfast_source(format))
        if not ours and format is None and self._holdfast_format is None:
            with as_delta_spark():
                ours = _is_ours(rows, name, known)
        if not ours:
            self._holdfast_plain.saveAsTable(name, format, mode, partitionBy, **options)
            return
        with as_delta_spark():
            save_as_table(rows, name, self._holdfast_ask(mode, partitionBy, options), known)

    def insertInto(self, tableName: str, overwrite: bool | None = None) -> None:
        rows, known = self._holdfast_asking
        with as_delta_spark():
            ours = _is_ours(rows, tableName, known)
        if not ours:
            self._holdfast_plain.insertInto(tableName, overwrite)
            return
        with as_delta_spark():
            if self._holdfast_partitions:
                raise Invalid("insertInto goes by the partitions of the table: leave partitionBy out")
            mode = {None: self._holdfast_mode or "append", True: "overwrite", False: "append"}[overwrite]
            insert_into(rows, tableName, SaveRequest(mode_of(mode), options=self._holdfast_options), known)

    def _holdfast_source(self, format: str | None) -> str | None:
        """The format that is meant."""
        source = format or self._holdfast_format
        return source or self._holdfast_asking[0].sparkSession.conf.get("spark.sql.sources.default", "parquet")

    def _holdfast_ask(self, mode: str | None, partitions: Any, options: dict[str, Any]) -> SaveRequest:
        self._holdfast_note(options)
        if self._holdfast_buckets:
            raise Invalid("Delta tables have no buckets: use clusterBy").named("DELTA_OPERATION_NOT_ALLOWED_DETAIL")
        named = self._holdfast_partitions if partitions is None else names([partitions])
        return SaveRequest(
            mode_of(mode or self._holdfast_mode), named, self._holdfast_clustering, self._holdfast_options
        )


class _WriterTo(Noting):
    """The part of `df.writeTo` that knows Delta tables."""

    _holdfast_asking: tuple[DataFrame, TableResolver]
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
        self._holdfast_made(CreateMode.CREATE, "create")

    def replace(self) -> None:
        self._holdfast_made(CreateMode.REPLACE, "replace")

    def createOrReplace(self) -> None:
        self._holdfast_made(CreateMode.CREATE_OR_REPLACE, "createOrReplace")

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
        rows, known = self._holdfast_asking
        with as_delta_spark():
            return _is_ours(rows, self._holdfast_name, known)

    def _holdfast_write(self, ask: SaveRequest) -> None:
        rows, known = self._holdfast_asking
        with as_delta_spark():
            write_into(rows, table_named(rows.sparkSession, self._holdfast_name, known), ask)

    def _holdfast_made(self, mode: CreateMode, method: str) -> None:
        rows, known = self._holdfast_asking
        provider = self._holdfast_provider or rows.sparkSession.conf.get("spark.sql.sources.default", "parquet")
        if not is_delta(provider):
            getattr(self._holdfast_plain, method)()
            return
        with as_delta_spark():
            ask = SaveRequest(
                "overwrite" if mode is not CreateMode.CREATE else "error",
                self._holdfast_partitions,
                self._holdfast_clustering,
                self._holdfast_options,
                tuple(self._holdfast_properties.items()),
            )
            create_table(ordinary(rows), self._holdfast_name, ask, known, mode)


def _is_ours(rows: DataFrame, name: str, known: TableResolver) -> bool:
    try:
        return known.table(rows.sparkSession, split(name)) is not None
    except Invalid:
        return False  # no name, or no table at the path: Spark or the caller says so


def _column_name(col: Any) -> str:
    text = sql_of(col) if isinstance(col, Column) else str(col)
    if UNREADABLE in text or "(" in text:
        raise Unsupported(f"a Delta table is partitioned by columns, not by {text}: add a generated column")
    return text.replace("`", "")

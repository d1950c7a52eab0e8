"""Patches of PySpark's methods, which call Holdfast where a session has the drop-in.

The classes are patched, because PySpark creates sessions and DataFrames in many places. Each patch wraps the method it
replaces, so that `holdfast.engines.spark.session.unpatched` finds the original.

1. In a session without the drop-in every call reaches PySpark's own method with the same arguments.
2. Removing the patches restores every method.
3. Classic and Connect classes are patched separately, and Connect's only where Connect is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any, TypeAlias

from pyspark.sql import Column, DataFrame, SparkSession, catalog
from pyspark.sql.types import StructType

from holdfast._dropin import frames, pip_utils, reading, sessions, streams, tables, writing
from holdfast._dropin.errors import TABLE_NOT_FOUND, as_delta_spark
from holdfast._dropin.merge_into import merge_into
from holdfast._dropin.options import is_delta
from holdfast.engines.spark.session.catalog import split
from holdfast.engines.spark.session.unpatched import IN_FRONT
from holdfast.engines.spark.types import spark_struct
from holdfast.errors import Invalid
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.run import run

_Method: TypeAlias = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Family:
    """The modules of the classes of one kind of session."""

    session: str
    frame: str
    catalog: str


CLASSIC = Family("pyspark.sql.session", "pyspark.sql.classic.dataframe", "pyspark.sql.catalog")
CONNECT = Family("pyspark.sql.connect.session", "pyspark.sql.connect.dataframe", "pyspark.sql.connect.catalog")

_installed: dict[Family, list[tuple[type, str, Any]]] = {}


def family_of(spark: SparkSession) -> Family:
    """The family of a session."""
    return CONNECT if type(spark).__module__.startswith("pyspark.sql.connect.") else CLASSIC


def install(family: Family) -> None:
    """Patch the classes of a family, once."""
    if family in _installed:
        return
    session, frame = import_module(family.session).SparkSession, import_module(family.frame).DataFrame
    catalog_class = import_module(family.catalog).Catalog
    originals: list[tuple[type, str, Any]] = []
    for owner, name, patch in (
        (session, "sql", _sql),
        (session, "table", _table),
        (session, "read", _read),
        (session, "readStream", _read_stream),
        (session.Builder, "getOrCreate", _get_or_create),
        (session.Builder, "create", _get_or_create),
        (frame, "write", _write),
        (frame, "writeTo", _write_to),
        (frame, "mergeInto", _merge_into),
        (frame, "writeStream", _write_stream),
        (frame, "createTempView", _create_view),
        (frame, "createOrReplaceTempView", _create_view),
        (frame, "registerTempTable", _create_view),
        (catalog_class, "dropTempView", _drop_view),
        (catalog_class, "createTable", _create_table),
        (catalog_class, "createExternalTable", _create_table),
        (catalog_class, "listColumns", _list_columns),
        (catalog_class, "getTable", _get_table),
        (catalog_class, "getTableProperties", _properties),
        (catalog_class, "getCreateTableString", _create_text),
    ):
        if name in vars(owner):
            original = vars(owner)[name]
            originals.append((owner, name, original))
            setattr(owner, name, _patched(original, patch))
    _installed[family] = originals


def remove() -> None:
    """Restore every class."""
    for originals in _installed.values():
        for owner, name, original in originals:
            setattr(owner, name, original)
    _installed.clear()


def _patched(original: Any, patch: Callable[..., Any]) -> Any:
    """A method or property that calls a patch with the original method and the arguments."""
    method: Any = original.fget if isinstance(original, property) else original

    @wraps(method)
    def call(*args: Any, **kwargs: Any) -> Any:
        return patch(method, *args, **kwargs)

    setattr(call, IN_FRONT, True)
    return property(call, doc=original.__doc__) if isinstance(original, property) else call


def _sql(original: _Method, self: SparkSession, /, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
    resolver = sessions.resolver_of(self)
    if resolver is not None:
        with as_delta_spark():
            answer = run(self, sqlQuery, args, kwargs or None, resolver=resolver)
        if answer is not None:
            return answer
    return original(self, sqlQuery, args, **kwargs)


def _table(original: _Method, self: SparkSession, tableName: str) -> Any:
    resolver = sessions.resolver_of(self)
    rows = None if resolver is None else reading.by_name(self, tableName, resolver)
    return original(self, tableName) if rows is None else rows


def _read(original: _Method, self: SparkSession) -> Any:
    reader = original(self)
    resolver = sessions.resolver_of(self)
    return reader if resolver is None else reading.reader(reader, self, resolver)


def _read_stream(original: _Method, self: SparkSession) -> Any:
    reader = original(self)
    resolver = sessions.resolver_of(self)
    return reader if resolver is None else streams.reader(reader, self, resolver)


def _get_or_create(original: _Method, self: Any) -> Any:
    if not sessions.is_everywhere():
        return original(self)
    pip_utils.take_off(self._options)
    pip_utils.run_this_python(self._options)
    spark = original(self)
    install(family_of(spark))
    return spark


def _write(original: _Method, self: DataFrame) -> Any:
    resolver = sessions.resolver_of(self.sparkSession)
    writer = original(self)
    return writer if resolver is None else writing.writer(writer, self, resolver)


def _write_to(original: _Method, self: DataFrame, table: str) -> Any:
    resolver = sessions.resolver_of(self.sparkSession)
    writer = original(self, table)
    return writer if resolver is None else writing.writer_to(writer, self, table, resolver)


def _merge_into(original: _Method, self: DataFrame, table: str, condition: Column) -> Any:
    resolver = sessions.resolver_of(self.sparkSession)
    if resolver is not None:
        with as_delta_spark():
            merge = merge_into(self.sparkSession, self, table, condition, resolver)
        if merge is not None:
            return merge
    return original(self, table, condition)


def _write_stream(original: _Method, self: DataFrame) -> Any:
    writer = original(self)
    resolver = sessions.resolver_of(self.sparkSession)
    return writer if resolver is None else streams.writer(writer, self, resolver)


def _create_view(original: _Method, self: DataFrame, name: str) -> None:
    original(self, name)
    if (resolver := sessions.resolver_of(self.sparkSession)) is not None:
        resolver.forget(name)
        if (rows := frames.rows_of(self)) is not None:
            resolver.remember(name, rows)


def _drop_view(original: _Method, self: Any, viewName: str) -> Any:
    if (resolver := sessions.resolver_of(self._sparkSession)) is not None:
        resolver.forget(viewName)
    return original(self, viewName)


def _create_table(
    original: _Method,
    self: Any,
    /,
    tableName: str,
    path: str | None = None,
    source: str | None = None,
    schema: StructType | None = None,
    *more: Any,
    **options: Any,
) -> Any:
    spark = self._sparkSession
    if sessions.resolver_of(spark) is None or not is_delta(source):
        return original(self, tableName, path, source, schema, *more, **options)
    builder = tables.DeltaTable.createIfNotExists(spark).tableName(tableName)
    builder = builder if path is None else builder.location(path)
    builder = builder if schema is None else builder.addColumns(schema)
    for name, value in options.items():
        builder = builder.comment(value) if name == "description" else builder.property(name, value)
    builder.execute()
    return spark.table(tableName)


def _list_columns(original: _Method, self: Any, tableName: str, dbName: str | None = None) -> Any:
    resolved = _resolved(self, tableName, dbName)
    return original(self, tableName, dbName) if resolved is None else _columns_of(resolved)


def _get_table(original: _Method, self: Any, tableName: str) -> Any:
    resolved = _resolved(self, tableName)
    entry: catalog.Table = original(self, tableName)
    description = None if resolved is None else resolved.table.handle.details().description
    return entry._replace(description=description) if description else entry


def _properties(original: _Method, self: Any, tableName: str) -> Any:
    if _resolved(self, tableName) is None:
        return original(self, tableName)
    return dict(map(tuple, self._sparkSession.sql(f"SHOW TBLPROPERTIES {tableName}").collect()))


def _create_text(original: _Method, self: Any, tableName: str, asSerde: bool = False) -> Any:
    if asSerde or _resolved(self, tableName) is None:
        return original(self, tableName, asSerde)
    return self._sparkSession.sql(f"SHOW CREATE TABLE {tableName}").collect()[0][0]


def _resolved(self: Any, name: str, database: str | None = None) -> ResolvedTable | None:
    """The table of ours that a name means; its entry in Spark's catalog may be out of date."""
    spark = self._sparkSession
    resolver = sessions.resolver_of(spark)
    if resolver is None:
        return None
    with as_delta_spark(missing=TABLE_NOT_FOUND):
        try:
            parts = split(name)
        except Invalid:
            return None  # Spark reports the error
        return resolver.table(spark, parts if database is None else (database, *parts))


def _columns_of(resolved: ResolvedTable) -> list[catalog.Column]:
    snapshot = resolved.table.handle.newest().snapshot
    clustering = resolved.table.handle.details().clustering_columns
    return [
        catalog.Column(
            name=f.name,
            description=f.metadata.get("comment"),
            dataType=spark_struct([f]).fields[0].dataType.simpleString(),
            nullable=f.nullable,
            isPartition=f.name in snapshot.partition_columns,
            isBucket=False,
            isCluster=f.name in clustering,
        )
        for f in snapshot.schema.fields
    ]

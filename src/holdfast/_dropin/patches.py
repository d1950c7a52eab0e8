"""Functions in front of PySpark's methods, put there once and taken away again.

They stand on the classes, because sessions and DataFrames are made all over PySpark; each asks first whether the
session at hand has the drop-in, and hands on to the method it wraps where it has not. Each names what it wraps, so
that `holdfast.engines.spark.session.unpatched` finds the way round it.

1. Without an enabled session every call ends in PySpark's own method, with the arguments as they came.
2. What is taken away leaves the classes as they were, method by method.
3. Classic and Connect classes are patched apart, and Connect's only where Connect is in use.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Any

from pyspark.sql import SparkSession

from holdfast._dropin import frames, listing, pip_utils, reading, sessions, streams, tables, writing
from holdfast._dropin.errors import as_delta_spark
from holdfast._dropin.merge_into import merge_into
from holdfast._dropin.options import is_delta
from holdfast.engines.spark.session.unpatched import IN_FRONT
from holdfast.sql.resolver import ResolvedTable
from holdfast.sql.run import run


@dataclass(frozen=True, slots=True)
class Family:
    """Where the classes of one kind of session are."""

    session: str
    frame: str
    catalog: str


CLASSIC = Family("pyspark.sql.session", "pyspark.sql.classic.dataframe", "pyspark.sql.catalog")
CONNECT = Family("pyspark.sql.connect.session", "pyspark.sql.connect.dataframe", "pyspark.sql.connect.catalog")

_installed: dict[Family, list[tuple[type, str, Any]]] = {}


def family_of(spark: SparkSession) -> Family:
    """The classes of a session."""
    return CONNECT if type(spark).__module__.startswith("pyspark.sql.connect.") else CLASSIC


def install(family: Family) -> None:
    """Put the functions in front; once is enough."""
    if family in _installed:
        return
    session, frame = import_module(family.session).SparkSession, import_module(family.frame).DataFrame
    catalog = import_module(family.catalog).Catalog
    kept: list[tuple[type, str, Any]] = []
    for owner, name, make in (
        (session, "sql", _sql),
        (session, "table", _table),
        (session, "read", _read),
        (session, "readStream", _read_stream),
        (session.Builder, "getOrCreate", _made),
        (session.Builder, "create", _made),
        (frame, "write", _write),
        (frame, "writeTo", _write_to),
        (frame, "mergeInto", _merge_into),
        (frame, "writeStream", _write_stream),
        (frame, "createTempView", _new_view),
        (frame, "createOrReplaceTempView", _new_view),
        (frame, "registerTempTable", _new_view),
        (catalog, "dropTempView", _dropped_view),
        (catalog, "createTable", _new_table),
        (catalog, "createExternalTable", _new_table),
        (catalog, "listColumns", _columns),
        (catalog, "getTable", _told),
        (catalog, "getTableProperties", _properties),
        (catalog, "getCreateTableString", _create_text),
    ):
        if name in vars(owner):
            original = vars(owner)[name]
            kept.append((owner, name, original))
            setattr(owner, name, _in_front(original, make))
    _installed[family] = kept


def remove() -> None:
    """Leave every class as it was."""
    for kept in _installed.values():
        for owner, name, original in kept:
            setattr(owner, name, original)
    _installed.clear()


def _in_front(original: Any, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Any:
    method: Any = original.fget if isinstance(original, property) else original
    made = make(method)
    setattr(made, IN_FRONT, True)
    return property(made, doc=original.__doc__) if isinstance(original, property) else made


def _sql(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **kwargs: Any) -> Any:
        known = sessions.known(self)
        if known is not None:
            with as_delta_spark():
                answer = run(self, sqlQuery, args, kwargs or None, resolver=known)
            if answer is not None:
                return answer
        return original(self, sqlQuery, args, **kwargs)

    return sql


def _table(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def table(self: SparkSession, tableName: str) -> Any:
        known = sessions.known(self)
        found = None if known is None else reading.by_name(self, tableName, known)
        return original(self, tableName) if found is None else found

    return table


def _read(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def read(self: SparkSession) -> Any:
        plain = original(self)
        known = sessions.known(self)
        return plain if known is None else reading.reader(plain, self, known)

    return read


def _read_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def read_stream(self: SparkSession) -> Any:
        plain = original(self)
        known = sessions.known(self)
        return plain if known is None else streams.reader(plain, self, known)

    return read_stream


def _made(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def made(self: Any) -> Any:
        if not sessions.is_everywhere():
            return original(self)
        pip_utils.take_off(self._options)
        pip_utils.run_this_python(self._options)
        spark = original(self)
        install(family_of(spark))
        return spark

    return made


def _write(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def write(self: Any) -> Any:
        known = sessions.known(self.sparkSession)
        plain = original(self)
        return plain if known is None else writing.writer(plain, self, known)

    return write


def _write_to(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def write_to(self: Any, table: str) -> Any:
        known = sessions.known(self.sparkSession)
        plain = original(self, table)
        return plain if known is None else writing.writer_to(plain, self, table, known)

    return write_to


def _merge_into(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def into(self: Any, table: str, condition: Any) -> Any:
        known = sessions.known(self.sparkSession)
        if known is not None:
            with as_delta_spark():
                begun = merge_into(self.sparkSession, self, table, condition, known)
            if begun is not None:
                return begun
        return original(self, table, condition)

    return into


def _write_stream(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def write_stream(self: Any) -> Any:
        plain = original(self)
        known = sessions.known(self.sparkSession)
        return plain if known is None else streams.writer(plain, self, known)

    return write_stream


def _new_view(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def new_view(self: Any, name: str) -> None:
        original(self, name)
        if (known := sessions.known(self.sparkSession)) is not None:
            known.forget(name)
            if (rows := frames.rows_of(self)) is not None:
                known.remember(name, rows)

    return new_view


def _new_table(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def new_table(
        self: Any, tableName: str, path: Any = None, source: Any = None, schema: Any = None, *more: Any, **options: Any
    ) -> Any:
        spark = self._sparkSession
        if sessions.known(spark) is None or not is_delta(source):
            return original(self, tableName, path, source, schema, *more, **options)
        builder = tables.DeltaTable.createIfNotExists(spark).tableName(tableName)
        builder = builder if path is None else builder.location(path)
        builder = builder if schema is None else builder.addColumns(schema)
        for name, value in options.items():
            builder = builder.comment(value) if name == "description" else builder.property(name, value)
        builder.execute()
        return spark.table(tableName)

    return new_table


def _columns(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def columns(self: Any, tableName: str, dbName: str | None = None) -> Any:
        found = _found(self, tableName, dbName)
        return original(self, tableName, dbName) if found is None else listing.columns_of(found)

    return columns


def _told(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def told(self: Any, tableName: str) -> Any:
        found = _found(self, tableName)
        return original(self, tableName) if found is None else listing.described(original(self, tableName), found)

    return told


def _properties(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def properties(self: Any, tableName: str) -> Any:
        if _found(self, tableName) is None:
            return original(self, tableName)
        return dict(map(tuple, self._sparkSession.sql(f"SHOW TBLPROPERTIES {tableName}").collect()))

    return properties


def _create_text(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def create_text(self: Any, tableName: str, asSerde: bool = False) -> Any:
        if asSerde or _found(self, tableName) is None:
            return original(self, tableName, asSerde)
        return self._sparkSession.sql(f"SHOW CREATE TABLE {tableName}").collect()[0][0]

    return create_text


def _found(catalog: Any, name: str, database: str | None = None) -> ResolvedTable | None:
    known = sessions.known(catalog._sparkSession)
    return None if known is None else listing.found(catalog._sparkSession, known, name, database)


def _dropped_view(original: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(original)
    def dropped_view(self: Any, viewName: str) -> Any:
        if (known := sessions.known(self._sparkSession)) is not None:
            known.forget(viewName)
        return original(self, viewName)

    return dropped_view

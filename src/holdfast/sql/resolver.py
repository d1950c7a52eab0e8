"""Resolves names in a session: paths, tables of Spark's catalog, registered tables, and views over our tables.

1. A temporary view comes first, then a registered table, then the catalog; ``delta.`path` `` is a path.
2. A name that means none of our tables resolves to None, and the caller leaves it to Spark.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, cast

from pyspark.sql import DataFrame, SparkSession

from holdfast.engines.spark.session.catalog import CATALOG, PROVIDER, CatalogEntry, View, look, split
from holdfast.errors import Invalid, Unsupported
from holdfast.plan.scan.request import Request, known_columns
from holdfast.schema.constraints import quoted
from holdfast.schema.types import Struct
from holdfast.table.delta import DeltaTable
from holdfast.table.table import Table
from holdfast.verbs.open.open_table import OpenTable


class ScanSource(Protocol):
    """The rows of a name in a FROM clause, which can be read with a condition."""

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        """The columns that a condition may use, with these metadata columns."""

    def is_tracked(self) -> bool:
        """Whether the rows have ids."""

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        """The rows that satisfy a condition, with metadata columns under these names."""


@dataclass(frozen=True)
class TableRows:
    """The rows of a table at a version; without one, at the version that is newest at first use."""

    table: Table
    version: int | str | None = None
    timestamp: str | datetime.datetime | None = None

    def columns(self, metadata: Mapping[str, str]) -> Struct:
        return known_columns(self._opened.snapshot, metadata)

    def is_tracked(self) -> bool:
        return self._opened.snapshot.identity is not None

    def read(self, where: str | None, metadata: Mapping[str, str]) -> DataFrame:
        handle, opened = self.table.handle, self._opened
        condition = handle.condition(where, opened.snapshot, metadata)
        return opened.scan(Request(None, condition, metadata), handle.on_spark())

    @cached_property
    def _opened(self) -> OpenTable:
        return self.table.handle.open(self.version, self.timestamp)


@dataclass(frozen=True, slots=True)
class ResolvedTable:
    """A table, its name in the statement, and its catalog entry where it has one."""

    table: Table
    parts: tuple[str, ...]
    entry: CatalogEntry | None = None

    @property
    def name(self) -> str:
        """The name as SQL."""
        return ".".join(map(quoted, self.parts))

    def delta(self, what: str, instead: str = "") -> DeltaTable:
        """The table, for a statement that only Delta tables have."""
        if (table := as_delta(self.table)) is not None:
            return table
        advice = f": {instead}" if instead else ""
        raise Unsupported(f"{what} is for Delta tables, and {self.name} is an Iceberg table{advice}")


class TableResolver:
    """The registered tables, and the views over our tables, of one session."""

    def __init__(self) -> None:
        self._tables: dict[tuple[str, ...], Table] = {}
        self._views: dict[str, ScanSource | Callable[[], ScanSource]] = {}
        self._stored: dict[tuple[str, ...], View] = {}

    def register(self, name: str, table: Table) -> None:
        """Give a table a name for statements, such as an Iceberg table of a catalog that Spark does not know."""
        if not isinstance(table, Table):
            raise Invalid(f"a registered table is a DeltaTable or an IcebergTable, not {type(table).__name__}")
        self._tables[_key(split(name))] = table

    def remember(self, view: str, rows: ScanSource | Callable[[], ScanSource]) -> None:
        """Note the rows of a temporary view, so that conditions on it prune files; a function is called at each use."""
        self._views[view.lower()] = rows

    def forget(self, view: str) -> None:
        """Drop the note of a temporary view."""
        self._views.pop(view.lower(), None)

    def view(self, spark: SparkSession, parts: tuple[str, ...]) -> ScanSource | None:
        """The noted rows of a temporary view that still exists."""
        if len(parts) != 1 or parts[0].lower() not in self._views:
            return None
        if not spark.catalog.tableExists(quoted(parts[0])):
            self.forget(parts[0])
            return None
        rows = self._views[parts[0].lower()]
        return rows() if callable(rows) else rows

    def entry(self, spark: SparkSession, parts: tuple[str, ...]) -> CatalogEntry | None:
        """The entry of a Delta table in Spark's catalog."""
        if path_of(parts) is not None or _key(parts) in self._tables:
            return None
        if len(parts) > 3 or (len(parts) == 3 and parts[0].lower() != CATALOG):
            return None  # in another catalog of Spark
        entry = look(spark, parts)
        self._stored.pop(_key(parts), None)
        if isinstance(entry, View):
            self._stored[_key(parts)] = entry
        return entry if isinstance(entry, CatalogEntry) and entry.is_delta else None

    def stored(self, parts: tuple[str, ...]) -> View | None:
        """The permanent view that `entry` found last for a name."""
        return self._stored.get(_key(parts))

    def table(self, spark: SparkSession, parts: tuple[str, ...]) -> ResolvedTable | None:
        """The table that a name means; None where it is not one of ours."""
        if (path := path_of(parts)) is not None:
            return ResolvedTable(DeltaTable.forPath(spark, path), parts)
        if (registered := self._tables.get(_key(parts))) is not None:
            return ResolvedTable(registered, parts)
        entry = self.entry(spark, parts)
        return None if entry is None else ResolvedTable(DeltaTable.forPath(spark, entry.location), parts, entry)


def as_delta(table: Table) -> DeltaTable | None:
    """The table, where it is a Delta table."""
    return cast(DeltaTable, table) if table.handle.format_name == "delta" else None


def path_of(parts: tuple[str, ...]) -> str | None:
    """The path that ``delta.`path` `` names."""
    return parts[1] if len(parts) == 2 and parts[0].lower() == PROVIDER else None


def _key(parts: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(part.lower() for part in parts)

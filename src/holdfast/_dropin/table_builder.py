"""delta-spark's table builder, `DeltaTable.create()` and the like, by path or by name.

1. The catalog entry of a name comes before the table, and is removed again where creating the table fails.
2. A managed table is below its database's location; a table with a location of its own is external.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType

from holdfast._dropin.errors import TABLE_EXISTS, TABLE_NOT_FOUND, as_delta_spark, dress
from holdfast.engines.spark.session.catalog import CatalogEntry, enter, find, forget, split
from holdfast.engines.spark.types import spark_struct
from holdfast.env import system
from holdfast.errors import Invalid, NotATable
from holdfast.model.mutation import TableDefinition
from holdfast.model.snapshot import Snapshot
from holdfast.sql.settings import settings_of
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.table.delta import DeltaTable
from holdfast.verbs.define.builder import CreateMode, IdentityGenerator, without_plain
from holdfast.verbs.define.builder import DeltaTableBuilder as DefinitionBuilder
from holdfast.verbs.dml.write import make
from holdfast.verbs.open.names import path_in

__all__ = ["CreateMode", "DeltaTableBuilder"]
T = TypeVar("T")
_NOWHERE = "/"  # until the catalog says where


class DeltaTableBuilder(Generic[T]):
    """Describes a table and creates it."""

    def __init__(
        self, spark: SparkSession, mode: CreateMode, give: Callable[[DeltaTable, CatalogEntry | None], T]
    ) -> None:
        self._spark = spark
        self._mode = mode
        self._give = give
        self._name: tuple[str, ...] | None = None
        self._location: str | None = None
        self._comment: str | None = None
        self._builder = DefinitionBuilder(self._create, mode)

    def tableName(self, identifier: str) -> DeltaTableBuilder[T]:
        """The table's name in the catalog, or ``delta.`path` ``."""
        path = path_in(identifier)
        if path is not None:
            return self.location(path)
        with as_delta_spark():
            self._name = split(identifier)
        return self

    def location(self, location: str) -> DeltaTableBuilder[T]:
        """The table's location."""
        self._location = location
        return self

    def comment(self, comment: str) -> DeltaTableBuilder[T]:
        """The table's description."""
        self._comment = comment
        self._builder.comment(comment)
        return self

    @as_delta_spark()
    def addColumn(
        self,
        colName: str,
        dataType: str | DataType,
        nullable: bool = True,
        generatedAlwaysAs: str | IdentityGenerator | None = None,
        generatedByDefaultAs: IdentityGenerator | None = None,
        comment: str | None = None,
    ) -> DeltaTableBuilder[T]:
        """Add a column."""
        self._builder.addColumn(colName, dataType, nullable, generatedAlwaysAs, generatedByDefaultAs, comment)
        return self

    @as_delta_spark()
    def addColumns(self, cols: StructType | list[StructField]) -> DeltaTableBuilder[T]:
        """Add the columns of a schema."""
        self._builder.addColumns(cols)
        return self

    def partitionedBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[T]:
        """Partition the table by columns."""
        self._builder.partitionedBy(*cols)
        return self

    def clusterBy(self, *cols: str | Sequence[str]) -> DeltaTableBuilder[T]:
        """Cluster the table by columns."""
        self._builder.clusterBy(*cols)
        return self

    def property(self, key: str, value: str) -> DeltaTableBuilder[T]:
        """Set a property of the table."""
        self._builder.property(key, value)
        return self

    @as_delta_spark(invalid=TABLE_EXISTS)
    def execute(self) -> T:
        """Create the table."""
        if self._name is None and self._location is None:
            raise dress(Invalid("the table has neither a name nor a location: give it one"))
        defaults = settings_of(self._spark).properties
        self._builder._properties = {**defaults, **self._builder._properties}
        table, entry = self._builder.location(self._location or _NOWHERE).execute()
        return self._give(table, entry)

    def _create(
        self, location: Location, definition: TableDefinition, mode: CreateMode
    ) -> tuple[DeltaTable, CatalogEntry | None]:
        if self._name is None:
            return self._create_at(location.spark_path(), definition, mode), None
        existing = None if self._location is None else _table_at(self._spark, self._location)
        entry, new = self._entry(self._name, definition, mode, existing)
        try:
            if new and existing is not None and not definition.schema.fields:  # an existing table gets a name
                return DeltaTable.forPath(self._spark, entry.location), entry
            return self._create_at(self._location or entry.location, definition, mode), entry
        except BaseException:
            if new:
                forget(self._spark, self._name, if_exists=True)
            raise

    def _entry(
        self, name: tuple[str, ...], definition: TableDefinition, mode: CreateMode, existing: Snapshot | None
    ) -> tuple[CatalogEntry, bool]:
        """The entry of the table, and whether it is new."""
        dotted = ".".join(name)
        entry = find(self._spark, name)
        if entry is None:
            if mode is CreateMode.REPLACE:
                raise dress(NotATable(f"there is no table {dotted} to replace", location=dotted), TABLE_NOT_FOUND)
            schema = spark_struct((definition if existing is None else existing).schema.fields)
            return enter(self._spark, name, location=self._location, schema=schema, comment=self._comment), True
        if not entry.is_delta:
            raise Invalid(f"there is a table {dotted} of {entry.provider} already")
        if mode is CreateMode.CREATE:
            raise Invalid(f"there is a table {dotted} already: use createIfNotExists, replace or createOrReplace")
        if self._location is not None and open_location(self._location).url != open_location(entry.location).url:
            raise dress(Invalid(f"the table {dotted} is at {entry.location}, not at {self._location}"))
        return entry, False

    def _create_at(self, path: str, definition: TableDefinition, mode: CreateMode) -> DeltaTable:
        definition, plain = without_plain(definition)
        mode = CreateMode.CREATE_OR_REPLACE if mode is CreateMode.REPLACE and self._name is not None else mode
        make(open_location(path), definition, system(), mode=mode, plain=plain)
        return DeltaTable.forPath(self._spark, path)


def _table_at(spark: SparkSession, path: str) -> Snapshot | None:
    """The newest version of the table at a path; None where there is none."""
    if not DeltaTable.isDeltaTable(spark, f"`{path}`"):
        return None
    return DeltaTable.forPath(spark, path).handle.newest().snapshot

"""What changes an Iceberg table: appends, overwrites, the verbs on rows, properties and the format version.

The verbs on rows are those of every table (`RowVerbs`); what is particular to Iceberg is in its dialect.

1. Every change is one snapshot, committed through the catalog; a table that was opened by a metadata file is only read.
2. `mode` is, without being asked for, what the properties `write.delete.mode`, `write.update.mode` and
   `write.merge.mode` say, and copy-on-write where they do not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.iceberg.catalog import CatalogTable, catalog_table
from holdfast.iceberg.create import create_table
from holdfast.iceberg.state import IcebergState
from holdfast.iceberg.upgrade import set_properties, upgraded
from holdfast.ops.write import Said
from holdfast.plan.compact import HIDDEN_SHARE, TARGET_ROWS
from holdfast.schema.ddl import parse_type
from holdfast.schema.from_arrow import struct_of
from holdfast.schema.properties import isolation as level_named
from holdfast.schema.types import Struct
from holdfast.spark.types import spark_to_struct
from holdfast.table.changing import Caller
from holdfast.table.iceberg_dialect import IcebergDialect
from holdfast.table.lease import Lease
from holdfast.table.optimizing import DeltaOptimizeBuilder
from holdfast.table.replacing import found
from holdfast.table.verbs import RowVerbs, said
from holdfast.table.writing import How, Written, rows_of, write

NEWEST_FORMAT = 3


@dataclass
class Latest:
    """The newest state seen, shared by a table and its aliases; and where to ask for a newer one."""

    state: IcebergState
    source: CatalogTable | None
    dialect: IcebergDialect = field(init=False)

    def __post_init__(self) -> None:
        self.dialect = IcebergDialect(self.source, lambda: self.state)


class IcebergWriting(RowVerbs):
    """What an Iceberg table can be made to be."""

    _spark: SparkSession | None
    _latest: Latest
    _alias: str | None

    @abstractmethod
    def _state(self) -> IcebergState: ...

    @abstractmethod
    def _zone(self) -> str: ...

    def append(
        self,
        rows: DataFrame | pa.Table,
        *,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Add rows, from a DataFrame or, without Spark, an Arrow table.

        `txn` names an application and its version: one the table has seen is not written again.
        """
        return self._write(rows, How(said=said(txn, userMetadata)), self._caller())

    def overwrite(
        self,
        rows: DataFrame | pa.Table,
        *,
        replaceWhere: str | None = None,
        mode: str | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Put rows in the place of all, or of those that satisfy `replaceWhere`, which go in the way `mode` says."""
        if mode is not None and replaceWhere is None:
            raise Invalid("all rows go with their files: mode is for overwrites with replaceWhere")
        how = How(replace=True, replace_where=replaceWhere, said=said(txn, userMetadata))
        return self._write(rows, how, self._caller(mode))

    def upgrade(self, formatVersion: int = NEWEST_FORMAT) -> int:
        """Bring the table to a format version, 3 unless told otherwise; gives the version it has.

        From version 3 on rows have ids; those of the table get theirs at once, in a commit that changes nothing else.
        """
        state = self._state()
        self._latest.dialect.commits(state.snapshot.location, state)
        assert self._latest.source is not None, "a table without a catalog is refused above"
        self._latest.state = upgraded(self._latest.source, state, formatVersion, system())
        return self._latest.state.metadata.format_version

    def setProperties(self, properties: Mapping[str, str]) -> None:
        """Set properties of the table; `format-version` upgrades it."""
        wanted = dict(properties)
        if (version := wanted.pop("format-version", None)) is not None:
            if not version.isdigit():
                raise Invalid(f"format-version is a number, not {version!r}")
            self.upgrade(int(version))
        self._change_properties(wanted, ())

    def unsetProperties(self, names: Sequence[str]) -> None:
        """Take properties away."""
        self._change_properties({}, names)

    def optimize(
        self,
        *,
        full: bool = False,
        targetRows: int = TARGET_ROWS,
        targetBytes: int | None = None,
        materializeDeletionsThreshold: float = HIDDEN_SHARE,
        maxBytes: int | None = None,
        lease: bool | str | Lease = False,
    ) -> DeltaOptimizeBuilder:
        """Begin a compaction: `optimize().where(...).executeCompaction()`; row ids and versions stay.

        Small files of a partition are written together, up to the table's `write.target-file-size-bytes` unless
        `targetBytes` is given, and a file anew that hides more than a share of its rows.
        """
        if targetBytes is None:
            state = self._state()
            dialect = self._latest.dialect
            targetBytes = dialect.storing(state, dialect.shape_of(state), carried=False).data.target_bytes
        return super().optimize(
            full=full,
            targetRows=targetRows,
            targetBytes=targetBytes,
            materializeDeletionsThreshold=materializeDeletionsThreshold,
            maxBytes=maxBytes,
            lease=lease,
        )

    def _write(self, rows: DataFrame | pa.Table, how: How, caller: Caller) -> Written:
        state = self._state()
        return write(
            state, rows_of(rows, self._spark, caller.env), found(state, how, caller), caller.env, caller.dialect
        )

    def _change_properties(self, properties: Mapping[str, str], removed: Sequence[str]) -> None:
        state = self._state()
        self._latest.dialect.commits(state.snapshot.location, state)
        assert self._latest.source is not None, "a table without a catalog is refused above"
        if properties or removed:
            self._latest.state = set_properties(self._latest.source, state, properties, removed)

    def _caller(self, mode: str | None = None, said: Said | None = None, isolation: str | None = None) -> Caller:
        level = None if isolation is None else level_named(isolation)
        dialect = self._latest.dialect
        return Caller(
            self._spark,
            system(),
            self._zone(),
            self._alias,
            said or Said(),
            mode,
            level,
            load_hidden=dialect.load_hidden,
            feeds=False,
            dialect=dialect,
        )


def create(
    catalog: Any,
    identifier: str | tuple[str, ...],
    schema: Any,
    partitioned_by: Sequence[str],
    *,
    version: int,
    properties: Mapping[str, str],
    location: str | PathLike[str] | None,
    storage_options: Mapping[str, str] | None,
) -> CatalogTable:
    """Make a table in a catalog."""
    source = catalog_table(catalog, identifier, storage_options=storage_options)
    create_table(
        source,
        columns_of(schema),
        [partitioned_by] if isinstance(partitioned_by, str) else partitioned_by,
        version=version,
        properties=properties,
        location=None if location is None else fspath(location),
    )
    return source


def columns_of(schema: Any) -> Struct:
    """Columns, however they are given."""
    match schema:
        case Struct():
            return schema
        case pa.Schema():
            return struct_of(schema)
        case StructType():
            return spark_to_struct(schema, where="the schema")
        case str():
            type_ = parse_type(f"struct<{schema}>")
            assert isinstance(type_, Struct), "a struct was spelled"
            return type_
        case _:
            raise Invalid(
                f"a schema is an Arrow schema, a StructType or text such as 'id long, name string', not "
                f"{type(schema).__name__}"
            )

"""An Iceberg table, for users: the verbs of every table, and those that only Iceberg has.

1. A table of a catalog reads the newest metadata at each call; one of a metadata file stays what that file says.
2. A version is a snapshot id, or the name of a branch or tag.
3. Every change is committed through the catalog; a table that was opened by a metadata file is only read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING

from holdfast.formats.iceberg.catalog.tables import CatalogLike, catalog_table
from holdfast.formats.iceberg.state import load
from holdfast.plan.publish.columns import plain
from holdfast.table.table import Table
from holdfast.verbs.define.create_iceberg import SchemaLike
from holdfast.verbs.define.create_iceberg import create as create_table
from holdfast.verbs.define.iceberg import NEWEST_FORMAT
from holdfast.verbs.open.iceberg_handle import IcebergHandle

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IcebergTable(Table):
    """An Iceberg table, of a catalog or of a metadata file."""

    handle: IcebergHandle

    @classmethod
    def load(
        cls,
        sparkSession: SparkSession | None,
        catalog: CatalogLike,
        identifier: str | tuple[str, ...],
        *,
        storage_options: Mapping[str, str] | None = None,
        allow_outside: bool | str | Sequence[str] = False,
    ) -> IcebergTable:
        """Open a table of a catalog.

        `catalog` is one of pyiceberg's, a name from its configuration, its properties (`{"type": "rest", "uri": ...}`),
        or the path of an sqlite file.
        """
        source = catalog_table(catalog, identifier, storage_options=storage_options, allow_outside=allow_outside)
        return cls(IcebergHandle(sparkSession, source.newest(None), source))

    @classmethod
    def create(
        cls,
        sparkSession: SparkSession | None,
        catalog: CatalogLike,
        identifier: str | tuple[str, ...],
        schema: SchemaLike,
        *,
        partitionedBy: Sequence[str] = (),
        formatVersion: int = NEWEST_FORMAT,
        properties: Mapping[str, str] | None = None,
        location: str | PathLike[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> IcebergTable:
        """Make a table in a catalog, which is given as to `load`; its namespace is made too.

        `schema` is an Arrow schema, a StructType, or text such as `id long not null, name string`. `partitionedBy`
        names columns and transforms: `["country", "day(ts)", "bucket(16, id)", "truncate(4, name)"]`.
        """
        source = create_table(
            catalog,
            identifier,
            schema,
            partitionedBy,
            version=formatVersion,
            properties=properties or {},
            location=location,
            storage_options=storage_options,
        )
        return cls(IcebergHandle(sparkSession, source.newest(None), source))

    @classmethod
    def createLike(
        cls,
        sparkSession: SparkSession | None,
        catalog: CatalogLike,
        identifier: str | tuple[str, ...],
        table: Table,
        *,
        partitionedBy: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        location: str | PathLike[str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> IcebergTable:
        """Make a table with the columns of another one, of either format; `table.publish(...)` brings the rows.

        The other arguments are those of `create`.
        """
        return cls.create(
            sparkSession,
            catalog,
            identifier,
            plain(table.handle.newest().snapshot.schema),
            partitionedBy=partitionedBy,
            properties=properties,
            location=location,
            storage_options=storage_options,
        )

    @classmethod
    def forMetadata(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        *,
        relocate: Mapping[str, str | PathLike[str]] | None = None,
        storage_options: Mapping[str, str] | None = None,
        allow_outside: bool | str | Sequence[str] = False,
    ) -> IcebergTable:
        """Open the table that a metadata file describes, to read it, without a catalog.

        `relocate` says where a copied table lies: prefixes of paths in its metadata, and what became of each.
        """
        moves = {old: fspath(new) for old, new in (relocate or {}).items()}
        state = load(fspath(path), relocate=moves, storage_options=storage_options, allow_outside=allow_outside)
        return cls(IcebergHandle(sparkSession, state, None))

    @property
    def location(self) -> str:
        """Where the table is, as its metadata spells it."""
        return self.handle.newest().metadata.location

    @property
    def formatVersion(self) -> int:
        """The version of the table format, from 1 to 3."""
        return self.handle.newest().metadata.format_version

    def upgrade(self, formatVersion: int = NEWEST_FORMAT) -> int:
        """Bring the table to a format version, 3 unless told otherwise; gives the version it has.

        From version 3 on rows have ids; those of the table get theirs at once, in a commit that changes nothing else.
        """
        self.handle.alter.upgrade(formatVersion)
        return self.handle.state.metadata.format_version

"""An Iceberg table, for users: the object with the dots.

It puts the format, a runner and a store together and decides nothing itself. Names and arguments are those of
`DeltaTable`; a version is a snapshot id, or the name of a branch or tag.

1. A table of a catalog reads the newest metadata at each call; one of a metadata file stays what that file says.
2. Without a Spark session everything that needs only metadata works, and rows are read by `toArrow`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from holdfast.formats.iceberg.catalog.tables import catalog_table
from holdfast.formats.iceberg.history.snapshots import history
from holdfast.formats.iceberg.state import load
from holdfast.verbs.changefeed.iceberg import IcebergReadingById
from holdfast.verbs.define.iceberg import NEWEST_FORMAT
from holdfast.verbs.define.iceberg_writing import create
from holdfast.verbs.index.iceberg import IcebergIndexing
from holdfast.verbs.maintain.check_iceberg import IcebergChecking
from holdfast.verbs.open.iceberg_handle import IcebergHandle
from holdfast.verbs.publish.iceberg import IcebergPublishing
from holdfast.verbs.read.verbs import ReadVerbs


class IcebergTable(ReadVerbs, IcebergPublishing, IcebergReadingById, IcebergIndexing, IcebergChecking):
    """An Iceberg table, of a catalog or of a metadata file."""

    handle: IcebergHandle

    def __repr__(self) -> str:
        state = self.handle.state
        return f"IcebergTable({state.snapshot.location.url}, version {state.version})"

    @classmethod
    def load(
        cls,
        sparkSession: SparkSession | None,
        catalog: Any,
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
        catalog: Any,
        identifier: str | tuple[str, ...],
        schema: Any,
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
        source = create(
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
    def version(self) -> int:
        """The id of the current snapshot; -1 where the table has none."""
        return self.handle.newest().version

    @property
    def location(self) -> str:
        """Where the table is, as its metadata spells it."""
        return self.handle.newest().metadata.location

    @property
    def formatVersion(self) -> int:
        """The version of the table format, from 1 to 3."""
        return self.handle.newest().metadata.format_version

    def alias(self, aliasName: str) -> IcebergTable:
        """The same table under a name that conditions can use."""
        return IcebergTable(self.handle, aliasName)

    def historyArrow(self, limit: int | None = None) -> pa.Table:
        """The snapshots of the table, newest first, as an Arrow table."""
        return history(self.handle.newest().metadata, limit=limit)

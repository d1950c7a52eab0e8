"""An Iceberg table, for users: the object with the dots.

It puts the format, a runner and a store together and decides nothing itself. Names and arguments are those of
`DeltaTable`; a version is a snapshot id, or the name of a branch or tag.

1. A table of a catalog reads the newest metadata at each call; one of a metadata file stays what that file says.
2. Without a Spark session everything that needs only metadata works, and rows are read by `toArrow`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession

from holdfast.errors import Invalid
from holdfast.iceberg.catalog import catalog_table
from holdfast.iceberg.history import history
from holdfast.iceberg.state import IcebergState, load, moved
from holdfast.local.runner import LocalRunner
from holdfast.ops import explain as explaining
from holdfast.ops import scan as scanning
from holdfast.plan.scan import Condition, Request, known_columns, refuse_unknown
from holdfast.predicate.parse import parse, unknown_names
from holdfast.spark.conditions import condition
from holdfast.spark.scan import SparkRunner
from holdfast.table.iceberg_changes import IcebergReadingById
from holdfast.table.iceberg_writing import NEWEST_FORMAT, IcebergWriting, Latest, create
from holdfast.table.moment import moment_ms

_Metadata: TypeAlias = Mapping[str, str] | Sequence[str]
_Version: TypeAlias = int | str | None
_Timestamp: TypeAlias = str | datetime.datetime | None


class IcebergTable(IcebergWriting, IcebergReadingById):
    """An Iceberg table, of a catalog or of a metadata file."""

    def __init__(self, spark: SparkSession | None, latest: Latest, alias: str | None = None) -> None:
        self._spark = spark
        self._latest = latest
        self._alias = alias

    def __repr__(self) -> str:
        state = self._latest.state
        return f"IcebergTable({state.snapshot.location.url}, version {state.version})"

    @classmethod
    def load(
        cls,
        sparkSession: SparkSession | None,
        catalog: Any,
        identifier: str | tuple[str, ...],
        *,
        storage_options: Mapping[str, str] | None = None,
        allow_outside: bool = False,
    ) -> IcebergTable:
        """Open a table of a catalog.

        `catalog` is one of pyiceberg's, a name from its configuration, its properties (`{"type": "rest", "uri": ...}`),
        or the path of an sqlite file.
        """
        source = catalog_table(catalog, identifier, storage_options=storage_options, allow_outside=allow_outside)
        return cls(sparkSession, Latest(source.newest(None), source))

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
        return cls(sparkSession, Latest(source.newest(None), source))

    @classmethod
    def forMetadata(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        *,
        relocate: Mapping[str, str | PathLike[str]] | None = None,
        storage_options: Mapping[str, str] | None = None,
        allow_outside: bool = False,
    ) -> IcebergTable:
        """Open the table that a metadata file describes, to read it, without a catalog.

        `relocate` says where a copied table lies: prefixes of paths in its metadata, and what became of each.
        """
        moves = {old: fspath(new) for old, new in (relocate or {}).items()}
        state = load(fspath(path), relocate=moves, storage_options=storage_options, allow_outside=allow_outside)
        return cls(sparkSession, Latest(state, None))

    @property
    def version(self) -> int:
        """The id of the current snapshot; -1 where the table has none."""
        return self._state().version

    @property
    def location(self) -> str:
        """Where the table is, as its metadata spells it."""
        return self._state().metadata.location

    @property
    def formatVersion(self) -> int:
        """The version of the table format, from 1 to 3."""
        return self._state().metadata.format_version

    def alias(self, aliasName: str) -> IcebergTable:
        """The same table under a name that conditions can use."""
        return IcebergTable(self._spark, self._latest, aliasName)

    def toDF(self) -> DataFrame:
        """All rows and columns of the current snapshot."""
        df = self.scan()
        return df.alias(self._alias) if self._alias else df

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: _Version = None,
        timestamp: _Timestamp = None,
        metadata: _Metadata = (),
    ) -> DataFrame:
        """Rows as a DataFrame.

        `where` is SQL text or a Column; what of it is understood prunes files. `metadata` names columns such as
        `_file`, `_pos` or `_row_id`, or maps them to other names: `{"_row_id": "rid"}`. A version is the id of a
        snapshot, or the name of a branch or tag.
        """
        spark, state = self._session(), self._at(version, timestamp)
        known = known_columns(state.snapshot, metadata)
        asked = None if where is None else condition(spark, where, known)
        request = Request(columns, asked, metadata)
        return scanning.scan(state.snapshot, request, SparkRunner(spark), state.hidden.load)

    def toArrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: _Version = None,
        timestamp: _Timestamp = None,
        metadata: _Metadata = (),
    ) -> pa.Table:
        """Rows as an Arrow table, read in this process, without Spark; `where` is SQL text."""
        state = self._at(version, timestamp)
        request = Request(columns, self._local_condition(where, state, metadata), metadata)
        return scanning.scan(state.snapshot, request, LocalRunner(), state.hidden.load)

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: _Version = None,
        timestamp: _Timestamp = None,
        metadata: _Metadata = (),
    ) -> explaining.Explanation:
        """What `scan` with the same arguments would read, and why; printing it shows it."""
        state = self._at(version, timestamp)
        if self._spark is None:
            local = Request(columns, self._local_condition(where, state, metadata), metadata)
            return explaining.explain(state.snapshot, local, LocalRunner())
        asked = None if where is None else condition(self._spark, where, known_columns(state.snapshot, metadata))
        return explaining.explain(state.snapshot, Request(columns, asked, metadata), SparkRunner(self._spark))

    def history(self, limit: int | None = None) -> DataFrame:
        """The snapshots of the table, newest first."""
        return self._session().createDataFrame(self.historyArrow(limit))

    def historyArrow(self, limit: int | None = None) -> pa.Table:
        """The snapshots of the table, newest first, as an Arrow table."""
        return history(self._state().metadata, limit=limit)

    def _state(self) -> IcebergState:
        if self._latest.source is not None:
            self._latest.state = self._latest.source.newest(self._latest.state)
        return self._latest.state

    def _at(self, version: _Version, timestamp: _Timestamp) -> IcebergState:
        moment = None if timestamp is None else moment_ms(timestamp, zone=self._zone())
        return moved(self._state(), version=version, timestamp_ms=moment)

    def _zone(self) -> str:
        if self._spark is None:
            return "UTC"
        return self._spark.conf.get("spark.sql.session.timeZone") or "UTC"

    def _session(self) -> SparkSession:
        if self._spark is None:
            raise Invalid("this table was opened without a Spark session: use toArrow, or open it with one")
        return self._spark

    def _local_condition(self, where: Any, state: IcebergState, metadata: _Metadata) -> Condition | None:
        if where is None:
            return None
        if not isinstance(where, str):
            raise Invalid("without Spark a condition must be SQL text")
        columns = known_columns(state.snapshot, metadata)
        refuse_unknown(unknown_names(where, columns), columns)
        return Condition(where, where, parse(where, columns, zone=self._zone()))

"""An Iceberg table that is held open, of a catalog or of a metadata file."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.index.reader import PinnedReader
from holdfast.schema.properties import isolation as level_named
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.open.handle import Handle, Timestamp, Version
from holdfast.verbs.open.iceberg import open_iceberg, pruners_of
from holdfast.verbs.open.iceberg_dialect import IcebergDialect
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.read.open_table import OpenTable


class IcebergHandle(Handle):
    """An Iceberg table."""

    state: IcebergState

    def __init__(self, spark: SparkSession | None, state: IcebergState, source: CatalogTable | None) -> None:
        super().__init__(spark)
        self.state = state
        self.source = source  # where to ask for a newer state; None: a metadata file, which stays what it says
        self.dialect = IcebergDialect(source, lambda: self.state)
        self.reader: PinnedReader | None = None  # of the snapshot that rows were last looked up in

    def newest(self) -> IcebergState:
        if self.source is not None:
            self.state = self.source.newest(self.state)
        return self.state

    def at(self, version: Version, timestamp: Timestamp) -> IcebergState:
        moment = None if timestamp is None else moment_ms(timestamp, zone=self.zone)
        return time_travel(self.newest(), version=version, timestamp_ms=moment)

    def open(self, version: Version = None, timestamp: Timestamp = None) -> OpenTable:
        return self.opened(self.at(version, timestamp))

    def opened(self, state: IcebergState) -> OpenTable:
        """A state of this table, to be read."""
        return open_iceberg(state)

    def caller(
        self, alias: str | None, mode: str | None, said: CommitOptions | None, isolation: str | None
    ) -> ExecutionContext:
        level = None if isolation is None else level_named(isolation)
        return ExecutionContext(
            self.spark,
            self.env,
            self.zone,
            self.dialect,
            alias,
            said or CommitOptions(),
            mode,
            level,
            feeds=False,
            pruners=pruners_of,
        )

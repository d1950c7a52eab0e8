"""The handle of an Iceberg table, from a catalog or from a metadata file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.catalog.tables import CatalogTable
from holdfast.formats.iceberg.format import IcebergFormat
from holdfast.formats.iceberg.history.commit_range import at_sequence_number
from holdfast.formats.iceberg.history.snapshots import history
from holdfast.formats.iceberg.history.trail import trail
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.index.kinds import Site
from holdfast.index.reader import PinnedReader
from holdfast.index.search import Indexes
from holdfast.model.files import may_lose
from holdfast.model.snapshot import Snapshot
from holdfast.plan.changefeed.biography import Biography
from holdfast.plan.changefeed.query import ChangeQuery
from holdfast.schema.types import Struct
from holdfast.verbs.changefeed.biography import life
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.changefeed.iceberg import changes
from holdfast.verbs.define.iceberg import IcebergAlteration
from holdfast.verbs.dml.delete_update import Changed
from holdfast.verbs.index.iceberg import IcebergIndexRegistry, IndexedSnapshot
from holdfast.verbs.index.registry import Searchable
from holdfast.verbs.maintain.check import CheckReport
from holdfast.verbs.maintain.check_iceberg import check
from holdfast.verbs.maintain.restore_iceberg import restore
from holdfast.verbs.open.handle import Handle, Timestamp, Version
from holdfast.verbs.open.iceberg import open_iceberg
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.publish.iceberg import origin_of
from holdfast.verbs.publish.mutation import Origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class IcebergHandle(Handle):
    """An Iceberg table."""

    format_name = "iceberg"
    state: IcebergState

    def __init__(self, spark: SparkSession | None, state: IcebergState, source: CatalogTable | None) -> None:
        super().__init__(spark)
        self.state = state
        self.source = source  # where to ask for a newer state; None: a metadata file, which stays what it says
        self.format = IcebergFormat(source, lambda: self.state)
        self._reader: PinnedReader | None = None  # of the snapshot that an index was last asked about

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
        return open_iceberg(state, self.format)

    def is_partitioned(self) -> bool:
        state = self.newest()
        return not state.contents.types.specs[state.metadata.default_spec_id].is_unpartitioned

    def refuse_overwrite(self, *, by_match: bool, replaces_schema: bool) -> None:
        if by_match:
            raise Unsupported("replaceUsing and replaceOn are for Delta tables: delete the rows first, then append")
        if replaces_schema:
            raise Unsupported("overwriteSchema is for Delta tables: change the columns with addColumns and dropColumn")

    def history(self, limit: int | None) -> pa.Table:
        return history(self.newest().metadata, limit=limit)

    @property
    def alter(self) -> IcebergAlteration:
        state = self.newest()
        return IcebergAlteration(self.format.catalog_table(state), state, self.env, self._keep)

    def reader(self, version: Version = None, timestamp: Timestamp = None) -> PinnedReader:
        state = self.at(version, timestamp)
        if pc.any(may_lose(state.snapshot.files)).as_py():
            raise Unsupported(
                f"rows of {state.metadata.location} are deleted by value, so where a row is does not tell whether it "
                "is live: purge() the table first, or scan it by _row_id"
            )
        return PinnedReader(state.snapshot, self.format.load_hidden, None)

    def searchable(self, version: Version = None, timestamp: Timestamp = None) -> Searchable:
        indexed = IndexedSnapshot.of(self.at(version, timestamp))
        usable = indexed.registered.indexes and indexed.refusal() is None
        return Searchable(
            indexed.snapshot, self.opened(indexed.state), (lambda: self._indexes(indexed)) if usable else None
        )

    @property
    def registry(self) -> IcebergIndexRegistry:
        def site(snapshot: Snapshot) -> Site:
            return Site(snapshot, self.format.load_hidden, self.env, self.engine.workers)

        return IcebergIndexRegistry(self.newest, lambda: self.alter, self._indexes, site)

    def changes(self, start: When | None, end: When | None, query: ChangeQuery, resume: str | None) -> ChangeSet:
        return changes(self.newest(), start, end, query, resume, self.format.load_hidden, engine=self.engine)

    def biography(self, row_id: int) -> Biography:
        state = self.newest()
        return life(at_sequence_number(state), lambda: trail(state), row_id, self.format.load_hidden)

    def check(self, *, repair: bool, deep: bool, drop_missing: bool) -> CheckReport:
        return check(
            self.newest, self.format, self.engine, self.env, repair=repair, deep=deep, drop_missing=drop_missing
        )

    def restore(self, version: Version = None, timestamp: Timestamp = None) -> Changed:
        state = self.newest()
        table = self.opened(state)
        table.check_writable()
        moment = None if timestamp is None else moment_ms(timestamp, zone=self.zone)
        return restore(table, state, time_travel(state, version=version, timestamp_ms=moment), self.caller())

    def origin(self, upto: int | None) -> Origin:
        return origin_of(self.at(upto, None), self.format.load_hidden)

    def refuse_unpublishable(self, schema: Struct) -> None:
        """Nothing is refused here: the format refuses what it cannot store."""

    def reindex(self) -> None:
        """Nothing: an index of an Iceberg table is refreshed when its owner says so."""

    def _keep(self, state: IcebergState) -> None:
        self.state = state

    def _indexes(self, indexed: IndexedSnapshot) -> Indexes:
        load_hidden, reader, now = self.format.load_hidden, self._reader, indexed.snapshot
        if reader is None or (reader.snapshot.version, reader.snapshot.schema) != (now.version, now.schema):
            reader = self._reader = PinnedReader(now, load_hidden, reader)
        return Indexes(reader, indexed.registered, indexed.table_id, indexed.since, load_hidden)

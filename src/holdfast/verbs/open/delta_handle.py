"""The handle of a Delta table, with its indexes and the readers of its rows."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pyarrow as pa

from holdfast.errors import Damaged, NoRowIdentity, TableError
from holdfast.formats.delta import detail
from holdfast.formats.delta.history import commits
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.index.pruning import ByIndex, ByRowId
from holdfast.index.reader import PinnedReader
from holdfast.index.registry import DOMAIN
from holdfast.index.search import Indexes
from holdfast.plan.changefeed.biography import Biography
from holdfast.plan.changefeed.query import ChangeQuery
from holdfast.plan.publish.columns import refuse_types
from holdfast.plan.scan.prune import Pruner
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.schema.types import PRIMITIVES, Struct
from holdfast.verbs.changefeed import delta as changefeed
from holdfast.verbs.changefeed.biography import biography
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.define.alter import DeltaAlteration
from holdfast.verbs.dml.delete_update import Changed
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.index.delta import DeltaIndexRegistry
from holdfast.verbs.index.pinned_readers import Pin, Pins
from holdfast.verbs.index.registry import Searchable
from holdfast.verbs.maintain.check import CheckReport, check
from holdfast.verbs.maintain.restore import restore
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.handle import Handle, TableDetails, Timestamp, Version
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.open.open_table import OpenTable
from holdfast.verbs.open.versions import pinned_version, refuse_vacuumed
from holdfast.verbs.publish.delta import origin_of
from holdfast.verbs.publish.mutation import Origin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FEATURES_LISTED = 7  # the writer version from which a protocol lists features
_log = logging.getLogger(__name__)


class DeltaHandle(Handle):
    """A Delta table."""

    format_name = "delta"
    state: DeltaState

    def __init__(self, spark: SparkSession | None, state: DeltaState) -> None:
        super().__init__(spark)
        self.state = state
        self.pins = Pins()

    def newest(self) -> DeltaState:
        self.pins.moved = True
        self.state = refresh(self.state)
        return self.state

    def at(self, version: Version, timestamp: Timestamp) -> DeltaState:
        now = self.newest()
        if version is None and timestamp is None:
            return now
        number = pinned_version(now, version)
        moment = None if timestamp is None else moment_ms(timestamp, zone=self.zone)
        then = load(now.snapshot.location, version=number, timestamp_ms=moment)
        refuse_vacuumed(now, then)
        return then

    def pinned(self, version: Version = None, timestamp: Timestamp = None) -> Pin:
        """The version that rows are looked up in; one that is given is read instead, and moves nothing."""
        pins = self.pins
        if version is not None or timestamp is not None:
            moved = pins.moved
            pin = pins.at(self.at(version, timestamp))
            pins.moved = moved
            return pin
        if pins.now is None or pins.moved:
            state = self.newest()
            if pins.now is None or pins.now.state is not state:
                pins.now = Pin.of(state, pins.now)
            pins.moved = False
        return pins.now

    def reader(self, version: Version = None, timestamp: Timestamp = None) -> PinnedReader:
        return self.pinned(version, timestamp).reader

    def searchable(self, version: Version = None, timestamp: Timestamp = None) -> Searchable:
        try:
            pin = self.pinned(version, timestamp)
        except (NoRowIdentity, Damaged):  # rows have no ids, or cannot be located by them
            state = self.at(version, timestamp)
            return Searchable(state.snapshot, open_delta(state), None)

        def indexes() -> Indexes:
            return reindexing.opened(pin, self.state)

        state = pin.state
        return Searchable(state.snapshot, open_delta(state), indexes if self.has_indexes(state) else None)

    @property
    def registry(self) -> DeltaIndexRegistry:
        return DeltaIndexRegistry(self.newest, self.caller(), self.pins.at)

    @property
    def alter(self) -> DeltaAlteration:
        return DeltaAlteration(self.newest(), self.env)

    def is_partitioned(self) -> bool:
        return bool(self.newest().snapshot.partition_columns)

    def refuse_overwrite(self, *, by_match: bool, replaces_schema: bool) -> None:
        """Nothing is refused: a Delta table has all of them."""

    def history(self, limit: int | None) -> pa.Table:
        return commits.history(self.state.snapshot.location, limit=limit)

    def details(self) -> TableDetails:
        row = detail.detail(self.newest()).to_pylist()[0]
        protocol = {f"delta.{name}": str(row[name]) for name in ("minReaderVersion", "minWriterVersion")}
        if row["minWriterVersion"] >= _FEATURES_LISTED:
            protocol |= {f"delta.feature.{name}": "supported" for name in row["tableFeatures"] or ()}
        return TableDetails(row["description"], tuple(row["clusteringColumns"] or ()), protocol)

    def changes(self, start: When | None, end: When | None, query: ChangeQuery, resume: str | None) -> ChangeSet:
        return changefeed.changes(self.newest(), start, end, query, resume, zone=self.zone, engine=self.engine)

    def biography(self, row_id: int) -> Biography:
        return biography(self.newest(), row_id)

    def check(self, *, repair: bool, deep: bool, drop_missing: bool) -> CheckReport:
        return check(self.newest(), self.caller(), repair=repair, deep=deep, drop_missing=drop_missing)

    def restore(self, version: Version = None, timestamp: Timestamp = None) -> Changed:
        state = self.newest()
        moment = None if timestamp is None else moment_ms(timestamp, zone=self.zone)
        return restore(state, self.env, version=pinned_version(state, version), timestamp_ms=moment)

    def origin(self, upto: int | None) -> Origin:
        return origin_of(self.at(upto, None))

    def refuse_unpublishable(self, schema: Struct) -> None:
        refuse_types(schema, PRIMITIVES, target=self.newest().snapshot.location.url)

    def written(self) -> None:
        """Look rows up in the newest version from now on: somebody here wrote one."""
        self.pins.moved = True

    def open(self, version: Version = None, timestamp: Timestamp = None) -> OpenTable:
        return self.opened(self.at(version, timestamp))

    def opened(self, state: DeltaState) -> OpenTable:
        """A state of this table, to be read."""
        return open_delta(state, self.pruners)

    def pruners(self, state: DeltaState, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
        """What ids and indexes offer to whoever reads a version; `also` is true of every row that is wanted."""
        if state.snapshot.identity is None:
            return ()
        by_id = ByRowId(lambda: self.pins.at(state).reader, also)
        if not self.has_indexes(state):
            return (by_id,)

        def opened() -> Indexes:
            return reindexing.opened(self.pins.at(state), self.state)

        return (by_id, ByIndex(opened, also))

    def has_indexes(self, state: DeltaState) -> bool:
        """Whether rows of a version may be found by an index."""
        tracked = state.snapshot.identity is not None
        return tracked and any(name.startswith(DOMAIN) for s in (state, self.state) for name in s.domains)

    def reindex(self) -> None:
        """Refresh the indexes that ask for it after every write; one that fails is behind, and no less right."""
        if not self.has_indexes(self.state):
            return
        try:
            reindexing.follow(self.newest(), self.caller(), self.pins.at)
        except (TableError, *self.engine.failures, pa.ArrowException, OSError) as error:
            _log.warning("the write is committed, and an index is behind: %s", error)

"""A Delta table that is held open, and the versions of it that rows are looked up in."""

from __future__ import annotations

import logging

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.errors import TableError
from holdfast.formats.delta.state import DeltaState, load, refresh
from holdfast.index.by_row_id import ByRowId
from holdfast.index.pruning import ByIndex
from holdfast.index.registry import DOMAIN
from holdfast.index.search import Indexes
from holdfast.plan.scan.prune import Pruner
from holdfast.predicate.records import ALWAYS, Predicate
from holdfast.schema.properties import isolation as level_named
from holdfast.verbs.dml.delete_update import ExecutionContext
from holdfast.verbs.dml.write_mutation import CommitOptions
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.index.pinned_readers import Pins
from holdfast.verbs.open.delta import open_delta
from holdfast.verbs.open.delta_dialect import DELTA
from holdfast.verbs.open.handle import Handle, Timestamp, Version
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.open.versions import pinned_version, refuse_vacuumed
from holdfast.verbs.read.open_table import OpenTable

_log = logging.getLogger(__name__)


class DeltaHandle(Handle):
    """A Delta table."""

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

    def written(self) -> None:
        """Look rows up in the newest version from now on: somebody here wrote one."""
        self.pins.moved = True

    def open(self, version: Version = None, timestamp: Timestamp = None) -> OpenTable:
        return self.opened(self.at(version, timestamp))

    def opened(self, state: DeltaState) -> OpenTable:
        """A state of this table, to be read."""
        return open_delta(state, lambda: self.pruners(state))

    def caller(
        self, alias: str | None, mode: str | None, said: CommitOptions | None, isolation: str | None
    ) -> ExecutionContext:
        level = None if isolation is None else level_named(isolation)
        return ExecutionContext(
            self.spark,
            self.env,
            self.zone,
            DELTA,
            alias,
            said or CommitOptions(),
            mode,
            level,
            pruners=self.pruners,
            reindex=self.reindex,
        )

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
            reindexing.follow(self.newest(), self.caller(None, None, None, None), self.pins.at)
        except (TableError, PySparkException, pa.ArrowException, OSError) as error:
            _log.warning("the write is committed, and an index is behind: %s", error)

"""Indexes of a table, for users: make, refresh, drop; and rows by their keys.

1. `lookup` reads the version that the table object has pinned, as `take` does; `refresh()` moves it.
2. What comes out is what a scan with the same condition gives, in the order of a scan, each row once.
"""

from __future__ import annotations

import logging
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.delta.state import DeltaState
from holdfast.delta.vectors import load_hidden
from holdfast.errors import Damaged, NoRowIdentity, TableError
from holdfast.index.by_row_id import ByRowId
from holdfast.index.keyed import condition_of
from holdfast.index.pruning import ByIndex
from holdfast.index.registry import DOMAIN
from holdfast.index.search import Indexes, pays
from holdfast.local.runner import LocalRunner
from holdfast.ops import scan as scanning
from holdfast.ops.write import Said
from holdfast.plan.prune import Pruner
from holdfast.plan.scan import Condition, Request
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import ALWAYS, Predicate, columns_of, conjunction
from holdfast.predicate.render import render
from holdfast.spark.conditions import below
from holdfast.spark.scan import SparkRunner
from holdfast.spark.types import named
from holdfast.table import reindexing
from holdfast.table.changing import Caller
from holdfast.table.lookup import LookupVerbs, Metadata, Pin, Timestamp
from holdfast.table.reindexing import IndexInfo, IndexStats, Verified

_log = logging.getLogger(__name__)


class IndexVerbs(LookupVerbs):
    """Verbs about indexes."""

    @abstractmethod
    def _caller(self, mode: str | None = None, said: Said | None = None, isolation: str | None = None) -> Caller: ...

    @abstractmethod
    def _session(self) -> SparkSession: ...

    def createIndex(
        self, columns: str | Sequence[str], *, name: str | None = None, kind: str = "btree", **options: Any
    ) -> IndexInfo:
        """Index one or several columns, so that `lookup` and scans find rows by them.

        `kind` is btree, or bitmap for columns with few different values. The name is made of the columns' unless
        given. With `synchronous=True` writes by Holdfast are followed by a refresh of the index.
        """
        asked = [columns] if isinstance(columns, str) else list(columns)
        index = reindexing.create(self._state(), asked, name, kind, options, self._caller())
        return self._info(index.name)

    def refreshIndex(self, name: str) -> IndexInfo:
        """Index what was written since; costs what was written, and commits nothing where that is nothing."""
        reindexing.refresh_index(self._state(), name, self._caller(), self._pins.at)
        return self._info(name)

    def rebuildIndex(self, name: str) -> IndexInfo:
        """Make an index anew from every row, in one commit; until then the old one answers."""
        reindexing.rebuild(self._state(), name, self._caller())
        return self._info(name)

    def renameIndex(self, name: str, newName: str) -> IndexInfo:
        """Give an index another name; nothing of it is written again."""
        reindexing.rename(self._state(), name, newName, self._caller())
        return self._info(newName)

    def dropIndex(self, name: str, ifExists: bool = False) -> bool:
        """Take an index away; its files go with a later vacuum. False where there was none and `ifExists` allows it."""
        return reindexing.drop(self._state(), name, self._caller(), if_exists=ifExists)

    def indexes(self) -> list[IndexInfo]:
        """The indexes of the newest version."""
        state = self._state()
        return [reindexing.info_of(index, state) for index in reindexing.indexes_of(state).indexes.values()]

    def indexStats(self, name: str, sample: int | None = None) -> IndexStats:
        """What an index holds and what it leaves to be scanned; the share of dead entries is by a sample."""
        pin = self._pins.at(self._state())
        return reindexing.stats_of(reindexing.indexes_of(pin.state).named(name), pin, sample)

    def verifyIndex(self, name: str, sample: int | None = None) -> Verified:
        """Compare an index with its table: checksums, entries with rows, rows with entries; all, or some of them."""
        found = self._newest()
        return reindexing.verify(found.registered.named(name), found, self._caller(), sample)

    def lookup(
        self,
        keys: Mapping[str, Any] | None = None,
        /,
        *,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        timestamp: Timestamp | None = None,
        metadata: Metadata = (),
        **by: Any,
    ) -> pa.Table:
        """Rows by the values of columns: `lookup(id=42)`, `lookup(id=[1, 2])`, `lookup(day=between(a, b), kind="x")`.

        Reads in this process, through an index where there is one that helps, else by a scan; rows come in the order of
        a scan, each once. A column that is called like an argument goes into `keys`: `lookup({"version": 3})`.
        """
        try:
            pin: Pin | None = self._pinned(version, timestamp)
        except (NoRowIdentity, Damaged):  # rows have no ids, or cannot be located by them
            pin = None
        state = self._at(version, timestamp) if pin is None else pin.state
        where = condition_of(state.snapshot, {**(keys or {}), **by})
        if pin is not None and self._has_indexes(state):
            found = by_index(reindexing.opened(pin, self._seen()), where, columns, metadata)
            if found is not None:
                return found
        request = Request(columns, Condition(None, render(where), where), metadata)
        return scanning.scan(state.snapshot, request, LocalRunner(), load_hidden)

    def lookupDF(
        self,
        keys: Mapping[str, Any] | None = None,
        /,
        *,
        columns: Sequence[str] | None = None,
        version: int | str | None = None,
        timestamp: Timestamp | None = None,
        metadata: Metadata = (),
        **by: Any,
    ) -> DataFrame:
        """The same rows as a DataFrame, in no particular order: files in which an index finds none are not read.

        Like a scan, it reads the newest version unless told otherwise.
        """
        spark, state = self._session(), self._at(version, timestamp)
        where = condition_of(state.snapshot, {**(keys or {}), **by})
        request = Request(columns, Condition(below(where, named), render(where), where), metadata)
        return scanning.scan(state.snapshot, request, SparkRunner(spark), load_hidden, self._pruners(state))

    def _pruners(self, state: DeltaState, also: Predicate = ALWAYS) -> tuple[Pruner, ...]:
        """What ids and indexes offer to whoever reads a version; `also` is true of every row that is wanted."""
        if state.snapshot.identity is None:
            return ()
        by_id = ByRowId(lambda: self._pins.at(state).reader, also)
        if not self._has_indexes(state):
            return (by_id,)

        def opened() -> Indexes:
            return reindexing.opened(self._pins.at(state), self._seen())

        return (by_id, ByIndex(opened, also))

    def _reindex(self) -> None:
        """Refresh the indexes that ask for it after every write; one that fails is behind, and no less right."""
        if not self._has_indexes(self._seen()):
            return
        try:
            reindexing.follow(self._state(), self._caller(), self._pins.at)
        except (TableError, PySparkException, pa.ArrowException, OSError) as error:
            _log.warning("the write is committed, and an index is behind: %s", error)

    def _newest(self) -> Indexes:
        return reindexing.opened(self._pins.at(self._state()))

    def _info(self, name: str) -> IndexInfo:
        state = self._state()
        return reindexing.info_of(reindexing.indexes_of(state).named(name), state)

    def _has_indexes(self, state: DeltaState) -> bool:
        tracked = state.snapshot.identity is not None
        return tracked and any(name.startswith(DOMAIN) for s in (state, self._seen()) for name in s.domains)

    @abstractmethod
    def _seen(self) -> DeltaState:
        """The newest version that was seen, without a look at the log."""


def by_index(indexes: Indexes, where: Predicate, columns: Sequence[str] | None, metadata: Metadata) -> pa.Table | None:
    """Rows through an index; None where a scan is better or the only way."""
    choice, _ = indexes.choose(where)
    if choice is None or not pays(choice.hits, indexes.rows()):
        return None
    try:
        files, positions = indexes.places(choice)
    except TableError:  # of a block that only now was read, or of ids that are there twice
        return None
    if choice.asked.left:
        left = conjunction(choice.asked.left)
        used = sorted({column[0] for column in columns_of(left)})
        kept = matches(indexes.reader.take_at(files, positions, used), left).to_numpy(zero_copy_only=False)
        files, positions = files[kept], positions[kept]
    return indexes.reader.take_at(files, positions, columns, metadata)

"""Indexes of a table, for users: make, refresh, drop; and rows by their keys.

1. `lookup` reads the version that the table object has pinned, as `take` does; `refresh()` moves it.
2. What comes out is what a scan with the same condition gives, in the order of a scan, each row once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame

from holdfast.engines.local.scan import LocalRunner
from holdfast.engines.spark.conditions import below
from holdfast.engines.spark.scan.native import SparkRunner
from holdfast.engines.spark.types import named
from holdfast.errors import Damaged, NoRowIdentity, TableError
from holdfast.index.keyed import condition_of
from holdfast.index.search import Indexes, pays
from holdfast.plan.scan.request import Condition, Request
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate, columns_of, conjunction
from holdfast.predicate.render import render
from holdfast.verbs.index import maintain as reindexing
from holdfast.verbs.index.lookup import LookupVerbs, Metadata, Timestamp
from holdfast.verbs.index.maintain import IndexInfo, IndexStats, Verified
from holdfast.verbs.index.pinned_readers import Pin
from holdfast.verbs.open.delta import open_delta


class IndexVerbs(LookupVerbs):
    """Verbs about indexes."""

    def createIndex(
        self, columns: str | Sequence[str], *, name: str | None = None, kind: str = "btree", **options: Any
    ) -> IndexInfo:
        """Index one or several columns, so that `lookup` and scans find rows by them.

        `kind` is btree, or bitmap for columns with few different values. The name is made of the columns' unless
        given. With `synchronous=True` writes by Holdfast are followed by a refresh of the index.
        """
        asked = [columns] if isinstance(columns, str) else list(columns)
        index = reindexing.create(self.handle.newest(), asked, name, kind, options, self._caller())
        return self._info(index.name)

    def refreshIndex(self, name: str) -> IndexInfo:
        """Index what was written since; costs what was written, and commits nothing where that is nothing."""
        reindexing.refresh_index(self.handle.newest(), name, self._caller(), self.handle.pins.at)
        return self._info(name)

    def rebuildIndex(self, name: str) -> IndexInfo:
        """Make an index anew from every row, in one commit; until then the old one answers."""
        reindexing.rebuild(self.handle.newest(), name, self._caller())
        return self._info(name)

    def renameIndex(self, name: str, newName: str) -> IndexInfo:
        """Give an index another name; nothing of it is written again."""
        reindexing.rename(self.handle.newest(), name, newName, self._caller())
        return self._info(newName)

    def dropIndex(self, name: str, ifExists: bool = False) -> bool:
        """Take an index away; its files go with a later vacuum. False where there was none and `ifExists` allows it."""
        return reindexing.drop(self.handle.newest(), name, self._caller(), if_exists=ifExists)

    def indexes(self) -> list[IndexInfo]:
        """The indexes of the newest version."""
        state = self.handle.newest()
        return [reindexing.info_of(index, state) for index in reindexing.indexes_of(state).indexes.values()]

    def indexStats(self, name: str, sample: int | None = None) -> IndexStats:
        """What an index holds and what it leaves to be scanned; the share of dead entries is by a sample."""
        pin = self.handle.pins.at(self.handle.newest())
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
        state = self.handle.at(version, timestamp) if pin is None else pin.state
        where = condition_of(state.snapshot, {**(keys or {}), **by})
        if pin is not None and self.handle.has_indexes(state):
            found = by_index(reindexing.opened(pin, self.handle.state), where, columns, metadata)
            if found is not None:
                return found
        request = Request(columns, Condition(None, render(where), where), metadata)
        return open_delta(state).scan(request, LocalRunner())

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
        spark, state = self.handle.session(), self.handle.at(version, timestamp)
        where = condition_of(state.snapshot, {**(keys or {}), **by})
        request = Request(columns, Condition(below(where, named), render(where), where), metadata)
        return self.handle.opened(state).scan(request, SparkRunner(spark))

    def _newest(self) -> Indexes:
        return reindexing.opened(self.handle.pins.at(self.handle.newest()))

    def _info(self, name: str) -> IndexInfo:
        state = self.handle.newest()
        return reindexing.info_of(reindexing.indexes_of(state).named(name), state)


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

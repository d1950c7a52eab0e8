"""The verbs that tables of both formats have, each with one signature, one result and one documentation.

1. A verb decides nothing: it calls a function of `holdfast.verbs`, or asks the handle where the formats differ.
2. A table reads the newest version at each call, unless a version or timestamp is given.
3. Without a Spark session everything that needs only a log or metadata works, and rows are read by `toArrow`.
"""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from holdfast.index.scalar.kind import ENTRIES
from holdfast.model.publication import Publication
from holdfast.plan.changefeed.biography import Biography
from holdfast.plan.maintain.compact import HIDDEN_SHARE, TARGET_ROWS
from holdfast.table.deprecated import renamed_arguments
from holdfast.verbs.changefeed.change_set import ChangeSet, When, query_of
from holdfast.verbs.commit.retry import Retry
from holdfast.verbs.define.alteration import Columns, TypeLike
from holdfast.verbs.dml import verbs as dml
from holdfast.verbs.dml.assignments import Sets
from holdfast.verbs.dml.delete_update import Changed, ExecutionContext
from holdfast.verbs.dml.merge import DeltaMergeBuilder, Duplicates
from holdfast.verbs.dml.write import WriteOptions, Written
from holdfast.verbs.index import lookup as looking_up
from holdfast.verbs.index.maintain import IndexInfo, Verified
from holdfast.verbs.maintain.check import CheckReport
from holdfast.verbs.maintain.lease import Lease
from holdfast.verbs.maintain.optimize import Compacted, DeltaOptimizeBuilder
from holdfast.verbs.maintain.restore import restore_table
from holdfast.verbs.open.handle import Handle, Metadata, Timestamp, Version
from holdfast.verbs.publish.mutation import Published
from holdfast.verbs.publish.publish import publish
from holdfast.verbs.read import verbs as reading
from holdfast.verbs.read.explain import Explanation
from holdfast.verbs.read.take import RowIds

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


class Table:
    """A table of either format: a handle, and the name that conditions call the table by."""

    handle: Handle

    def __init__(self, handle: Handle, alias: str | None = None) -> None:
        self.handle = handle  # for Holdfast's own packages, as is the next
        self.alias_name = alias

    def __repr__(self) -> str:
        state = self.handle.state
        return f"{type(self).__name__}({state.snapshot.location.url}, version {state.version})"

    @property
    def version(self) -> int:
        """The newest version: a number in Delta, the id of the current snapshot in Iceberg (-1 where there is none)."""
        return self.handle.newest().version

    def alias(self, aliasName: str) -> Self:
        """The same table under a name that conditions can use."""
        return type(self)(self.handle, aliasName)

    # Reading

    def toDF(self) -> DataFrame:
        """All rows and columns of the newest version."""
        df = self.scan()
        return df.alias(self.alias_name) if self.alias_name else df

    def scan(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> DataFrame:
        """Rows as a DataFrame.

        `where` is SQL text or a Column; what of it is understood prunes files. `metadata` names columns such as
        `_row_id`, or maps them to other names: `{"_row_id": "rid"}`. A version is a number, or a name: of a pin in
        Delta, of a branch or tag in Iceberg.
        """
        return reading.scan(self.handle, columns, where, version, timestamp, metadata)

    def toArrow(
        self,
        columns: Sequence[str] | None = None,
        where: str | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> pa.Table:
        """Rows as an Arrow table, read in this process without Spark: for small requests."""
        return reading.to_arrow(self.handle, columns, where, version, timestamp, metadata)

    def explain(
        self,
        columns: Sequence[str] | None = None,
        where: str | Column | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> Explanation:
        """What `scan` with the same arguments would read, and why; printing it shows it."""
        return reading.explain(self.handle, columns, where, version, timestamp, metadata)

    def take(
        self,
        row_ids: RowIds,
        columns: Sequence[str] | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
        missing: str = "error",
    ) -> pa.Table:
        """The rows with these ids, in the order of the ids, as an Arrow table; an id that is given twice comes twice.

        Ids that no live row has are an error, or with `missing="skip"` left out, or with `missing="null"` rows of
        nulls. Reads in this process, without Spark; `metadata` names columns as for `toArrow`.
        """
        return looking_up.take(self.handle, row_ids, columns, version, timestamp, metadata, missing)

    def lookup(
        self,
        keys: Mapping[str, Any] | None = None,
        /,
        *,
        columns: Sequence[str] | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
        **by: Any,
    ) -> pa.Table:
        """Rows by the values of columns: `lookup(id=42)`, `lookup(id=[1, 2])`, `lookup(day=between(a, b), kind="x")`.

        Reads in this process, through an index where there is one that helps, else by a scan; rows come in the order of
        a scan, each once. A column that is called like an argument goes into `keys`: `lookup({"version": 3})`.
        """
        return looking_up.lookup(self.handle, {**(keys or {}), **by}, columns, version, timestamp, metadata)

    def history(self, limit: int | None = None) -> DataFrame:
        """The commits of the table, newest first."""
        return self.handle.session().createDataFrame(self.historyArrow(limit))

    def historyArrow(self, limit: int | None = None) -> pa.Table:
        """The commits of the table, newest first, as an Arrow table."""
        return self.handle.history(limit)

    # Changing rows

    def append(
        self,
        rows: DataFrame | pa.Table,
        *,
        mergeSchema: bool = False,
        widenTypes: bool = False,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Add rows, from a DataFrame or, without Spark, an Arrow table.

        `mergeSchema` adds columns the table lacks, `widenTypes` widens the types of those it has, in the same commit.
        `txn` names an application and its version: one the table has seen is not written again.
        """
        caller = self._caller(txn=txn, userMetadata=userMetadata)
        how = WriteOptions(add_columns=mergeSchema, widen_types=widenTypes, commit_options=caller.commit_options)
        return dml.write(self.handle, rows, how, caller)

    def overwrite(
        self,
        rows: DataFrame | pa.Table,
        *,
        replaceWhere: str | Column | None = None,
        replaceUsing: str | Sequence[str] | None = None,
        replaceOn: str | Column | None = None,
        partitionOverwriteMode: str = "static",
        mode: str | None = None,
        mergeSchema: bool = False,
        widenTypes: bool = False,
        overwriteSchema: bool = False,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Put rows in the place of all, of those that satisfy `replaceWhere`, or (dynamic) of their own partitions.

        Or of those they match: by equal values in the columns `replaceUsing`, or by a condition `replaceOn`, in which
        the table has the name that `alias` gave it; these two and `overwriteSchema` are for Delta tables. `mode` is
        the way in which rows are deleted that `replaceWhere` names.
        """
        return dml.overwrite(
            self.handle,
            rows,
            self._caller(mode, txn=txn, userMetadata=userMetadata),
            replace_where=replaceWhere,
            replace_using=replaceUsing,
            replace_on=replaceOn,
            partition_overwrite_mode=partitionOverwriteMode,
            add_columns=mergeSchema,
            widen_types=widenTypes,
            replace_schema=overwriteSchema,
        )

    def delete(
        self,
        condition: str | Column | None = None,
        *,
        mode: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Changed:
        """Delete the rows that satisfy a condition; all without one.

        `mode` is merge-on-read, copy-on-write or auto; without it, what the table does (`delta.enableDeletionVectors`,
        `write.delete.mode`). `isolation` is Serializable, WriteSerializable or SnapshotIsolation; without it, what the
        table asks for (`delta.isolationLevel`). `retry` is how often to try when another writer comes first, a number
        or a `Retry`.
        """
        return dml.delete(self.handle, condition, self._caller(mode, isolation, txn, userMetadata), retry)

    def update(
        self,
        condition: str | Column | None = None,
        set: Sets | None = None,
        *,
        mode: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Changed:
        """Set columns of the rows that satisfy a condition, as in `update("id = 1", {"n": "n + 1"})`.

        A value is SQL text or a Column; a number, a bool or None stands for itself.
        """
        return dml.update(self.handle, condition, set, self._caller(mode, isolation, txn, userMetadata), retry)

    def merge(
        self,
        source: DataFrame | pa.Table,
        condition: str | Column,
        *,
        mode: str | None = None,
        duplicates: str = "error",
        orderBy: str | None = None,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> DeltaMergeBuilder:
        """Begin a merge of a source into the table, as in delta-spark: clauses follow, then `execute()`.

        Several rows of the source with one key are an error, or the `first` or `last` by the column `orderBy` counts.
        """
        caller = self._caller(mode, isolation, txn, userMetadata)
        return dml.merge(self.handle, source, condition, caller, Duplicates(duplicates, orderBy), retry)

    @property
    def plan(self) -> dml.Plans:
        """What verbs that run at once would do: `table.plan.delete(...)`, `table.plan.update(...)`."""
        return dml.Plans(self.handle, self.alias_name)

    # Changes

    def changes(
        self,
        start: When | None = None,
        end: When | None = None,
        *,
        kind: str = "full-delta",
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
        resume: str | None = None,
    ) -> ChangeSet:
        """What commits `start` to `end` did to rows, by row id, both included.

        Of a Delta table they are versions or timestamps, and `resume` goes on from a token; of an Iceberg table they
        are the ids of snapshots. `kind` is `append-only`, `upsert`, `min-delta` or `full-delta`. `includeDeleted` adds
        rows that were deleted again (append-only) or deleted rows (upsert); `dropUnchanged` leaves out updates that
        changed no value (min-delta). `keys` pairs rows by columns where the table has no ids.
        """
        query = query_of(kind, keys, include_deleted=includeDeleted, drop_unchanged=dropUnchanged)
        return self.handle.changes(start, end, query, resume)

    def biography(self, rowId: int) -> Biography:
        """What happened to a row: born, changed, moved, deleted, restored, purged; printing it shows a timeline.

        Reads the log, and of data files only those the row may have been in, ids and versions alone. Of an Iceberg
        table versions are the sequence numbers of snapshots.
        """
        return self.handle.biography(rowId)

    def publish(self, target: Table, *, upto: int | None = None, afresh: bool = False) -> Published:
        """Bring what another table lacks of this one's rows into it, in one commit, under the ids they have here.

        Everything up to the version `upto` is brought, without it up to the newest. The target knows what was published
        before, so only rows that changed since are read and written. `afresh` puts all rows in the place of whatever
        is there.
        """
        return publish(self.handle, target, upto=upto, afresh=afresh)

    def published(self) -> Publication | None:
        """Which table's rows were published into this one, and how far; None where none were."""
        return self.handle.open().publication

    # Columns and properties

    def addColumns(self, columns: Columns) -> Written:
        """Add columns, as (name, type) or (name, type, comment) or a mapping of names to types; `s.x` adds to a struct.

        Rows that are there are null in them.
        """
        return self.handle.alter.add_columns(columns)

    @renamed_arguments(old="name", new="newName")
    def renameColumn(self, name: str, newName: str) -> Written:
        """Give a column another name; in a struct: `renameColumn("s.a", "b")`. A Delta table needs column mapping."""
        return self.handle.alter.rename_column(name, newName)

    def dropColumn(self, name: str) -> Written:
        """Remove a column; no file is rewritten. A Delta table needs column mapping."""
        return self.handle.alter.drop_columns([name])

    def changeColumnType(self, name: str, dataType: TypeLike) -> Written:
        """Widen the type of a column; no file is rewritten. A Delta table needs `delta.enableTypeWidening=true`."""
        return self.handle.alter.redefine_column(name, type_=dataType)

    def commentColumn(self, name: str, comment: str | None) -> Written:
        """Set a column's comment; None removes it."""
        return self.handle.alter.comment_column(name, comment)

    def setProperties(self, properties: Mapping[str, str]) -> Written:
        """Set properties of the table.

        Of a Delta table a misspelt one is refused with the nearest name; of an Iceberg table `format-version` upgrades
        it.
        """
        return self.handle.alter.set_properties(properties)

    def unsetProperties(self, names: Sequence[str], ifExists: bool = False) -> Written:
        """Remove properties, so that their defaults count again; one that is not set is refused unless `ifExists`."""
        return self.handle.alter.unset_properties(names, if_exists=ifExists)

    # Indexes

    def createIndex(
        self, columns: str | Sequence[str], *, name: str | None = None, kind: str = ENTRIES, **options: Any
    ) -> IndexInfo:
        """Index one or several columns, so that `lookup`, and scans of a Delta table, find rows by them.

        `kind` is btree, or bitmap for columns with few different values, or of a Delta table vector. The name is made
        of the columns' unless given. With `synchronous=True` writes to a Delta table refresh the index.
        """
        names = [columns] if isinstance(columns, str) else list(columns)
        return self.handle.registry.create(names, name, kind, options)

    def refreshIndex(self, name: str) -> IndexInfo:
        """Index what was written since; costs what was written, and commits nothing where that is nothing."""
        return self.handle.registry.refresh(name)

    def rebuildIndex(self, name: str) -> IndexInfo:
        """Make an index anew from every row, in one commit; until then the old one answers."""
        return self.handle.registry.rebuild(name)

    def dropIndex(self, name: str, ifExists: bool = False) -> bool:
        """Remove an index; False where there was none and `ifExists` allows it.

        A later vacuum of a Delta table deletes its files; those of an Iceberg table stay.
        """
        return self.handle.registry.drop(name, if_exists=ifExists)

    def indexes(self) -> list[IndexInfo]:
        """The indexes of the newest version."""
        return self.handle.registry.infos()

    def verifyIndex(self, name: str, sample: int | None = None) -> Verified:
        """Compare an index with its table: checksums, entries with rows, rows with entries; all, or some of them."""
        return self.handle.registry.verify(name, sample)

    # Maintenance

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
        """Begin a compaction, as in delta-spark: `optimize().where(...).executeCompaction()`.

        Files below both targets (`targetBytes` is the table's own unless given) are written together, and a file anew
        that hides more than a share of its rows. A clustered table is put in order instead: what is not yet, or with
        `full` all of it. `maxBytes` bounds what is written. Row ids and versions stay.

        `lease` is for several workers at once: each leaves the others what they are at. It is the name of a worker, or
        a `Lease` that also says for how long; with True the name is made up.
        """
        return dml.optimize(
            self.handle,
            self._caller(),
            full=full,
            target_rows=targetRows,
            target_bytes=targetBytes,
            threshold=materializeDeletionsThreshold,
            max_bytes=maxBytes,
            lease=lease,
        )

    def purge(self) -> Compacted:
        """Write files that hide rows anew, so that readers without deletion vectors see the same rows."""
        return dml.purge(self.handle, self._caller())

    def check(self, *, repair: bool = False, deep: bool = True, dropMissing: bool = False) -> CheckReport:
        """Check the log or the metadata, the files and every row id; printing the report shows what was found.

        Of an Iceberg table the snapshots of all branches and tags are checked. `deep` reads footers and columns of row
        ids, and nothing else of the data. `repair` does what is safe: it never touches a data file. `dropMissing` lets
        it remove files from the table that are not there any more.
        """
        return self.handle.check(repair=repair, deep=deep, drop_missing=dropMissing)

    def restoreToVersion(self, version: int | str) -> Changed:
        """Bring back the rows of an earlier version, each with the id and version it had then.

        A version is a number, or a name: of a pin in Delta, of a branch or tag in Iceberg. Columns and properties of a
        Delta table come back too; those of an Iceberg table stay.
        """
        return restore_table(self.handle, version=version)

    def restoreToTimestamp(self, timestamp: str | datetime.datetime) -> Changed:
        """Bring back the rows of the version that was current at a time."""
        return restore_table(self.handle, timestamp=timestamp)

    def _caller(
        self,
        mode: str | None = None,
        isolation: str | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> ExecutionContext:
        return self.handle.caller(self.alias_name, mode, dml.commit_options(txn, userMetadata), isolation)

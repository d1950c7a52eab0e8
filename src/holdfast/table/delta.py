"""A Delta table, for users: the verbs of every table, and those that only Delta has.

Names and behaviour follow delta-spark's `DeltaTable` wherever that has them.

1. A table reads the newest version at each call, unless a version or timestamp is given; refreshing costs the new
   commits only.
2. Rows are looked up in one version until a verb of the same object, or `refresh()`, moves to the newest.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from holdfast.env import system
from holdfast.formats.delta import detail
from holdfast.formats.delta.history.pins import pins_of
from holdfast.formats.delta.state import DeltaState, is_table, load
from holdfast.formats.delta.symlink_manifests import generate
from holdfast.model.versions import Versions
from holdfast.storage.open import open_location
from holdfast.table.table import Table
from holdfast.verbs.changefeed.change_set import ChangeSet, When
from holdfast.verbs.changefeed.delta import change_feed
from holdfast.verbs.commit.retry import Retry
from holdfast.verbs.commit.transaction import Transaction, begin, transact
from holdfast.verbs.define import convert as converting
from holdfast.verbs.define.backfill import BATCH_FILES
from holdfast.verbs.define.builder import PLAIN, CreateMode, DeltaTableBuilder
from holdfast.verbs.define.clone import CloneOptions, clone_to
from holdfast.verbs.define.create import table_builder
from holdfast.verbs.define.drop_feature import Dropped, drop_feature_support
from holdfast.verbs.define.row_tracking import Report, Tracked, enable_row_tracking
from holdfast.verbs.dml.write import Written
from holdfast.verbs.index import lookup as looking_up
from holdfast.verbs.index import nearest as near
from holdfast.verbs.index.maintain import IndexInfo, IndexStats
from holdfast.verbs.maintain import erase as erasing
from holdfast.verbs.maintain.erasure import Erased, ErasureStatus
from holdfast.verbs.maintain.log_compaction import LogCompaction, compact_log
from holdfast.verbs.maintain.vacuum import readable_versions, vacuum
from holdfast.verbs.maintain.vacuum_files import Vacuumed
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import Metadata, Timestamp, Version
from holdfast.verbs.open.moment import moment_ms
from holdfast.verbs.open.names import place_of
from holdfast.verbs.open.spark_values import stated_in_text
from holdfast.verbs.open.versions import pin, unpin
from holdfast.verbs.publish.delta import create_like
from holdfast.verbs.read.take import RowIds
from holdfast.verbs.stream.streams import merge_stream, stream_changes

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.types import StructType

    from holdfast.verbs.stream.batches import Clauses, Foreach

_BY_PATH = re.compile(r"(?:delta\.)?`(.+)`", re.DOTALL)


class DeltaTable(Table):
    """A Delta table at a path."""

    handle: DeltaHandle

    @classmethod
    def forPath(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        hadoopConf: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        allow_outside: bool | str | Sequence[str] = False,
    ) -> DeltaTable:
        """Open the table at a path.

        `storage_options` (or `hadoopConf`, with its `fs.*` keys) say how to reach it; `allow_outside` are
        directories outside of it, below which its log may refer to files, or True for anywhere; the files of a shallow
        clone's source need none. Without a session, rows are read by `toArrow`.
        """
        options = {**(hadoopConf or {}), **(storage_options or {})}
        location = open_location(fspath(path), storage_options=options or None, allow_outside=allow_outside)
        return cls(DeltaHandle(sparkSession, load(location)))

    @classmethod
    def forName(
        cls,
        sparkSession: SparkSession | None,
        tableOrViewName: str,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Open a table by its name in Spark's catalog, or by its path, as in ``delta.`/path/to/table` ``."""
        place = place_of(sparkSession, tableOrViewName)
        return cls.forPath(sparkSession, place, storage_options=storage_options)

    @classmethod
    def isDeltaTable(
        cls, sparkSession: SparkSession | None, identifier: str, *, storage_options: Mapping[str, str] | None = None
    ) -> bool:
        """Whether there is a Delta table at this path."""
        by_path = _BY_PATH.fullmatch(identifier.strip())
        return is_table(open_location(by_path[1] if by_path else identifier, storage_options=storage_options))

    @classmethod
    def convertToDelta(
        cls,
        sparkSession: SparkSession | None,
        identifier: str,
        partitionSchema: str | StructType | None = None,
        *,
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table of the Parquet files in a directory, "parquet.`/path`"; none of them is rewritten.

        Directories as Hive makes them need `partitionSchema`, such as "day date, n int". Rows are tracked from the
        first version on, unless `properties` say otherwise.
        """
        settings = dict(properties or {})
        plain = settings.pop(PLAIN, "false").lower() == "true"
        location = open_location(converting.path_of(identifier), storage_options=storage_options)
        partitions = converting.partitions_of(partitionSchema)
        return cls(DeltaHandle(sparkSession, converting.convert(location, partitions, settings, system(), plain=plain)))

    @classmethod
    def create(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to be created; refused where there is one."""
        return cls._builder(sparkSession, CreateMode.CREATE)

    @classmethod
    def createIfNotExists(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to be created where there is none."""
        return cls._builder(sparkSession, CreateMode.CREATE_IF_NOT_EXISTS)

    @classmethod
    def replace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to take the place of one that is there, without its rows."""
        return cls._builder(sparkSession, CreateMode.REPLACE)

    @classmethod
    def createOrReplace(cls, sparkSession: SparkSession | None = None) -> DeltaTableBuilder[DeltaTable]:
        """Describe a table to be created, or to take the place of one that is there."""
        return cls._builder(sparkSession, CreateMode.CREATE_OR_REPLACE)

    @classmethod
    def createLike(
        cls,
        sparkSession: SparkSession | None,
        path: str | PathLike[str],
        table: Table,
        *,
        partitionedBy: Sequence[str] = (),
        properties: Mapping[str, str] | None = None,
        storage_options: Mapping[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table with the columns of another one, of either format; `table.publish(...)` brings the rows."""
        columns = table.handle.newest().snapshot.schema
        create_like(path, columns, partitionedBy, properties or {}, storage_options)
        return cls.forPath(sparkSession, path, storage_options=storage_options)

    def describe(self) -> detail.Description:
        """What the table is, which settings it works by and who can open it; printing it shows it."""
        return detail.describe(self.handle.newest())

    def detail(self) -> DataFrame:
        """One row that describes the table."""
        return self.handle.session().createDataFrame(self.detailArrow())

    def detailArrow(self) -> pa.Table:
        """One row that describes the table, as an Arrow table."""
        return detail.detail(self.handle.newest())

    # Reading

    def takeDF(
        self,
        row_ids: RowIds | DataFrame,
        columns: Sequence[str] | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
        missing: str = "error",
    ) -> DataFrame:
        """The rows with these ids as a DataFrame, for many of them: each row once, in no particular order.

        Ids may come as a DataFrame of one column, of which only a bitmap reaches this process. Ids that no live row
        has are an error, or with `missing="skip"` left out.
        """
        return looking_up.take_frame(self.handle, row_ids, columns, version, timestamp, metadata, missing)

    def lookupDF(
        self,
        keys: Mapping[str, Any] | None = None,
        /,
        *,
        columns: Sequence[str] | None = None,
        version: Version = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
        **by: Any,
    ) -> DataFrame:
        """The rows of `lookup` as a DataFrame, in no particular order: files in which an index finds none are not read.

        Like a scan, it reads the newest version unless told otherwise.
        """
        return looking_up.lookup_frame(self.handle, {**(keys or {}), **by}, columns, version, timestamp, metadata)

    def refresh(self) -> int:
        """Look rows up in the newest version from now on; gives the version."""
        self.handle.written()
        return self.handle.pinned().state.version

    def nearest(
        self,
        column: str,
        vector: near.Vectors,
        k: int = 10,
        where: str | None = None,
        version: Version = None,
        nprobe: int | None = None,
        refine: int | None = None,
        columns: Sequence[str] | None = None,
        metric: str | None = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> pa.Table:
        """The k rows whose vectors are nearest, with their `_distance`, nearest first; of those that satisfy `where`.

        Several vectors are answered together: `_query` then says which one a row is near to, counted from zero.
        `metric` is l2, cosine or dot; without it that of the index, else l2. `nprobe` is how many lists of an index are
        visited, `refine` how many candidates for each row asked for are compared exactly.
        """
        ask = near.NearestCall(column, vector, k, metric, nprobe, refine)
        return near.nearest_rows(self.handle, ask, where, version, timestamp, columns, metadata)

    def nearestDF(
        self,
        column: str,
        vector: near.Vectors,
        k: int = 10,
        where: str | Column | None = None,
        version: Version = None,
        nprobe: int | None = None,
        refine: int | None = None,
        columns: Sequence[str] | None = None,
        metric: str | None = None,
        timestamp: Timestamp = None,
        metadata: Metadata = (),
    ) -> DataFrame:
        """The rows of `nearest` as a DataFrame: Spark evaluates `where` and reads rows that no index answers for."""
        ask = near.NearestCall(column, vector, k, metric, nprobe, refine)
        return near.nearest_frame(self.handle, ask, where, version, timestamp, columns, metadata)

    def explainNearest(
        self,
        column: str,
        vector: near.Vectors,
        k: int = 10,
        version: Version = None,
        nprobe: int | None = None,
        refine: int | None = None,
        metric: str | None = None,
        timestamp: Timestamp = None,
    ) -> near.NearestPlan:
        """How `nearest` with the same arguments would find its answer, and why not otherwise."""
        ask = near.NearestCall(column, vector, k, metric, nprobe, refine)
        return near.explain_nearest(self.handle, ask, version, timestamp)

    def recall(
        self,
        column: str,
        sample: int = 100,
        k: int = 10,
        nprobe: int | None = None,
        refine: int | None = None,
        metric: str | None = None,
    ) -> float:
        """The share of the k nearest rows that `nearest` finds, by the vectors of some rows, each without itself.

        Every row is read once for comparison: on Spark where the table was opened with a session.
        """
        return near.recall(self.handle, column, sample, k, metric, nprobe, refine)

    def renameIndex(self, name: str, newName: str) -> IndexInfo:
        """Give an index another name; nothing of it is written again."""
        return self.handle.registry.rename(name, newName)

    def indexStats(self, name: str, sample: int | None = None) -> IndexStats:
        """What an index holds and what it leaves to be scanned; the share of dead entries is by a sample."""
        return self.handle.registry.stats(name, sample)

    # Transactions and streams

    def transaction(
        self,
        *,
        isolation: str | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Transaction:
        """Begin a transaction: `with table.transaction() as t:`, and in the block `t.append`, `t.delete`, `t.update`,
        `t.merge`; a later verb sees what the earlier ones did, and all of it is committed at once at the end.

        `isolation`, `txn` and `userMetadata` are those of a single verb.
        """
        return begin(self.handle, self._caller(None, isolation, txn, userMetadata))

    def transact(
        self,
        work: Callable[[Transaction], object],
        *,
        isolation: str | None = None,
        retry: int | Retry | None = None,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Run `work(t)` in a transaction, and again on the table as it then is when another writer came first.

        `retry` is how often to try in all, a number or a `Retry`.
        """
        return transact(self.handle, work, self._caller(None, isolation, txn, userMetadata), retry)

    def changeFeed(self, start: When, end: When | None = None) -> ChangeSet:
        """The change data feed of `start` to `end`, both included, as `readChangeFeed` gives it.

        Needs `delta.enableChangeDataFeed=true` at every version asked for; `changes` does not.
        """
        return change_feed(self.handle.newest(), start, end, zone=self.handle.zone, engine=self.handle.engine)

    def streamChanges(
        self,
        kind: str,
        foreach: Foreach,
        *,
        checkpointLocation: str,
        startingVersion: int | str | None = None,
        startingTimestamp: str | None = None,
        maxFilesPerTrigger: int | None = None,
        maxBytesPerTrigger: int | None = None,
        keys: Sequence[str] = (),
        includeDeleted: bool = False,
        dropUnchanged: bool = False,
        queryName: str | None = None,
        availableNow: bool = False,
        processingTime: str | None = None,
    ) -> StreamingQuery:
        """Call `foreach(changes, batch)` with a DataFrame of what happened, batch after batch, and give the query.

        `kind` is one of `changes()`, or `feed`. Without a start the rows that are there come first, as inserts. A batch
        that was given and not noted in the checkpoint is given again, with the same id and the same changes: a write
        with `txn=(name, batch)` makes that once. `availableNow` ends the query with what is there now.
        """
        options = {
            "startingVersion": startingVersion,
            "startingTimestamp": startingTimestamp,
            "maxFilesPerTrigger": maxFilesPerTrigger,
            "maxBytesPerTrigger": maxBytesPerTrigger,
            "keys": ",".join(keys) or None,
            "includeDeleted": "true" if includeDeleted else None,
            "dropUnchanged": "true" if dropUnchanged else None,
        }
        return stream_changes(
            self.handle,
            kind,
            foreach,
            options,
            checkpoint=checkpointLocation,
            query_name=queryName,
            available_now=availableNow,
            processing_time=processingTime,
        )

    def mergeStream(
        self,
        condition: str | Column,
        clauses: Clauses | None = None,
        *,
        appId: str,
        mode: str | None = None,
        duplicates: str = "error",
        orderBy: str | None = None,
        isolation: str | None = None,
        retry: int = 3,
    ) -> Callable[[DataFrame, int], None]:
        """A function for `writeStream.foreachBatch` that merges each batch into the table, once.

        `clauses` takes the merge and adds what is to be done; without it, matched rows are updated and others inserted.
        `appId` names the stream: the table notes it with the id of the last batch, so keep it as long as the
        checkpoint, and take another with a new one.
        """
        return merge_stream(
            self.handle,
            condition,
            clauses,
            app=appId,
            alias=self.alias_name,
            mode=mode,
            duplicates=duplicates,
            order_by=orderBy,
            isolation=isolation,
            retry=retry,
        )

    # What the table is

    def setColumnDefault(self, name: str, expression: str) -> Written:
        """Set a column's default, in SQL, for rows to come that bring nothing for it; rows that are there stay."""
        return self.handle.alter.default_column(name, expression)

    def dropColumnDefault(self, name: str) -> Written:
        """Remove a column's default: it is null where rows to come bring nothing for it."""
        return self.handle.alter.default_column(name, None)

    def addConstraint(self, name: str, expression: str | Column) -> Written:
        """Demand that an expression is true of every row, those that are there included; null breaks it too."""
        text = stated_in_text(expression, "addConstraint()")
        return self.handle.alter.add_constraint(name, text, zone=self.handle.zone, engine=self.handle.engine)

    def dropConstraint(self, name: str, ifExists: bool = False) -> Written:
        """Remove a constraint."""
        return self.handle.alter.drop_constraint(name, if_exists=ifExists)

    def clusterBy(self, *columns: str) -> Written:
        """Cluster rows written from now on by these columns; by none when none is named."""
        return self.handle.alter.cluster_by(columns)

    def addFeatureSupport(self, featureName: str) -> Written:
        """Let the table have a feature, with the protocol it needs."""
        return self.handle.alter.add_feature_support(featureName)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> Dropped:
        """Remove a feature from the table, with all its traces, so that readers without it can read the table.

        Old versions stay, and the table asks its writers to protect them (`checkpointProtection`); with
        `truncateHistory` they go, once they are old enough. Row ids go with `rowTracking`, and indexes with them.
        """
        return drop_feature_support(self.handle.newest(), featureName, self._caller(), truncate=bool(truncateHistory))

    def enableRowTracking(self, batchFiles: int = BATCH_FILES, progress: Report | None = None) -> Tracked:
        """Give every row an id, while others go on writing.

        Files without ids get them in commits of `batchFiles`; `progress` is told of each. Stopped anywhere, it is
        called again to go on.
        """
        return enable_row_tracking(self.handle.newest(), self.handle.env, batch_files=batchFiles, progress=progress)

    def compactLog(self, start: int | None = None, end: int | None = None) -> LogCompaction | None:
        """Write the commits of some versions, by default all since the last checkpoint, into one file of the log."""
        return compact_log(self.handle.newest(), start=start, end=end)

    # Maintenance

    def vacuum(
        self,
        retentionHours: float | None = None,
        *,
        dryRun: bool = False,
        lite: bool = False,
        enforceRetention: bool = True,
    ) -> Vacuumed:
        """Delete files that no version within the retention needs, and tell which older versions that takes.

        The retention is the table's `delta.deletedFileRetentionDuration` (a week) unless given; a shorter one needs
        `enforceRetention=False`. `lite` looks only at what commits since the last vacuum removed, without listing the
        directory. `dryRun` deletes nothing.
        """
        return vacuum(
            self.handle.newest(),
            self.handle.env,
            retention_hours=retentionHours,
            dry_run=dryRun,
            lite=lite,
            enforced=enforceRetention,
        )

    def readableVersions(self) -> Versions:
        """The versions that can be read right now: the log describes them and their files are there."""
        return readable_versions(self.handle.newest())

    def pin(self, version: int | None, name: str) -> int:
        """Keep a version, the newest by default, from being vacuumed or cleaned up; gives the version."""
        return pin(self.handle.newest(), version, name, self.handle.env)

    def unpin(self, name: str) -> None:
        """Let go of a pinned version."""
        unpin(self.handle.newest(), name, self.handle.env)

    def pins(self) -> dict[str, int]:
        """The pinned versions, by name."""
        return dict(pins_of(self.handle.newest()))

    def erase(self, condition: str | Column) -> Erased:
        """Delete rows, write the files that hold them anew, and report what still has their bytes and until when.

        Needs row tracking. The report is kept in the table's directory; `erasureStatus` tells when all is gone.
        """
        return erasing.erase(self.handle, condition, self._caller())

    def erasureStatus(self, report: Erased | str, condition: str | Column | None = None) -> ErasureStatus:
        """Read every data file in the table's directory by row id, and say whether any holds erased rows.

        Change data has no ids: of it, files that held such rows when they were erased must be gone. With the condition
        given again, change data and files of old versions are read for it as well.
        """
        return erasing.erasure_status(self.handle, report, condition, self._caller())

    def erasures(self) -> list[Erased]:
        """The reports that are kept, in the order of their ids."""
        return erasing.erasures(self.handle)

    def generate(self, mode: str) -> None:
        """Write manifests of the newest version, as in delta-spark: `generate("symlink_format_manifest")`."""
        generate(self.handle.newest(), mode)

    def clone(
        self,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table at `target` that begins with the rows of this one, as in delta-spark.

        A shallow clone refers to this table's files where they are; any other has copies of its own. Rows of a clone
        are new rows, with ids of their own. `replace` puts it in the place of a table that is there: of an earlier
        clone only what differs. `storage_options` say how to reach the target, where that is not as this table is.
        """
        options = CloneOptions(isShallow, replace, properties or {})
        return self._cloned(self.handle.newest(), target, options, storage_options)

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table that begins with the rows of a version of this one."""
        options = CloneOptions(isShallow, replace, properties or {})
        then = load(self.handle.newest().snapshot.location, version=version)
        return self._cloned(then, target, options, storage_options)

    def cloneAtTimestamp(
        self,
        timestamp: str | datetime.datetime,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
    ) -> Self:
        """Make a table that begins with the rows this one had at a time."""
        options = CloneOptions(isShallow, replace, properties or {})
        moment = moment_ms(timestamp, zone=self.handle.zone)
        then = load(self.handle.newest().snapshot.location, timestamp_ms=moment)
        return self._cloned(then, target, options, storage_options)

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode) -> DeltaTableBuilder[DeltaTable]:
        return table_builder(mode, lambda state: cls(DeltaHandle(spark, state)))

    def _cloned(
        self, source: DeltaState, target: str, options: CloneOptions, storage_options: Mapping[str, str] | None
    ) -> Self:
        clone = clone_to(source, target, options, storage_options, self.handle.env)
        return type(self)(DeltaHandle(self.handle.spark, clone))


def read(
    spark: SparkSession,
    path: str | PathLike[str],
    *,
    columns: Sequence[str] | None = None,
    where: str | Column | None = None,
    version: int | str | None = None,
    timestamp: str | datetime.datetime | None = None,
    metadata: Metadata = (),
    storage_options: Mapping[str, str] | None = None,
) -> DataFrame:
    """The rows of the table at a path: `DeltaTable.forPath(...).scan(...)` in one call."""
    table = DeltaTable.forPath(spark, path, storage_options=storage_options)
    return table.scan(columns, where, version, timestamp, metadata)

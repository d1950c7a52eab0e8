"""A Delta table, for users: the object with the dots.

It puts the format, a runner and a store together and decides nothing itself. Names and behaviour follow delta-spark's
`DeltaTable` wherever that has them.

1. A table reads the newest version at each call, unless a version or timestamp is given; refreshing costs the new
   commits only.
2. Without a Spark session everything that needs only the log works, and rows are read by `toArrow`.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from typing import Self

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.engines.spark.conditions import stated_in_text
from holdfast.env import system
from holdfast.errors import Invalid
from holdfast.formats.delta import detail
from holdfast.formats.delta.history import commits as history
from holdfast.formats.delta.state import DeltaState, is_table, load
from holdfast.model.mutation import TableDefinition
from holdfast.storage.location import Location
from holdfast.storage.open import open_location
from holdfast.table.making import MakingVerbs
from holdfast.verbs.commit.transaction import TransactionVerbs
from holdfast.verbs.define import alter as altering
from holdfast.verbs.define import convert as converting
from holdfast.verbs.define.backfill import BATCH_FILES
from holdfast.verbs.define.builder import PLAIN, CreateMode, DeltaTableBuilder, without_plain
from holdfast.verbs.define.drop_feature import Dropped, drop_feature_support
from holdfast.verbs.define.row_tracking import Report, Tracked, enable_row_tracking
from holdfast.verbs.dml.replace_matched import Met, replace_matched
from holdfast.verbs.dml.replace_where import found
from holdfast.verbs.dml.verbs import RowVerbs, said
from holdfast.verbs.dml.write import WriteOptions, Written, is_seen, make, rows_of, write
from holdfast.verbs.index.nearest import NearestVerbs
from holdfast.verbs.maintain.erase import ErasureVerbs
from holdfast.verbs.maintain.log_compaction import LogCompaction, compact_log
from holdfast.verbs.maintain.post_commit import after
from holdfast.verbs.maintain.restore import RestoreVerbs
from holdfast.verbs.maintain.upkeep import UpkeepVerbs
from holdfast.verbs.maintain.vacuum import VersionVerbs
from holdfast.verbs.open.delta_handle import DeltaHandle
from holdfast.verbs.open.handle import Metadata
from holdfast.verbs.open.names import place_of
from holdfast.verbs.publish.delta import DeltaPublishing
from holdfast.verbs.read.verbs import ReadVerbs
from holdfast.verbs.stream.streams import StreamVerbs

_BY_PATH = re.compile(r"(?:delta\.)?`(.+)`", re.DOTALL)


class DeltaTable(
    ReadVerbs,
    NearestVerbs,
    UpkeepVerbs,
    VersionVerbs,
    ErasureVerbs,
    DeltaPublishing,
    StreamVerbs,
    TransactionVerbs,
    RestoreVerbs,
    RowVerbs,
    MakingVerbs[DeltaTableBuilder["DeltaTable"]],
):
    """A Delta table at a path."""

    handle: DeltaHandle

    def __repr__(self) -> str:
        snapshot = self.handle.state.snapshot
        return f"DeltaTable({snapshot.location.url}, version {snapshot.version})"

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
        found = _BY_PATH.fullmatch(identifier.strip())
        return is_table(open_location(found[1] if found else identifier, storage_options=storage_options))

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
        asked = dict(properties or {})
        plain = asked.pop(PLAIN, "false").lower() == "true"
        location = open_location(converting.path_of(identifier), storage_options=storage_options)
        partitions = converting.partitions_of(partitionSchema)
        return cls(DeltaHandle(sparkSession, converting.convert(location, partitions, asked, system(), plain=plain)))

    @classmethod
    def _builder(cls, spark: SparkSession | None, mode: CreateMode) -> DeltaTableBuilder[DeltaTable]:
        def execute(location: Location, shape: TableDefinition, mode: CreateMode) -> DeltaTable:
            definition, plain = without_plain(shape)
            return cls(DeltaHandle(spark, make(location, definition, system(), mode=mode, plain=plain)))

        return DeltaTableBuilder(execute, mode)

    def overwrite(
        self,
        rows: DataFrame | pa.Table,
        *,
        replaceWhere: str | Column | None = None,
        replaceUsing: str | Sequence[str] | None = None,
        replaceOn: str | Column | None = None,
        partitionOverwriteMode: str = "static",
        mergeSchema: bool = False,
        widenTypes: bool = False,
        overwriteSchema: bool = False,
        txn: tuple[str, int] | None = None,
        userMetadata: str | None = None,
    ) -> Written:
        """Put rows in the place of all, of those `replaceWhere` names, or (dynamic) of the partitions they have.

        Or of those they match: by equal values in the columns `replaceUsing`, or by a condition `replaceOn`, in which
        the table has the name that `alias` gave it.
        """
        where = None if replaceWhere is None else stated_in_text(replaceWhere, "overwrite(replaceWhere=)")
        on = None if replaceOn is None else stated_in_text(replaceOn, "overwrite(replaceOn=)")
        mode = partitionOverwriteMode.lower()
        if mode not in ("static", "dynamic"):
            raise Invalid(f"partitionOverwriteMode is static or dynamic, not {partitionOverwriteMode!r}")
        if replaceWhere is not None and mode == "dynamic":
            raise Invalid("replaceWhere and dynamic partition overwrite exclude each other: choose one")
        if overwriteSchema and (replaceWhere is not None or mode == "dynamic"):
            raise Invalid("overwriteSchema replaces the whole table: leave replaceWhere and dynamic mode out")
        how = WriteOptions(
            replace=True,
            replace_where=where,
            zone=self.handle.zone,
            dynamic=mode == "dynamic",
            add_columns=mergeSchema,
            widen_types=widenTypes,
            replace_schema=overwriteSchema,
            said=said(txn, userMetadata),
        )
        return self._write(rows, how, Met(replaceUsing, on, self._alias))

    def _is_partitioned(self) -> bool:
        """Whether rows that are written now have partitions, which they can take the place of."""
        return bool(self.handle.newest().snapshot.partition_columns)

    def _write(self, rows: DataFrame | pa.Table, how: WriteOptions, met: Met | None = None) -> Written:
        env, state, caller = self.handle.env, self.handle.newest(), self._caller()
        if is_seen(state, how.said, caller.dialect):
            return Written(None, {}, 0)
        given = rows_of(rows, self.handle.spark, env)
        matching = None if met is None else met.matching(state.snapshot.schema, given.schema(), how)
        if matching is None:
            done = write(state, given, found(state, how, caller), env, caller.dialect)
        else:
            done = replace_matched(state, given, how, matching, caller)
        return after(state, done, caller)

    def setProperties(self, properties: Mapping[str, str]) -> Written:
        """Set properties of the table; a misspelt one is refused with the nearest name."""
        return altering.set_properties(self.handle.newest(), properties, self.handle.env)

    def unsetProperties(self, names: Sequence[str], ifExists: bool = False) -> Written:
        """Take properties away, so that their defaults count again."""
        return altering.unset_properties(self.handle.newest(), names, self.handle.env, if_exists=ifExists)

    def addColumns(self, columns: altering.Columns) -> Written:
        """Add columns, as (name, type) or (name, type, comment) or a mapping of names to types; `s.x` adds to a struct.

        Rows that are there are null in them.
        """
        return altering.add_columns(self.handle.newest(), columns, self.handle.env)

    def renameColumn(self, old: str, new: str) -> Written:
        """Give a column another name; needs column mapping. In a struct: `renameColumn("s.a", "b")`."""
        return altering.rename_column(self.handle.newest(), old, new, self.handle.env)

    def dropColumn(self, name: str) -> Written:
        """Take a column away; needs column mapping, and rewrites nothing."""
        return altering.drop_columns(self.handle.newest(), [name], self.handle.env)

    def changeColumnType(self, name: str, dataType: altering.TypeLike) -> Written:
        """Widen the type of a column; needs `delta.enableTypeWidening=true`, and rewrites nothing."""
        return altering.change_column_type(self.handle.newest(), name, dataType, self.handle.env)

    def commentColumn(self, name: str, comment: str | None) -> Written:
        """Say what a column is for; None takes its comment away."""
        return altering.comment_column(self.handle.newest(), name, comment, self.handle.env)

    def setColumnDefault(self, name: str, expression: str) -> Written:
        """Say in SQL what a column is where rows to come bring nothing for it; rows that are there stay."""
        return altering.default_column(self.handle.newest(), name, expression, self.handle.env)

    def dropColumnDefault(self, name: str) -> Written:
        """Let a column be null where rows to come bring nothing for it."""
        return altering.default_column(self.handle.newest(), name, None, self.handle.env)

    def addConstraint(self, name: str, expression: str | Column) -> Written:
        """Demand that an expression is true of every row, those that are there included; null breaks it too."""
        text = stated_in_text(expression, "addConstraint()")
        return altering.add_constraint(
            self.handle.newest(), name, text, self.handle.env, zone=self.handle.zone, session=self.handle.spark
        )

    def dropConstraint(self, name: str, ifExists: bool = False) -> Written:
        """Demand no more what a constraint said."""
        return altering.drop_constraint(self.handle.newest(), name, self.handle.env, if_exists=ifExists)

    def clusterBy(self, *columns: str) -> Written:
        """Cluster rows written from now on by these columns; by none when none is named."""
        return altering.cluster_by(self.handle.newest(), columns, self.handle.env)

    def addFeatureSupport(self, featureName: str) -> Written:
        """Let the table have a feature, with the protocol it needs."""
        return altering.add_feature_support(self.handle.newest(), featureName, self.handle.env)

    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> Dropped:
        """Take a feature out of the table, with all its traces: who does not know it can read the table then.

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
        """Say the commits of some versions, by default all since the last checkpoint, in one file of the log."""
        return compact_log(self.handle.newest(), start=start, end=end)

    @property
    def version(self) -> int:
        """The newest version."""
        return self.handle.newest().version

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name that conditions can use."""
        return DeltaTable(self.handle, aliasName)

    def historyArrow(self, limit: int | None = None) -> pa.Table:
        """The commits of the table, newest first, as an Arrow table."""
        return history.history(self.handle.state.snapshot.location, limit=limit)

    def describe(self) -> detail.Description:
        """What the table is, which settings it works by and who can open it; printing it shows it."""
        return detail.describe(self.handle.newest())

    def detail(self) -> DataFrame:
        """One row that describes the table."""
        return self.handle.session().createDataFrame(self.detailArrow())

    def detailArrow(self) -> pa.Table:
        """One row that describes the table, as an Arrow table."""
        return detail.detail(self.handle.newest())

    def _beside(self, state: DeltaState) -> Self:
        return type(self)(DeltaHandle(self.handle.spark, state))


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

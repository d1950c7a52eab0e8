"""`delta.tables`: delta-spark's `DeltaTable` and its builders over Holdfast's.

Signatures and results are delta-spark's; `.holdfast` is the table behind, with everything else it can do.

1. A method returns what delta-spark's returns: None, a DataFrame with its columns, or a builder.
2. Errors are instances both of delta-spark's classes and of Holdfast's.
3. Settings of the session that delta-spark uses (schema evolution, retention, user metadata) are used here too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast._dropin import sessions
from holdfast._dropin.errors import RETENTION_TOO_SHORT, TABLE_NOT_FOUND, as_delta_spark, dress
from holdfast._dropin.frames import lazy_frame, ordinary
from holdfast._dropin.lazy_query import LazyQuery, pinned
from holdfast._dropin.merging import DeltaMergeBuilder, Expression, by_name
from holdfast._dropin.table_builder import CreateMode, DeltaTableBuilder
from holdfast.engines.spark.session.catalog import CatalogEntry, enter, find, split
from holdfast.errors import Invalid, NotATable, Unsupported
from holdfast.sql import answers
from holdfast.sql.query.metadata import with_metadata_columns
from holdfast.sql.settings import RETENTION_CHECK, settings_of
from holdfast.table import delta
from holdfast.verbs.define.builder import IdentityGenerator
from holdfast.verbs.dml.assignments import stated_sets
from holdfast.verbs.maintain import optimize as optimizing
from holdfast.verbs.open.names import entry_of, path_in
from holdfast.verbs.open.spark_values import stated, stated_or_none

__all__ = ["DeltaMergeBuilder", "DeltaOptimizeBuilder", "DeltaTable", "DeltaTableBuilder", "IdentityGenerator"]


class DeltaTable:
    """A Delta table, as delta-spark's users know it."""

    def __init__(
        self, spark: SparkSession, table: delta.DeltaTable, alias: str | None = None, entry: CatalogEntry | None = None
    ) -> None:
        self._spark = spark
        self._table = table
        self._alias = alias
        self._entry = entry

    def __repr__(self) -> str:
        return repr(self._table)

    @property
    def holdfast(self) -> delta.DeltaTable:
        """The table, with everything that Holdfast can do."""
        return self._table

    @classmethod
    @as_delta_spark()
    def forPath(cls, sparkSession: SparkSession, path: str, hadoopConf: Mapping[str, str] | None = None) -> DeltaTable:
        """The table at a path."""
        return cls(sparkSession, delta.DeltaTable.forPath(sparkSession, path, hadoopConf))

    @classmethod
    @as_delta_spark(missing=TABLE_NOT_FOUND)
    def forName(cls, sparkSession: SparkSession, tableOrViewName: str) -> DeltaTable:
        """The table of a name in the catalog, or of ``delta.`path` ``."""
        if (path := path_in(tableOrViewName)) is not None:
            return cls.forPath(sparkSession, path)
        resolver = sessions.resolver_of(sparkSession)
        resolved = None if resolver is None else resolver.table(sparkSession, split(tableOrViewName))
        if resolved is not None:
            return cls(sparkSession, resolved.delta("DeltaTable"), entry=resolved.entry)
        entry = entry_of(sparkSession, tableOrViewName)
        return cls(sparkSession, delta.DeltaTable.forPath(sparkSession, entry.location), entry=entry)

    @classmethod
    @as_delta_spark()
    def isDeltaTable(cls, sparkSession: SparkSession, identifier: str) -> bool:
        """Whether there is a Delta table at a path, or by a name."""
        if path_in(identifier) is None and "/" not in identifier:
            try:
                entry = find(sparkSession, split(identifier))
            except (Invalid, Unsupported):
                entry = None
            if entry is not None:
                return entry.is_delta
        return delta.DeltaTable.isDeltaTable(sparkSession, identifier)

    @classmethod
    @as_delta_spark()
    def convertToDelta(
        cls, sparkSession: SparkSession, identifier: str, partitionSchema: str | StructType | None = None
    ) -> DeltaTable:
        """Make a table of the Parquet files in a directory, "parquet.`/path`"."""
        defaults = settings_of(sparkSession).properties
        table = delta.DeltaTable.convertToDelta(sparkSession, identifier, partitionSchema, properties=defaults)
        return cls(sparkSession, table)

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
    def _builder(cls, spark: SparkSession | None, mode: CreateMode) -> DeltaTableBuilder[DeltaTable]:
        session = spark or SparkSession.getActiveSession()
        if session is None:
            raise dress(Invalid("there is no Spark session: make one, or hand it over"))
        return DeltaTableBuilder(session, mode, lambda table, entry: cls(session, table, entry=entry))

    @as_delta_spark()
    def toDF(self) -> DataFrame:
        """The rows of the newest version."""
        name = self._alias or (None if self._entry is None else self._entry.name)
        return lazy_frame(LazyQuery(pinned(self._spark, self._table, name=name)))

    def alias(self, aliasName: str) -> DeltaTable:
        """The same table under a name that conditions can use."""
        return DeltaTable(self._spark, self._table.alias(aliasName), aliasName, self._entry)

    @as_delta_spark()
    def generate(self, mode: str) -> None:
        """Write manifests: `generate("symlink_format_manifest")`."""
        self._table.generate(mode)

    @as_delta_spark()
    def delete(self, condition: Expression | None = None) -> None:
        """Take out the rows that satisfy a condition; all without one."""
        where = stated_or_none(condition, "delete()")
        self._table.delete(None if where is None else self._with_metadata(where), userMetadata=self._user_metadata())

    @as_delta_spark()
    def update(self, condition: Expression | None = None, set: Mapping[str, Expression] | None = None) -> None:
        """Set columns of the rows that satisfy a condition."""
        if isinstance(condition, Mapping):
            raise TypeError("update takes a condition first: update(set={...}), or update(condition, {...})")
        where = stated_or_none(condition, "update()")
        where = None if where is None else self._with_metadata(where)
        sets = None if set is None else {n: self._with_metadata(v) for n, v in stated_sets(set, "update()").items()}
        self._table.update(where, sets, userMetadata=self._user_metadata())

    @as_delta_spark()
    def merge(self, source: DataFrame, condition: Expression) -> DeltaMergeBuilder:
        """Begin a merge of a source into the table."""
        on = self._with_metadata(by_name(stated(condition, "merge()")))
        rows, settings = ordinary(source), settings_of(self._spark)
        builder = self._table.merge(rows, on, userMetadata=settings.user_metadata).refusing_as_delta_spark()
        builder = builder.withSchemaEvolution() if settings.merges_schema else builder
        return DeltaMergeBuilder(self._spark, builder, rows, self._with_metadata)

    @as_delta_spark(invalid=RETENTION_TOO_SHORT)
    def vacuum(self, retentionHours: float | None = None) -> DataFrame:
        """Delete files that no version within the retention needs."""
        enforced = settings_of(self._spark).checks_retention
        try:
            result = self._table.vacuum(retentionHours, enforceRetention=enforced)
        except Invalid as error:
            raise Invalid(f"{error}; in a session: {RETENTION_CHECK}=false") from error
        return answers.vacuumed(self._spark, result, self._location())

    @as_delta_spark()
    def history(self, limit: int | None = None) -> DataFrame:
        """The commits, newest first."""
        return self._table.history(limit)

    @as_delta_spark()
    def detail(self) -> DataFrame:
        """One row that describes the table."""
        return answers.detail(self._spark, self._table, None if self._entry is None else self._entry.full_name)

    @as_delta_spark()
    def optimize(self) -> DeltaOptimizeBuilder:
        """Begin a compaction."""
        return DeltaOptimizeBuilder(self._spark, self._table.optimize(), self._location())

    @as_delta_spark()
    def restoreToVersion(self, version: int) -> DataFrame:
        """Bring back the rows of an earlier version."""
        return answers.restored(self._spark, self._table.restoreToVersion(version))

    @as_delta_spark()
    def restoreToTimestamp(self, timestamp: str) -> DataFrame:
        """Bring back the rows of the version that was current at a time."""
        return answers.restored(self._spark, self._table.restoreToTimestamp(timestamp))

    def clone(
        self, target: str, isShallow: bool = False, replace: bool = False, properties: dict[str, str] | None = None
    ) -> DeltaTable:
        """Make a table at a path, or of a name, that begins with the rows of this one."""
        return self._cloned(target, lambda at: self._table.clone(at, isShallow, replace, properties))

    def cloneAtVersion(
        self,
        version: int,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table that begins with the rows of a version of this one."""
        return self._cloned(target, lambda at: self._table.cloneAtVersion(version, at, isShallow, replace, properties))

    def cloneAtTimestamp(
        self,
        timestamp: str,
        target: str,
        isShallow: bool = False,
        replace: bool = False,
        properties: dict[str, str] | None = None,
    ) -> DeltaTable:
        """Make a table that begins with the rows this one had at a time."""
        return self._cloned(
            target, lambda at: self._table.cloneAtTimestamp(timestamp, at, isShallow, replace, properties)
        )

    @as_delta_spark()
    def upgradeTableProtocol(self, readerVersion: int, writerVersion: int) -> None:
        """Have at least these versions of the protocol."""
        if isinstance(readerVersion, bool) or not isinstance(readerVersion, int):
            raise ValueError(f"readerVersion is a whole number, not {readerVersion!r}")
        if isinstance(writerVersion, bool) or not isinstance(writerVersion, int):
            raise ValueError(f"writerVersion is a whole number, not {writerVersion!r}")
        row = self._table.detailArrow().to_pylist()[0]
        reader, writer = row["minReaderVersion"], row["minWriterVersion"]
        if readerVersion > reader or writerVersion > writer:
            raise Unsupported(
                f"the table has the protocol ({reader}, {writer}), the least that "
                "its features need, and Holdfast raises it with them: ask for one with addFeatureSupport(name)"
            )

    @as_delta_spark()
    def addFeatureSupport(self, featureName: str) -> None:
        """Let the table have a feature."""
        self._table.addFeatureSupport(featureName)

    @as_delta_spark()
    def dropFeatureSupport(self, featureName: str, truncateHistory: bool | None = None) -> None:
        """Take a feature out of the table, with all its traces; `truncateHistory` lets old versions go."""
        self._table.dropFeatureSupport(featureName, truncateHistory)

    def _with_metadata(self, expression: Expression) -> Expression:
        return with_metadata_columns(expression, lambda: self._table.handle.newest().snapshot.schema, self._alias)

    def _user_metadata(self) -> str | None:
        return settings_of(self._spark).user_metadata

    def _location(self) -> str:
        return str(self._table.detailArrow().column("location")[0].as_py())

    @as_delta_spark()
    def _cloned(self, target: str, clone: Callable[[str], delta.DeltaTable]) -> DeltaTable:
        path = path_in(target)
        if path is not None or "/" in target:
            return DeltaTable(self._spark, clone(path or target))
        parts = split(target)
        entry = find(self._spark, parts)
        if entry is not None and not entry.is_delta:
            raise dress(NotATable(f"{target} is a table of {entry.provider}, not of delta", location=target))
        entry = entry or enter(self._spark, parts, location=None, schema=self.toDF().schema)
        return DeltaTable(self._spark, clone(entry.location), entry=entry)


class DeltaOptimizeBuilder:
    """A compaction under construction."""

    def __init__(self, spark: SparkSession, builder: optimizing.DeltaOptimizeBuilder, location: str) -> None:
        self._spark = spark
        self._builder = builder
        self._location = location

    @as_delta_spark()
    def where(self, partitionFilter: str) -> DeltaOptimizeBuilder:
        """Only of partitions that satisfy a condition."""
        return DeltaOptimizeBuilder(self._spark, self._builder.where(partitionFilter), self._location)

    @as_delta_spark()
    def executeCompaction(self) -> DataFrame:
        """Write small files together."""
        return answers.optimized(self._spark, self._builder.executeCompaction(), self._location)

    @as_delta_spark()
    def executeZOrderBy(self, *cols: str | list[str] | tuple[str, ...]) -> DataFrame:
        """Put rows with near values of some columns into the same files."""
        return answers.optimized(self._spark, self._builder.executeZOrderBy(*cols), self._location)

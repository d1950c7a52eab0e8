"""The answers of statements: DataFrames with delta-spark's columns, made of the results of our verbs.

1. Names, order and types of columns are delta-spark's. A count that we do not keep is null, never zero.
2. A frame holds the counts themselves and no query over the table, so using it reads nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.table.delta import DeltaTable
from holdfast.verbs.dml.delete_update import Changed, ChangePlan
from holdfast.verbs.maintain.optimize import Compacted
from holdfast.verbs.maintain.vacuum_files import Vacuumed

_LONG = pa.int64()


def _longs(*names: str) -> list[tuple[str, pa.DataType]]:
    return [(name, _LONG) for name in names]


_SIZES = pa.struct([*_longs("min", "max"), ("avg", pa.float64()), *_longs("totalFiles", "totalSize")])
_GROUP = pa.struct(_longs("num", "size"))
_Z_ORDER = pa.struct(
    [
        ("strategyName", pa.string()),
        *[("inputCubeFiles", _GROUP), ("inputOtherFiles", _GROUP), ("inputNumCubes", _LONG), ("mergedFiles", _GROUP)],
        *_longs("numOutputCubes", "mergedNumCubes"),
    ]
)
_FILES = pa.struct(_longs("numFiles", "size"))
_CLUSTERING = pa.struct(
    [
        *[("inputZCubeFiles", _FILES), ("inputOtherFiles", _FILES), ("inputNumZCubes", _LONG), ("mergedFiles", _FILES)],
        ("numOutputZCubes", _LONG),
    ]
)
_PARALLELISM = pa.struct(
    _longs(
        *("maxClusterActiveParallelism", "minClusterActiveParallelism"),
        *("maxSessionActiveParallelism", "minSessionActiveParallelism"),
    )
)
_METRICS = pa.struct(
    [
        *_longs("numFilesAdded", "numFilesRemoved"),
        *[("filesAdded", _SIZES), ("filesRemoved", _SIZES), ("partitionsOptimized", _LONG)],
        *[("zOrderStats", _Z_ORDER), ("clusteringStats", _CLUSTERING)],
        *_longs("numBins", "numBatches", "totalConsideredFiles", "totalFilesSkipped"),
        ("preserveInsertionOrder", pa.bool_()),
        *_longs("numFilesSkippedToReduceWriteAmplification", "numBytesSkippedToReduceWriteAmplification"),
        *_longs("startTimeMs", "endTimeMs", "totalClusterParallelism", "totalScheduledTasks"),
        ("autoCompactParallelismStats", _PARALLELISM),
        ("deletionVectorStats", pa.struct(_longs("numDeletionVectorsRemoved", "numDeletionVectorRowsRemoved"))),
        *_longs("numTableColumns", "numTableColumnsWithStats"),
    ]
)
OPTIMIZED = pa.schema([("path", pa.string()), ("metrics", _METRICS)])
_RESTORED = {
    "table_size_after_restore": "tableSizeAfterRestore",
    "num_of_files_after_restore": "numOfFilesAfterRestore",
    "num_removed_files": "numRemovedFiles",
    "num_restored_files": "numRestoredFiles",
    "removed_files_size": "removedFilesSize",
    "restored_files_size": "restoredFilesSize",
}
_CLONED = {
    "source_table_size": "sourceTableSize",
    "source_num_of_files": "sourceNumOfFiles",
    "num_removed_files": "numRemovedFiles",
    "num_copied_files": "numCopiedFiles",
    "removed_files_size": "removedFilesSize",
    "copied_files_size": "copiedFilesSize",
}
_DETAIL = (
    *("format", "id", "name", "description", "location", "createdAt", "lastModified", "partitionColumns"),
    *("clusteringColumns", "numFiles", "sizeInBytes", "properties", "minReaderVersion", "minWriterVersion"),
    "tableFeatures",
)


def nothing(spark: SparkSession) -> DataFrame:
    """The answer without columns and rows."""
    return spark.createDataFrame([], StructType([]))


def of_rows(spark: SparkSession, schema: pa.Schema, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A small frame of rows."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))


def vacuumed(spark: SparkSession, result: Vacuumed, location: str) -> DataFrame:
    """The answer of VACUUM: the location of the table, or for a dry run the files that it would delete."""
    root = location.rstrip("/")
    keys = result.files.column("key")
    paths = pc.binary_join_element_wise(root, keys, "/") if result.dry_run else pa.chunked_array([[root]], pa.string())
    return spark.createDataFrame(pa.table({"path": paths.cast(pa.string())}))


def optimized(spark: SparkSession, result: Compacted, location: str) -> DataFrame:
    """The answer of OPTIMIZE: the location of the table and a struct of counts."""
    counts = result.metrics
    added, removed = counts.get("numAddedFiles", 0), counts.get("numRemovedFiles", 0)
    row = {
        "path": location.rstrip("/"),
        "metrics": {
            "numFilesAdded": added,
            "numFilesRemoved": removed,
            "filesAdded": _sizes(added, counts.get("numAddedBytes", 0)),
            "filesRemoved": _sizes(removed, counts.get("numRemovedBytes", 0)),
            "numBins": result.bins,
            "numBatches": len(result.versions),
            "preserveInsertionOrder": True,
            "deletionVectorStats": {"numDeletionVectorsRemoved": counts.get("numDeletionVectorsRemoved", 0)},
        },
    }
    return of_rows(spark, OPTIMIZED, [row])


def restored(spark: SparkSession, result: Changed) -> DataFrame:
    """The answer of RESTORE: six counts."""
    counts = dict(result.metrics)
    if result.version is None and result.before is not None:  # the table was that version already
        files = result.before.snapshot.files
        counts["tableSizeAfterRestore"] = pc.sum(files.column("size")).as_py() or 0
        counts["numOfFilesAfterRestore"] = len(files)
    return _counts(spark, {name: counts.get(count, 0) for name, count in _RESTORED.items()})


def cloned(spark: SparkSession, table: DeltaTable) -> DataFrame:
    """The answer of CLONE: six counts, from the commit that created the table."""
    metrics = dict(table.historyArrow(1).column("operationMetrics")[0].as_py() or ())
    return _counts(spark, {name: int(metrics.get(count, 0)) for name, count in _CLONED.items()})


def merged(spark: SparkSession, result: Changed) -> DataFrame:
    """The answer of MERGE: counts of rows."""
    kinds = {
        kind: result.metrics.get(f"numTargetRows{kind.capitalize()}", 0) for kind in ("updated", "deleted", "inserted")
    }
    return _counts(spark, {"num_affected_rows": sum(kinds.values()), **{f"num_{k}_rows": n for k, n in kinds.items()}})


def explained(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """The answer of EXPLAIN for a change."""
    return of_rows(spark, pa.schema([("plan", pa.string())]), [{"plan": str(plan)}])


def deleted(spark: SparkSession, result: Changed) -> DataFrame:
    """The answer of DELETE; -1 where whole files were removed without counting their rows."""
    return _counts(spark, {"num_affected_rows": result.metrics.get("numDeletedRows", -1)})


def updated(spark: SparkSession, result: Changed) -> DataFrame:
    """The answer of UPDATE."""
    return _counts(spark, {"num_affected_rows": result.metrics.get("numUpdatedRows", 0)})


def detail(spark: SparkSession, table: DeltaTable, name: str | None = None) -> DataFrame:
    """The answer of DESCRIBE DETAIL; `name` is the table's name in the catalog."""
    row = table.detailArrow().select(list(_DETAIL))
    if name is not None:
        row = row.set_column(_DETAIL.index("name"), row.schema.field("name"), pa.array([name], pa.string()))
    return spark.createDataFrame(row)


def _counts(spark: SparkSession, counts: dict[str, int]) -> DataFrame:
    return of_rows(spark, pa.schema(_longs(*counts)), [counts])


def _sizes(files: int, size: int) -> dict[str, float]:
    return {"avg": size / files if files else 0.0, "totalFiles": files, "totalSize": size}

"""What statements answer: DataFrames in the shapes of delta-spark, made of what our verbs give.

1. Names, order and types of columns are delta-spark's. What it counts and we do not is null there, never zero.
2. A frame is made of the counts themselves and never of a table's rows, so nothing is read again when it is used.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from holdfast.table.delta import DeltaTable
from holdfast.table.either import IcebergTable
from holdfast.verbs.dml.delete_update import Changed, ChangePlan
from holdfast.verbs.maintain.optimize import Compacted
from holdfast.verbs.maintain.vacuum_files import Vacuumed

_LONG = pa.int64()
_SIZES = pa.struct([("min", _LONG), ("max", _LONG), ("avg", pa.float64()), ("totalFiles", _LONG), ("totalSize", _LONG)])
_GROUP = pa.struct([("num", _LONG), ("size", _LONG)])
_Z_ORDER = pa.struct(
    [
        ("strategyName", pa.string()),
        ("inputCubeFiles", _GROUP),
        ("inputOtherFiles", _GROUP),
        ("inputNumCubes", _LONG),
        ("mergedFiles", _GROUP),
        ("numOutputCubes", _LONG),
        ("mergedNumCubes", _LONG),
    ]
)
_FILES = pa.struct([("numFiles", _LONG), ("size", _LONG)])
_CLUSTERING = pa.struct(
    [
        ("inputZCubeFiles", _FILES),
        ("inputOtherFiles", _FILES),
        ("inputNumZCubes", _LONG),
        ("mergedFiles", _FILES),
        ("numOutputZCubes", _LONG),
    ]
)
_PARALLELISM = pa.struct(
    [
        ("maxClusterActiveParallelism", _LONG),
        ("minClusterActiveParallelism", _LONG),
        ("maxSessionActiveParallelism", _LONG),
        ("minSessionActiveParallelism", _LONG),
    ]
)
_METRICS = pa.struct(
    [
        ("numFilesAdded", _LONG),
        ("numFilesRemoved", _LONG),
        ("filesAdded", _SIZES),
        ("filesRemoved", _SIZES),
        ("partitionsOptimized", _LONG),
        ("zOrderStats", _Z_ORDER),
        ("clusteringStats", _CLUSTERING),
        ("numBins", _LONG),
        ("numBatches", _LONG),
        ("totalConsideredFiles", _LONG),
        ("totalFilesSkipped", _LONG),
        ("preserveInsertionOrder", pa.bool_()),
        ("numFilesSkippedToReduceWriteAmplification", _LONG),
        ("numBytesSkippedToReduceWriteAmplification", _LONG),
        ("startTimeMs", _LONG),
        ("endTimeMs", _LONG),
        ("totalClusterParallelism", _LONG),
        ("totalScheduledTasks", _LONG),
        ("autoCompactParallelismStats", _PARALLELISM),
        (
            "deletionVectorStats",
            pa.struct([("numDeletionVectorsRemoved", _LONG), ("numDeletionVectorRowsRemoved", _LONG)]),
        ),
        ("numTableColumns", _LONG),
        ("numTableColumnsWithStats", _LONG),
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
    """What a statement answers that has nothing to tell: no columns and no rows."""
    return spark.createDataFrame([], StructType([]))


def of_rows(spark: SparkSession, schema: pa.Schema, rows: Sequence[dict[str, Any]]) -> DataFrame:
    """A small frame of values."""
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=schema))


def vacuumed(spark: SparkSession, done: Vacuumed, location: str) -> DataFrame:
    """What a VACUUM answers: the place of the table, or for a dry run the files that would go."""
    root = location.rstrip("/")
    keys = done.files.column("key")
    paths = pc.binary_join_element_wise(root, keys, "/") if done.dry_run else pa.chunked_array([[root]], pa.string())
    return spark.createDataFrame(pa.table({"path": paths.cast(pa.string())}))


def optimized(spark: SparkSession, done: Compacted, location: str) -> DataFrame:
    """What an OPTIMIZE answers: the place of the table and a struct of counts."""
    counts = done.metrics
    added, removed = counts.get("numAddedFiles", 0), counts.get("numRemovedFiles", 0)
    row = {
        "path": location.rstrip("/"),
        "metrics": {
            "numFilesAdded": added,
            "numFilesRemoved": removed,
            "filesAdded": _sizes(added, counts.get("numAddedBytes", 0)),
            "filesRemoved": _sizes(removed, counts.get("numRemovedBytes", 0)),
            "numBins": done.bins,
            "numBatches": len(done.versions),
            "preserveInsertionOrder": True,
            "deletionVectorStats": {"numDeletionVectorsRemoved": counts.get("numDeletionVectorsRemoved", 0)},
        },
    }
    return of_rows(spark, OPTIMIZED, [row])


def restored(spark: SparkSession, done: Changed) -> DataFrame:
    """What a RESTORE answers: six counts."""
    counts = dict(done.metrics)
    if done.version is None and done.before is not None:  # the table was that version already
        files = done.before.snapshot.files
        counts["tableSizeAfterRestore"] = pc.sum(files.column("size")).as_py() or 0
        counts["numOfFilesAfterRestore"] = len(files)
    schema = pa.schema([(name, _LONG) for name in _RESTORED])
    return of_rows(spark, schema, [{name: counts.get(count, 0) for name, count in _RESTORED.items()}])


def cloned(spark: SparkSession, table: DeltaTable) -> DataFrame:
    """What a CLONE answers: six counts, from the commit that made the table."""
    made = dict(table.historyArrow(1).column("operationMetrics")[0].as_py() or ())
    schema = pa.schema([(name, _LONG) for name in _CLONED])
    return of_rows(spark, schema, [{name: int(made.get(count, 0)) for name, count in _CLONED.items()}])


def merged(spark: SparkSession, done: Changed) -> DataFrame:
    """What a MERGE answers: the rows it touched, and how."""
    kinds = {
        each: done.metrics.get(f"numTargetRows{each.capitalize()}", 0) for each in ("updated", "deleted", "inserted")
    }
    return _counts(spark, {"num_affected_rows": sum(kinds.values()), **{f"num_{k}_rows": n for k, n in kinds.items()}})


def explained(spark: SparkSession, plan: ChangePlan) -> DataFrame:
    """What EXPLAIN says of a change."""
    return of_rows(spark, pa.schema([("plan", pa.string())]), [{"plan": str(plan)}])


def deleted(spark: SparkSession, done: Changed) -> DataFrame:
    """What a DELETE answers; -1 where files went whole and their rows were never counted."""
    return _counts(spark, {"num_affected_rows": done.metrics.get("numDeletedRows", -1)})


def updated(spark: SparkSession, done: Changed) -> DataFrame:
    """What an UPDATE answers."""
    return _counts(spark, {"num_affected_rows": done.metrics.get("numUpdatedRows", 0)})


def history(table: DeltaTable | IcebergTable, limit: int | None = None) -> DataFrame:
    """What DESCRIBE HISTORY answers."""
    return table.history(limit)


def detail(spark: SparkSession, table: DeltaTable, name: str | None = None) -> DataFrame:
    """What DESCRIBE DETAIL answers; `name` is what a catalog calls the table."""
    found = table.detailArrow().select(list(_DETAIL))
    if name is not None:
        found = found.set_column(_DETAIL.index("name"), found.schema.field("name"), pa.array([name], pa.string()))
    return spark.createDataFrame(found)


def _counts(spark: SparkSession, counts: dict[str, int]) -> DataFrame:
    return of_rows(spark, pa.schema([(name, _LONG) for name in counts]), [counts])


def _sizes(files: int, size: int) -> dict[str, Any]:
    return {"avg": size / files if files else 0.0, "totalFiles": files, "totalSize": size}

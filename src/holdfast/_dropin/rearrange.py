"""Rewrites rows of a table in the layout that a user gives them, for delta-spark's `dataChange=false`.

delta-spark's users compact by hand: they read a table, repartition the rows, and overwrite the table with them.

1. No row changes, and the commit says so: readers of changes see none.
2. Rows keep the ids and versions that they bring along.
3. The count of rows stays the same, or nothing is committed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from holdfast.engines.spark.dml.write import as_session_says, write_frame
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import spark_struct
from holdfast.env import Env
from holdfast.errors import Invalid
from holdfast.formats.delta.format import DeltaFormat
from holdfast.formats.delta.state import DeltaState
from holdfast.model.files import FileTable
from holdfast.model.mutation import KEEPS_ROW_IDS
from holdfast.model.snapshot import Snapshot
from holdfast.plan.dml.arithmetic import live_rows
from holdfast.plan.scan.prune import Want, by_partition
from holdfast.predicate.parse import parse
from holdfast.predicate.records import Predicate
from holdfast.rows.columns import ROW_COMMIT_VERSION, ROW_ID
from holdfast.verbs.dml.write import Written
from holdfast.verbs.dml.write_mutation import CommitOptions, is_about_partitions, overwritten, refuse_outside
from holdfast.verbs.open.delta import open_delta


def rearrange(
    state: DeltaState,
    rows: DataFrame,
    where: str | None,
    env: Env,
    *,
    zone: str = "UTC",
    options: CommitOptions | None = None,
    stored_as: Mapping[str, str] | None = None,
) -> Written:
    """Put rows in the place of the same ones: all, or those of the partitions that `where` names.

    They have the table's columns and, where it tracks rows, `_row_id` and `_row_commit_version`; `stored_as` are
    properties that count for these files only.
    """
    snapshot, shape = state.snapshot, DeltaFormat.definition_of(state)
    DeltaFormat.check_writable(state)
    _check_columns(snapshot, rows)
    predicate = None if where is None else parse(where, snapshot.schema, zone=zone)
    if predicate is not None and not is_about_partitions(snapshot, predicate):
        raise Invalid(f"dataChange=false is for whole partitions, and {where} names rows: call optimize()")
    stored = replace(shape, properties={**shape.properties, **(stored_as or {})})
    spec = as_session_says(DeltaFormat.storing(state, stored, feeds=False).data, rows.sparkSession)
    with tasks(rows.sparkSession, "writing"):
        staged = write_frame(rows, spec, snapshot.location)
    if predicate is not None:
        refuse_outside(snapshot, staged, predicate, where or "")
    _check_count(snapshot, staged, predicate)
    mutation = overwritten(snapshot, staged, options or CommitOptions(), where=predicate, where_text=where)
    tags = {KEEPS_ROW_IDS: "true"} if snapshot.identity is not None else {}
    landed = open_delta(state).commit(replace(mutation, data_change=False, tags=tags), env)
    return Written(landed.version, mutation.metrics, landed.attempts)


def _check_columns(snapshot: Snapshot, rows: DataFrame) -> None:
    carried = (ROW_ID, ROW_COMMIT_VERSION) if snapshot.identity is not None else ()
    has = {f.name: f.dataType.simpleString() for f in rows.schema if f.name not in carried}
    wanted = {f.name: f.dataType.simpleString() for f in spark_struct(snapshot.schema.fields)}
    if has != wanted:
        raise Invalid(
            f"dataChange=false is for the same rows in other files, so they have the table's columns "
            f"({', '.join(wanted)}), and these have {', '.join(has)}: leave dataChange out"
        )


def _check_count(snapshot: Snapshot, staged: pa.Table, where: Predicate | None) -> None:
    files: FileTable = snapshot.files
    if where is not None:
        files = files.filter(by_partition(files, Want(snapshot, where)))
    lives = live_rows(files)
    gained = pc.sum(staged.column("num_records")).as_py() or 0
    if None not in lives and (lost := sum(n for n in lives if n is not None)) != gained:
        raise Invalid(
            f"dataChange=false is for the same rows in other files, and {gained} rows are no {lost}: leave dataChange "
            "out, or write the rows of whole partitions with replaceWhere; nothing was committed"
        )

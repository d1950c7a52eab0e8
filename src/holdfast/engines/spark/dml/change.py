"""Runs DELETE, UPDATE, MERGE and compaction on Spark, in one job.

The job reads rows with their addresses, joins them with the pinned source if there is one, and applies the first clause
whose condition holds. Its tasks store the rows and return their addresses as bitmaps.

1. Only columns that a condition, an assignment or a written row needs are read.
2. Two rows of a source that change one row of the target are found when the tasks' bitmaps are united, wherever
   Spark sent the rows.
3. A value is computed only for rows whose clause assigns it, and converted as an assignment in SQL is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.dml import task
from holdfast.engines.spark.dml.assign import assigned, refuse_lacking, value_of
from holdfast.engines.spark.dml.bits import ROWS, bits_of, positions_of
from holdfast.engines.spark.dml.cluster import in_order
from holdfast.engines.spark.dml.constraints import prepare
from holdfast.engines.spark.dml.matching import (
    CLAUSE,
    S_FILE,
    S_POSITION,
    T_FILE,
    T_ID,
    T_POSITION,
    T_VERSION,
    alias_of_target,
    looked,
    matches,
    named_metadata,
    source_rows,
)
from holdfast.engines.spark.session.carry import by_value, carried
from holdfast.engines.spark.session.failing import jobs
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import named, spark_struct, spark_to_struct
from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.model.mutation import STAGED
from holdfast.model.snapshot import Snapshot
from holdfast.parquet.carried import CarriedIdNotes
from holdfast.parquet.fit import VOID
from holdfast.parquet.write import WriteSpec
from holdfast.plan.dml.arithmetic import live_rows
from holdfast.plan.dml.change import SOURCE_ALIAS, Done, Inserted, Insertion, Work
from holdfast.rows.stamp import PROVISIONAL
from holdfast.schema.constraints import demands, quoted
from holdfast.schema.enforce import Assignment, fit
from holdfast.schema.identity import advanced
from holdfast.schema.types import LONG, STRING, Field, Map, Primitive
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import open_sink

SCAN_TASK_BYTES = 128 << 20  # what Spark gives a task to read, unless it is told otherwise
ROWS_WORTH_A_FILE = 100_000
BITS_AT_MOST = 1 << 30  # rows of which this process takes a bit each

_ANSWER = (
    Field("kind", STRING),
    Field("key", STRING),
    Field("size", LONG),
    Field("modified_ms", LONG),
    Field("partition_values", Map(STRING, STRING)),
    Field("num_records", LONG),
    Field("stats", STRING),
    Field("carried", STRING),
    Field("file", LONG),
    Field("bits", Primitive("binary")),
    Field("rows", LONG),
)


def change(spark: SparkSession, work: Work) -> Done:
    """Find rows, and store what becomes of them."""
    if not len(work.target.files):
        return Done()
    look = looked(spark, work)
    work = look.work
    if not len(work.target.files):
        return Done()
    matched = matches(spark, work)
    does = _does(work)
    addresses, only = _addresses(work, does)
    if work.store is None and only is not None and sum(n or 0 for n in live_rows(work.target.files)) <= BITS_AT_MOST:
        return _positions_only(spark, matched.rows, only, work)
    if work.store is None:
        return _run(spark, matched.rows.select(*addresses), task.BatchLayout(only=only), work.target.snapshot, work)
    beside = named_metadata(work)
    assignment = assigned(matched.rows, work, alias=alias_of_target(work), clause=CLAUSE, does=does, beside=beside)
    spec = _without_void(work.store.data)
    stored = [
        *(named(f.name) for f in spec.fields),
        *([_stored(work, T_ID)] if spec.id_column else []),
        *([F.when(does == task.COPIED, _stored(work, T_VERSION))] if spec.version_column else []),
    ]
    feed = None if work.store.feed is None else _without_void(work.store.feed)
    before = [] if feed is None else [named(assignment.before[f.name]) for f in feed.fields[:-1]]
    columns = [c.alias(f"c{i}") for i, c in enumerate((*stored, *before))]
    if work.order is not None:
        out = in_order(assignment.frame, work.order, sum(n or 0 for n in live_rows(work.target.files)))
        out = out.select(*columns, *addresses)
    else:
        placed = work.keep or matched.gathered or _is_dense(work, look.rows)
        out = (
            assignment.frame.coalesce(1)
            if work.together
            else assignment.frame
            if placed
            else _placed(spark, assignment.frame, spec)
        )
        out = _by_partition(out.select(*columns, *addresses), spec, by_id=work.by_id)
    notes = None if spec.id_column is None else CarriedIdNotes
    return _run(spark, out, task.BatchLayout(spec, feed, len(stored), only, notes), work.target.snapshot, work)


def insert(spark: SparkSession, work: Insertion) -> Inserted:
    """Store rows of a source that found none."""
    staged, feeds = [STAGED.empty_table()], [STAGED.empty_table()]
    schema, marks = work.schema, dict[str, int]()
    for number, clause in enumerate(work.clauses):
        frame = _new_rows(spark, work, number)
        values = [value_of(s.value).alias(s.path[0]) for s in clause.sets or ()]
        incoming = frame.select(*values)
        given = spark_to_struct(incoming.schema)
        refuse_lacking(clause.sets or (), schema, {one.path: given.find(one.path[0]) for one in clause.sets or ()})
        fitted = fit(given, schema, assignment=Assignment.CAST)
        prepared = prepare(incoming, fitted, demands(schema, work.store.properties, fitted))
        spec = _without_void(work.store.data)
        feed = None if work.store.feed is None else _without_void(work.store.feed)
        columns = [named(f.name).alias(f"c{i}") for i, f in enumerate(spec.fields)]
        out = _by_partition(prepared.frame.select(*columns), spec)
        layout = task.BatchLayout(spec, feed, len(columns), task.INSERTED)
        done = _run(spark, out, layout, work.source.snapshot, None)
        staged.append(done.staged)
        feeds.append(done.feed)
        marks |= prepared.marks()
        schema = advanced(schema, prepared.marks()) if prepared.marks() else schema
    return Inserted(pa.concat_tables(staged), pa.concat_tables(feeds), marks)


def colliding(spark: SparkSession, work: Work, limit: int) -> Sequence[str]:
    """Some rows of the source that take one row of the target together."""
    assert work.source is not None, "only a source has rows that collide"
    rows = matches(spark, replace(work, meets=False, keep=False)).rows
    rows = rows.where(named(S_FILE).isNotNull() & named(CLAUSE).isNotNull())
    alias = work.source.alias or SOURCE_ALIAS
    shown = [F.col(f"{quoted(alias)}.{quoted(f.name)}").alias(f.name) for f in work.source.snapshot.schema.fields]
    texts = rows.select(named(T_FILE), named(T_POSITION), F.to_json(F.struct(*shown)).alias("row"))
    grouped = texts.groupBy(T_FILE, T_POSITION).agg(F.count("*").alias("n"), F.collect_list("row").alias("rows"))
    with jobs():
        collisions = grouped.where("n > 1").select(F.slice("rows", 1, 3).alias("rows")).limit(limit).toArrow()
    return [" and ".join(texts) for texts in collisions.column("rows").to_pylist()]


def _positions_only(spark: SparkSession, rows: DataFrame, does: int, work: Work) -> Done:
    """Which rows these are, where nothing else becomes of them: Spark sets the bits by itself."""
    with tasks(spark, work.label):
        bits = bits_of(rows, T_FILE, T_POSITION).toArrow()  # a bit per row of the files
    positions = positions_of(bits, T_FILE, work.target.files.column("key"))
    again = (pc.sum(bits.column(ROWS)).as_py() or 0) - sum(map(len, positions.values()))
    done = Done(updated=positions) if does == task.UPDATED else Done(deleted=positions)
    return replace(done, doubled=again)


def _placed(spark: SparkSession, frame: DataFrame, spec: WriteSpec) -> DataFrame:
    """Changed rows are few and scattered: brought together they make few files."""
    if (spark.conf.get("spark.sql.adaptive.enabled") or "").lower() != "true":
        return frame
    return frame.hint("rebalance", *spec.partition_columns)


def _run(spark: SparkSession, rows: DataFrame, layout: task.BatchLayout, snapshot: Snapshot, work: Work | None) -> Done:
    location = snapshot.location
    store = carried(location.store)
    if store.url.startswith("memory:"):
        raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
    sink = open_sink(replace(location, store=store), system().now_ms)
    needs = ("numpy", "pyroaring", *(("obstore",) if isinstance(store, RemoteStore) else ()))
    function = by_value(task.changing(layout, sink), needs, work="change this table")
    # As many rows as there are files and bitmaps.
    with tasks(spark, "inserting rows" if work is None else work.label):
        answer = rows.mapInArrow(function, spark_struct(_ANSWER)).toArrow().cast(task.ANSWER)
    return _done(answer, work)


def _stored(work: Work, name: str) -> Column:
    """An id or a version as it is stored: none for a row that has only a provisional one."""
    return F.when(named(name) < PROVISIONAL, named(name)) if work.has_provisional else named(name)


def _is_dense(work: Work, rows: int | None) -> bool:
    """Whether every task of the scan has rows enough for a file of its own, so that moving them gains nothing."""
    if rows is None or (work.store is not None and work.store.data.partition_columns):
        return False
    size = pc.sum(work.target.files.column("size")).as_py() or 0
    return rows * SCAN_TASK_BYTES >= ROWS_WORTH_A_FILE * size


def _by_partition(rows: DataFrame, spec: WriteSpec, *, by_id: bool = False) -> DataFrame:
    """Rows of one partition next to each other, so that a task has one file open; and by their ids, if asked for."""
    at = {f.name: i for i, f in enumerate(spec.fields)}
    keys = [f"c{at[name]}" for name in spec.partition_columns]
    keys += [f"c{len(spec.fields)}"] if by_id and spec.id_column is not None else []
    return rows.sortWithinPartitions(*keys) if keys else rows


def _done(answer: pa.Table, work: Work | None) -> Done:
    def files(kind: str) -> pa.Table:
        return answer.filter(pc.equal(answer.column("kind"), kind)).select(STAGED.names).cast(STAGED)

    if work is None:
        return Done(files(task.DATA_FILE), files(task.FEED_FILE))
    targets = work.target.files.column("key").to_pylist()
    sources = [] if work.source is None else work.source.snapshot.files.column("key").to_pylist()
    updated, n_updated = _united(answer, task.ROWS_UPDATED, targets)
    deleted, n_deleted = _united(answer, task.ROWS_DELETED, targets)
    met, _ = _united(answer, task.ROWS_MET, sources) if work.meets else ({}, 0)
    both = [updated.get(key, BitMap64()) | deleted.get(key, BitMap64()) for key in updated.keys() | deleted.keys()]
    seen, _ = _united(answer, task.ROWS_SEEN, targets)
    copied = answer.filter(pc.equal(answer.column("kind"), task.ROWS_COPIED)).column("rows")
    return Done(
        files(task.DATA_FILE),
        files(task.FEED_FILE),
        updated,
        deleted,
        pc.sum(copied).as_py() or 0,
        met,
        n_updated + n_deleted - sum(map(len, both)),
        seen,
    )


def _united(answer: pa.Table, kind: str, keys: Sequence[str]) -> tuple[dict[str, BitMap64], int]:
    """Bitmaps of all tasks by file key, and how many rows they were made of."""
    answers = answer.filter(pc.equal(answer.column("kind"), kind)).select(["file", "bits", "rows"])
    bitmaps: dict[str, BitMap64] = {}
    for row in answers.to_pylist():  # one per file and task
        key, bits = keys[row["file"]], BitMap64.deserialize(row["bits"])
        bitmaps[key] = bitmaps[key] | bits if key in bitmaps else bits
    return bitmaps, pc.sum(answers.column("rows")).as_py() or 0


def _does(work: Work) -> Column:
    """What becomes of a row, from the clause that takes it."""
    updates = [i for i, c in enumerate(work.clauses) if c.sets is not None]
    taken = F.when(named(CLAUSE).isin(updates), task.UPDATED) if updates else F.when(F.lit(False), task.UPDATED)
    taken = taken.when(named(CLAUSE).isNotNull(), task.DELETED)
    return taken.otherwise(task.COPIED if work.keep else task.MET)


def _addresses(work: Work, does: Column) -> tuple[list[Column], int | None]:
    """The columns that say what becomes of rows and which they are; the kind by itself where there is one only."""
    only = _only(work)
    columns = [] if only is not None else [does.cast("int").alias(task.DOES)]
    columns.append(_packed(T_FILE, T_POSITION).alias(task.ADDRESS))
    if work.source is not None and work.meets:
        columns.append(_packed(S_FILE, S_POSITION).alias(task.PARTNER))
    return columns, only


def _only(work: Work) -> int | None:
    """What becomes of every row, where that is the same for all."""
    if work.keep or work.meets:
        return task.COPIED if work.keep and not work.clauses else None
    kinds = {task.DELETED if c.sets is None else task.UPDATED for c in work.clauses}
    return kinds.pop() if len(kinds) == 1 else None


def _packed(file: str, position: str) -> Column:
    return F.shiftleft(named(file), task.POSITION_BITS).bitwiseOR(named(position))


def _new_rows(spark: SparkSession, work: Insertion, number: int) -> DataFrame:
    """The rows that the clause of this number takes and none before it."""
    rows = source_rows(spark, work.source, work.met).alias(work.source.alias or SOURCE_ALIAS)
    for earlier in work.clauses[:number]:
        taken = F.lit(True) if earlier.condition is None else F.coalesce(value_of(earlier.condition), F.lit(False))
        rows = rows.where(~taken)
    condition = work.clauses[number].condition
    return rows if condition is None else rows.where(value_of(condition))


def _without_void(spec: WriteSpec) -> WriteSpec:
    return replace(spec, fields=tuple(f for f in spec.fields if f.type != VOID))

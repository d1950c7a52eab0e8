"""Change rows with Spark: find those that clauses take, store what becomes of them, and tell which they were.

One job does it all: rows are read with their addresses, joined with the pinned source where there is one, given to
the first clause that takes them, and stored by the tasks that also tell their addresses as bitmaps.

1. Only columns that a condition, an assignment or a written row needs are read.
2. Two rows of a source that take one row of the target are found when the tasks' bitmaps meet, wherever Spark sent
   them.
3. A value is computed only for rows whose clause assigns it, and converted as an assignment in SQL is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.env import system
from holdfast.errors import Unsupported
from holdfast.model.files import DV, FileTable, Slab
from holdfast.model.mutation import STAGED
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.parquet.fit import VOID
from holdfast.parquet.write import WriteSpec
from holdfast.plan.change import SOURCE_ALIAS, Done, Inserted, Insertion, Pinned, Positions, Side, Source, Work
from holdfast.plan.merge_on import references
from holdfast.plan.scan import Condition, Request, plan_scan
from holdfast.rows import columns as names
from holdfast.schema.constraints import demands, quoted
from holdfast.schema.enforce import Assignment, fit, refuse_doubles
from holdfast.schema.identity import advanced
from holdfast.schema.types import LONG, STRING, Field, Map, Primitive
from holdfast.spark import change_task as task
from holdfast.spark.assign import assigned, value_of
from holdfast.spark.carry import by_value, carried
from holdfast.spark.column_text import sql_of
from holdfast.spark.conditions import below
from holdfast.spark.constraints import prepare, violation_of
from holdfast.spark.progress import tasks
from holdfast.spark.scan import SparkRunner
from holdfast.spark.types import named, spark_struct, spark_to_struct
from holdfast.spark.write import write_frame
from holdfast.storage.remote import RemoteStore
from holdfast.storage.sink import open_sink

TARGET = "__hf_target"  # alias where the user gave none
T_FILE, T_POSITION, T_ID, T_VERSION = "__hf_t_file", "__hf_t_position", "__hf_t_id", "__hf_t_version"
S_FILE, S_POSITION = "__hf_s_file", "__hf_s_position"
CLAUSE = "__hf_clause"
MET = "__hf_met"
BROADCAST_ROWS = 100_000
BROADCAST_BYTES = 16 << 20  # compressed, in files
BROADCAST_KEYS = 2_000_000  # rows of a source of which only what finds matches is broadcast

_ANSWER = (
    Field("kind", STRING),
    Field("key", STRING),
    Field("size", LONG),
    Field("modified_ms", LONG),
    Field("partition_values", Map(STRING, STRING)),
    Field("num_records", LONG),
    Field("stats", STRING),
    Field("file", LONG),
    Field("bits", Primitive("binary")),
    Field("rows", LONG),
)


@dataclass(frozen=True)
class SparkChanger:
    """Changes rows on a Spark session, classic or Connect."""

    spark: SparkSession

    def pin(self, rows: DataFrame, prefix: str, target: Snapshot) -> Pinned:
        """Evaluate a source once, and write its rows below the table."""
        schema = spark_to_struct(rows.schema, where="the source")
        refuse_doubles(schema)
        if not schema.fields:
            raise Unsupported("a source without columns cannot be merged")
        spec = WriteSpec(fields=schema.fields, prefix=prefix, codec="snappy")
        with tasks(self.spark, "reading the source"):
            return Pinned(schema, write_frame(rows, spec, target.location))

    def change(self, work: Work) -> Done:
        """Find rows, and store what becomes of them."""
        if not len(work.target.files):
            return Done()
        rows = _taken(_joined(self.spark, work), work)
        does = _does(work)
        if work.store is None:
            return self._run(rows.select(*_addresses(work, does)), None, None, 0, work.target.snapshot, work)
        made = assigned(rows, work, alias=_alias_of_target(work), clause=CLAUSE, does=does)
        spec = _without_void(work.store.data)
        stored = [
            *(named(f.name) for f in spec.fields),
            *([named(T_ID)] if spec.id_column else []),
            *([F.when(does == task.COPIED, named(T_VERSION))] if spec.version_column else []),
        ]
        feed = None if work.store.feed is None else _without_void(work.store.feed)
        before = [] if feed is None else [named(made.before[f.name]) for f in feed.fields[:-1]]
        out = made.frame.coalesce(1) if work.together else self._placed(made.frame, spec, keep=work.keep)
        columns = [c.alias(f"c{i}") for i, c in enumerate((*stored, *before))]
        out = _by_partition(out.select(*columns, *_addresses(work, does)), spec)
        return self._run(out, spec, feed, len(stored), work.target.snapshot, work)

    def insert(self, work: Insertion) -> Inserted:
        """Store rows of a source that found none."""
        staged, feeds = [STAGED.empty_table()], [STAGED.empty_table()]
        schema, marks = work.schema, dict[str, int]()
        for number, clause in enumerate(work.clauses):
            frame = _new_rows(self.spark, work, number)
            values = [value_of(s.value).alias(s.path[0]) for s in clause.sets or ()]
            incoming = frame.select(*values)
            fitted = fit(spark_to_struct(incoming.schema), schema, assignment=Assignment.ANSI)
            prepared = prepare(incoming, fitted, demands(schema, work.store.properties, fitted))
            spec = _without_void(work.store.data)
            feed = None if work.store.feed is None else _without_void(work.store.feed)
            columns = [named(f.name).alias(f"c{i}") for i, f in enumerate(spec.fields)]
            out = _by_partition(prepared.frame.select(*columns, *_no_addresses()), spec)
            done = self._run(out, spec, feed, len(columns), work.source.snapshot, None)
            staged.append(done.staged)
            feeds.append(done.feed)
            marks |= prepared.marks()
            schema = advanced(schema, prepared.marks()) if prepared.marks() else schema
        return Inserted(pa.concat_tables(staged), pa.concat_tables(feeds), marks)

    def colliding(self, work: Work, limit: int) -> Sequence[str]:
        """Some rows of the source that take one row of the target together."""
        assert work.source is not None, "only a source has rows that collide"
        rows = _taken(_joined(self.spark, work), replace(work, meets=False, keep=False))
        rows = rows.where(named(S_FILE).isNotNull() & named(CLAUSE).isNotNull())
        alias = work.source.alias or SOURCE_ALIAS
        shown = [F.col(f"{quoted(alias)}.{quoted(f.name)}").alias(f.name) for f in work.source.snapshot.schema.fields]
        texts = rows.select(named(T_FILE), named(T_POSITION), F.to_json(F.struct(*shown)).alias("row"))
        grouped = texts.groupBy(T_FILE, T_POSITION).agg(F.count("*").alias("n"), F.collect_list("row").alias("rows"))
        found = grouped.where("n > 1").select(F.slice("rows", 1, 3).alias("rows")).limit(limit).toArrow()
        return [" and ".join(texts) for texts in found.column("rows").to_pylist()]

    def _placed(self, frame: DataFrame, spec: WriteSpec, *, keep: bool) -> DataFrame:
        """Changed rows are few and scattered: brought together they make few files. Copied ones stay where they are."""
        if keep or (self.spark.conf.get("spark.sql.adaptive.enabled") or "").lower() != "true":
            return frame
        return frame.hint("rebalance", *spec.partition_columns)

    def _run(
        self,
        rows: DataFrame,
        data: WriteSpec | None,
        feed: WriteSpec | None,
        stored: int,
        snapshot: Snapshot,
        work: Work | None,
    ) -> Done:
        location = snapshot.location
        store = carried(location.store)
        if store.url.startswith("memory:"):
            raise Unsupported(f"{location.url} is in this process's memory, where Spark's workers cannot write")
        sink = open_sink(replace(location, store=store), system().now_ms)
        needs = ("numpy", "pyroaring", *(("obstore",) if isinstance(store, RemoteStore) else ()))
        layout = task.Layout(data, feed, stored)
        function = by_value(task.changing(layout, sink), needs, work="change this table")
        try:
            # As many rows as there are files and bitmaps.
            with tasks(self.spark, "changing rows"):
                answer = rows.mapInArrow(function, spark_struct(_ANSWER)).toArrow().cast(task.ANSWER)
        except PySparkException as error:
            if (violation := violation_of(error)) is not None:
                raise violation from error
            raise
        return _done(answer, work)


def _by_partition(rows: DataFrame, spec: WriteSpec) -> DataFrame:
    """Rows of one partition next to each other, so that a task has one file open."""
    if not spec.partition_columns:
        return rows
    at = {f.name: i for i, f in enumerate(spec.fields)}
    return rows.sortWithinPartitions(*(f"c{at[name]}" for name in spec.partition_columns))


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
    copied = answer.filter(pc.equal(answer.column("kind"), task.ROWS_COPIED)).column("rows")
    return Done(
        files(task.DATA_FILE),
        files(task.FEED_FILE),
        updated,
        deleted,
        pc.sum(copied).as_py() or 0,
        met,
        n_updated + n_deleted - sum(map(len, both)),
    )


def _united(answer: pa.Table, kind: str, keys: Sequence[str]) -> tuple[dict[str, BitMap64], int]:
    """Bitmaps of all tasks by file key, and how many rows they were made of."""
    told = answer.filter(pc.equal(answer.column("kind"), kind)).select(["file", "bits", "rows"])
    found: dict[str, BitMap64] = {}
    for row in told.to_pylist():  # one per file and task
        key, bits = keys[row["file"]], BitMap64.deserialize(row["bits"])
        found[key] = found[key] | bits if key in found else bits
    return found, pc.sum(told.column("rows")).as_py() or 0


def _alias_of_target(work: Work) -> str:
    return work.alias or TARGET


def _joined(spark: SparkSession, work: Work) -> DataFrame:
    """Rows of the target with their addresses, beside their partners in the source."""
    plan = replace(work.target, where=_readable(work.target.where), metadata=_target_metadata(work))
    target = SparkRunner(spark).scan(plan, work.hidden).alias(_alias_of_target(work))
    if work.source is None:
        return target
    # Beside a source a name may be ambiguous that is none where a row stands alone.
    conditions = {
        _alone(i): c.condition for i, c in enumerate(work.clauses) if c.side is Side.ALONE and c.condition is not None
    }
    for name, condition in conditions.items():
        target = target.withColumn(name, F.coalesce(value_of(condition), F.lit(False)))
    source = work.source
    alias = source.alias or SOURCE_ALIAS
    rows = _source_rows(spark, source, {}).alias(alias)
    alone = work.keep or any(c.side is Side.ALONE for c in work.clauses)
    on = value_of(source.on)
    matched = [c for c in work.clauses if c.side is Side.MATCHED]
    if work.keep and all(c.condition is not None for c in matched):
        # A row that is copied must come once, however many rows of the source match and do not take it.
        takes = reduce(or_, (F.coalesce(value_of(c.condition), F.lit(False)) for c in matched), F.lit(False))
        if any(c.side is Side.ALONE for c in work.clauses):
            target = _with_met(target, rows, on)
        on = on & takes
    how = "left" if alone else "inner"
    size = pc.sum(source.snapshot.files.column("size")).as_py() or 0
    if source.rows <= BROADCAST_ROWS and size <= BROADCAST_BYTES:
        return target.join(F.broadcast(rows), on, how)
    finding = None if work.keep else _finding_columns(work)
    if finding is None or source.rows > BROADCAST_KEYS or not source.keys:
        return target.join(rows, on, how)
    # What finds matches is small enough for every task; the rest of a source row joins its match, which are few.
    order = [f.name for f in source.snapshot.schema.fields]
    first = rows.select(*(named(n) for n in order if n in finding), named(S_FILE), named(S_POSITION)).alias(alias)
    found = _taken(target.join(F.broadcast(first), on, how), work)
    rest = [n for n in order if n not in finding]
    if not rest:
        return found
    again = _source_rows(spark, source, {}).select(
        *(named(n) for n in rest), named(S_FILE).alias("__hf_r_file"), named(S_POSITION).alias("__hf_r_position")
    )
    same = (named(S_FILE) == named("__hf_r_file")) & (named(S_POSITION) == named("__hf_r_position"))
    return found.join(again.alias(alias), same, how)


def _with_met(target: DataFrame, rows: DataFrame, on: Column) -> DataFrame:
    """Rows of the target, with a sign on those that some row of the source matches."""
    pairs = target.join(rows, on, "inner").select(named(T_FILE).alias("__hf_m_file"), named(T_POSITION).alias(MET))
    same = (named(T_FILE) == named("__hf_m_file")) & (named(T_POSITION) == named(MET))
    return target.join(pairs.distinct(), same, "left")


def _alone(clause: int) -> str:
    """Where the condition of a clause on rows that stand alone is kept."""
    return f"__hf_alone{clause}"


def _finding_columns(work: Work) -> frozenset[str] | None:
    """The columns of the source that decide which rows are taken; None where that cannot be read."""
    assert work.source is not None, "asked only of a source"
    source = work.source
    found: frozenset[str] = frozenset()
    matched = [c.condition for c in work.clauses if c.side is Side.MATCHED and c.condition is not None]
    for expression in (source.on, *matched):
        text = expression if isinstance(expression, str) else sql_of(expression)
        named_here = references(text, source.snapshot.schema, source.alias)
        if named_here is None:
            return None
        found |= named_here
    return found


def _taken(rows: DataFrame, work: Work) -> DataFrame:
    """Rows with the number of the clause that takes them; those nobody takes only where they are wanted."""
    if CLAUSE in rows.columns:
        return rows
    met = named(S_FILE).isNotNull() if work.source is not None else F.lit(False)
    apart = ~(named(MET).isNotNull() if MET in rows.columns else met)
    number = F.lit(None).cast("int")
    for i, clause in reversed(list(enumerate(work.clauses))):
        applies = met if clause.side is Side.MATCHED else apart
        if clause.condition is not None and clause.side is Side.ALONE and work.source is not None:
            applies = applies & named(_alone(i))
        elif clause.condition is not None:
            applies = applies & F.coalesce(value_of(clause.condition), F.lit(False))
        number = F.when(applies, F.lit(i)).otherwise(number)
    rows = rows.withColumn(CLAUSE, number)
    if work.keep:
        return rows
    taken = named(CLAUSE).isNotNull()
    return rows.where(taken | met if work.meets else taken)


def _does(work: Work) -> Column:
    """What becomes of a row, from the clause that takes it."""
    updates = [i for i, c in enumerate(work.clauses) if c.sets is not None]
    taken = F.when(named(CLAUSE).isin(updates), task.UPDATED) if updates else F.when(F.lit(False), task.UPDATED)
    taken = taken.when(named(CLAUSE).isNotNull(), task.DELETED)
    return taken.otherwise(task.COPIED if work.keep else task.MET)


def _addresses(work: Work, does: Column) -> list[Column]:
    meets = work.source is not None and work.meets
    nothing = F.lit(None).cast("bigint")
    return [
        does.cast("int").alias(task.DOES),
        named(T_FILE).alias(task.FILE),
        named(T_POSITION).alias(task.POSITION),
        (named(S_FILE) if meets else nothing).alias(task.SOURCE_FILE),
        (named(S_POSITION) if meets else nothing).alias(task.SOURCE_POSITION),
    ]


def _no_addresses() -> list[Column]:
    nothing = (task.FILE, task.POSITION, task.SOURCE_FILE, task.SOURCE_POSITION)
    return [
        F.lit(task.INSERTED).cast("int").alias(task.DOES),
        *(F.lit(None).cast("bigint").alias(name) for name in nothing),
    ]


def _target_metadata(work: Work) -> Mapping[str, str]:
    asked = {names.FILE_NUMBER: T_FILE, names.ROW_INDEX: T_POSITION}
    if work.store is not None and work.store.data.id_column is not None:
        asked[names.ROW_ID] = T_ID
    if work.store is not None and work.store.data.version_column is not None:
        asked[names.ROW_COMMIT_VERSION] = T_VERSION
    return asked


def _source_rows(spark: SparkSession, source: Source, met: Positions) -> DataFrame:
    """The pinned rows with their addresses, without those that are met."""
    snapshot = source.snapshot if not met else _hiding(source.snapshot, met)
    plan = plan_scan(snapshot, Request())
    plan = replace(plan, metadata={names.FILE_NUMBER: S_FILE, names.ROW_INDEX: S_POSITION})
    return SparkRunner(spark).scan(plan, HiddenRows(met))


def _hiding(snapshot: Snapshot, positions: Positions) -> Snapshot:
    """The pinned files with a sign that some of their rows are to be left out."""
    files = snapshot.files.table
    sign = [{"id": key, "cardinality": len(positions[key])} if key in positions else None for key in _keys(files)]
    marked = files.set_column(files.column_names.index("dv"), "dv", pa.array(sign, DV))
    slabs = snapshot.files.slabs
    assert len(slabs) == 1, "pinned files come together"
    return replace(snapshot, files=FileTable((Slab(marked, slabs[0].stats),)))


def _keys(files: pa.Table) -> Iterator[str]:
    yield from files.column("key").to_pylist()


def _new_rows(spark: SparkSession, work: Insertion, number: int) -> DataFrame:
    """The rows that the clause of this number takes and none before it."""
    rows = _source_rows(spark, work.source, work.met).alias(work.source.alias or SOURCE_ALIAS)
    for earlier in work.clauses[:number]:
        taken = F.lit(True) if earlier.condition is None else F.coalesce(value_of(earlier.condition), F.lit(False))
        rows = rows.where(~taken)
    condition = work.clauses[number].condition
    return rows if condition is None else rows.where(value_of(condition))


def _readable(where: Condition | None) -> Condition | None:
    """A condition that only skips: made of what was understood, where the user's own is applied elsewhere."""
    if where is None or where.source is not None:
        return where
    return replace(where, source=below(where.predicate, named))


def _without_void(spec: WriteSpec) -> WriteSpec:
    return replace(spec, fields=tuple(f for f in spec.fields if f.type != VOID))

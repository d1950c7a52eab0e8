"""Joins the rows of a target with a source, and finds the clause that applies to each row.

1. A first job reads only the columns of the conditions and leaves out files without a row to change, where reading all
   columns of these files would cost more.
2. A small source is sent to every task. Of a larger one only what finds matches is, and the rest of a source row
   joins its match, which are few. A source beyond that is shuffled, and so is the target.
3. The condition of a clause for unmatched rows is evaluated for unmatched rows only.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.column_text import sql_of
from holdfast.engines.spark.conditions import below
from holdfast.engines.spark.dml.assign import value_of
from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.session.progress import tasks
from holdfast.engines.spark.types import named
from holdfast.model.files import DV, FileTable, Slab
from holdfast.model.snapshot import HiddenRows, Snapshot
from holdfast.plan.dml.change import SOURCE_ALIAS, Clause, Positions, Side, Source, Work
from holdfast.plan.dml.merge_condition import references
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.plan.scan.request import Condition, Request, plan_scan
from holdfast.predicate.parse import parse
from holdfast.predicate.records import is_safe_below
from holdfast.rows import columns as names
from holdfast.schema.types import Struct

TARGET = "__hf_target"  # alias where the user gave none
T_FILE, T_POSITION, T_ID, T_VERSION = "__hf_t_file", "__hf_t_position", "__hf_t_id", "__hf_t_version"
S_FILE, S_POSITION = "__hf_s_file", "__hf_s_position"
CLAUSE = "__hf_clause"
MET = "__hf_met"
BROADCAST_ROWS = 100_000
BROADCAST_BYTES = 16 << 20  # compressed, in files
BROADCAST_KEYS = 2_000_000  # rows of a source of which only what finds matches is broadcast
LOOK_BYTES = 128 << 20  # of files: one look at fewer costs more than it saves


@dataclass(frozen=True)
class Matches:
    """Rows that clauses take; `gathered` where they come out of a shuffle that has brought them together."""

    rows: DataFrame
    gathered: bool


@dataclass(frozen=True)
class Looked:
    """The work that a first look has left, and how many rows it takes where that is known."""

    work: Work
    rows: int | None = None


def looked(spark: SparkSession, work: Work) -> Looked:
    """Leave out files without a row to take, where that is worth a look."""
    size = pc.sum(work.target.files.column("size")).as_py() or 0
    if size < LOOK_BYTES or work.keep or not _reads_more(work):
        return Looked(work)
    rows = _target(spark, work)
    if work.source is not None:
        partners = source_rows(spark, work.source, {}).alias(work.source.alias or SOURCE_ALIAS)
        rows = rows.join(F.broadcast(partners), value_of(work.source.on), "inner")
    counts = taken(rows, work).groupBy(T_FILE).agg(F.count("*").alias("rows"))
    with tasks(spark, "finding rows"):
        counted = counts.toArrow()  # a row per file
    keep = pc.is_in(pa.array(range(len(work.target.files)), pa.int64()), value_set=counted.column(T_FILE))
    target = replace(work.target, files=work.target.files.filter(keep))
    return Looked(replace(work, target=target), pc.sum(counted.column("rows")).as_py() or 0)


def matches(spark: SparkSession, work: Work) -> Matches:
    """The rows that clauses take; where the work keeps them, the others too."""
    target = _target(spark, work)
    if work.source is None:
        return Matches(taken(target, work), gathered=False)
    source = work.source
    alias = source.alias or SOURCE_ALIAS
    rows = source_rows(spark, source, {}).alias(alias)
    alone = [c for c in work.clauses if c.side is Side.ALONE]
    matched = [c for c in work.clauses if c.side is Side.MATCHED]
    on = value_of(source.on)
    # A row that is copied must come once, however many rows of the source match and do not take it.
    once = work.keep and all(c.condition is not None for c in matched)
    if alone and (once or any(_may_fail(c, work) for c in alone)):
        target = _with_met(target, rows, on)
    target = _with_alone(target, work)
    if once:
        on = on & reduce(or_, (F.coalesce(value_of(c.condition), F.lit(False)) for c in matched), F.lit(False))
    how = "left" if work.keep or alone else "inner"
    size = pc.sum(source.snapshot.files.column("size")).as_py() or 0
    if source.rows <= BROADCAST_ROWS and size <= BROADCAST_BYTES:
        return Matches(taken(target.join(F.broadcast(rows), on, how), work), gathered=False)
    finding = None if work.keep else _finding_columns(work)
    if finding is None or source.rows > BROADCAST_KEYS or not source.keys:
        return Matches(taken(target.join(rows, on, how), work), gathered=True)
    order = [f.name for f in source.snapshot.schema.fields]
    first = rows.select(*(named(n) for n in order if n in finding), named(S_FILE), named(S_POSITION)).alias(alias)
    joined = taken(target.join(F.broadcast(first), on, how), work)
    rest = [n for n in order if n not in finding]
    if not rest:
        return Matches(joined, gathered=False)
    again = source_rows(spark, source, {}).select(
        *(named(n) for n in rest), named(S_FILE).alias("__hf_r_file"), named(S_POSITION).alias("__hf_r_position")
    )
    same = (named(S_FILE) == named("__hf_r_file")) & (named(S_POSITION) == named("__hf_r_position"))
    return Matches(joined.join(again.alias(alias), same, how), gathered=size > BROADCAST_BYTES)


def taken(rows: DataFrame, work: Work) -> DataFrame:
    """Rows with the number of the clause that takes them; those nobody takes only where they are wanted."""
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
    is_taken = named(CLAUSE).isNotNull()
    return rows.where(is_taken | met if work.meets else is_taken)


def alias_of_target(work: Work) -> str:
    return work.alias or TARGET


def source_rows(spark: SparkSession, source: Source, met: Positions) -> DataFrame:
    """The pinned rows with their addresses, without those that are met."""
    snapshot = source.snapshot if not met else _hiding(source.snapshot, met)
    plan = plan_scan(snapshot, Request())
    plan = replace(plan, metadata=MetadataColumns({S_FILE: names.FILE_NUMBER, S_POSITION: names.ROW_INDEX}))
    return scan_frame(spark, plan, HiddenRows(met))


def _target(spark: SparkSession, work: Work) -> DataFrame:
    plan = replace(
        work.target, where=_readable(work.target.where), metadata=MetadataColumns.of_outputs(_target_metadata(work))
    )
    rows = scan_frame(spark, plan, work.hidden)
    rows = rows.select("*", *named_metadata(work)) if work.metadata else rows
    return rows.alias(alias_of_target(work))


def named_metadata(work: Work) -> list[Column]:
    """The metadata columns that clauses name, under the names they call them by."""
    scanned = _target_metadata(work)
    return [named(scanned[canonical]).alias(name) for name, canonical in work.metadata.canonical.items()]


def _target_metadata(work: Work) -> Mapping[str, str]:
    metadata = {names.FILE_NUMBER: T_FILE, names.ROW_INDEX: T_POSITION}
    if work.store is not None and work.store.data.id_column is not None:
        metadata[names.ROW_ID] = T_ID
    if work.store is not None and work.store.data.version_column is not None:
        metadata[names.ROW_COMMIT_VERSION] = T_VERSION
    return {**{canonical: f"__hf_m{canonical}" for canonical in work.metadata.canonical.values()}, **metadata}


def _reads_more(work: Work) -> bool:
    """Whether storing rows takes columns of the target that finding them does not, and some files may have none."""
    if work.store is None or (work.store.feed is None and _sets_all(work)):
        return False
    expressions = [c.condition for c in work.clauses]
    if work.source is not None:
        if work.source.rows > 2 * len(work.target.files) or any(c.side is Side.ALONE for c in work.clauses):
            return False
        expressions = [work.source.on, *(c for c in expressions if c is not None)]
    named_here: frozenset[str] = frozenset()
    for expression in expressions:
        columns = None if expression is None else _references(expression, work.target.snapshot.schema, work.alias)
        if columns is None:
            return False
        named_here |= columns
    return 2 * len(named_here) <= len(work.schema.fields)


def _sets_all(work: Work) -> bool:
    """Whether every row that is written has all its columns set."""
    columns = {f.name for f in work.schema.fields}
    return all({s.path[0] for s in c.sets} >= columns for c in work.clauses if c.sets is not None)


def _with_alone(target: DataFrame, work: Work) -> DataFrame:
    """Rows of the target with what clauses ask of those that stand alone.

    Beside a source a name may be ambiguous that is none where a row stands alone, so it is asked before they join.
    """
    for i, clause in enumerate(work.clauses):
        if clause.side is Side.ALONE and clause.condition is not None:
            holds = value_of(clause.condition)
            if MET in target.columns:
                holds = F.when(named(MET).isNull(), holds)
            target = target.withColumn(_alone(i), F.coalesce(holds, F.lit(False)))
    return target


def _may_fail(clause: Clause, work: Work) -> bool:
    """Whether a condition can raise on some row: anything but comparisons of columns with literals."""
    if clause.condition is None:
        return False
    return not is_safe_below(parse(_text(clause.condition), work.named, zone="UTC"))


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
    columns: frozenset[str] = frozenset()
    matched = [c.condition for c in work.clauses if c.side is Side.MATCHED and c.condition is not None]
    for expression in (source.on, *matched):
        named_here = _references(expression, source.snapshot.schema, source.alias)
        if named_here is None:
            return None
        columns |= named_here
    return columns


def _references(expression: str | Column, schema: Struct, alias: str | None) -> frozenset[str] | None:
    return references(_text(expression), schema, alias)


def _text(expression: str | Column) -> str:
    return expression if isinstance(expression, str) else sql_of(expression)


def _hiding(snapshot: Snapshot, positions: Positions) -> Snapshot:
    """The pinned files with a sign that some of their rows are to be left out."""
    files = snapshot.files.table
    keys: Sequence[str] = files.column("key").to_pylist()
    sign = [{"id": key, "cardinality": len(positions[key])} if key in positions else None for key in keys]
    marked = files.set_column(files.column_names.index("dv"), "dv", pa.array(sign, DV))
    slabs = snapshot.files.slabs
    assert len(slabs) == 1, "pinned files come together"
    return replace(snapshot, files=FileTable((Slab(marked, slabs[0].stats),)))


def _readable(where: Condition | None) -> Condition | None:
    """A condition that only skips: made of what was understood, where the user's own is applied elsewhere."""
    if where is None or where.source is not None:
        return where
    return replace(where, source=below(where.predicate, named))

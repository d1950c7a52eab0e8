"""Runs change queries on Spark with native scans and one join; no row comes to the driver.

Each side needs as few scans as there are readings, usually one, however many commits there are: the commit of a row is
looked up in packed numbers that are joined by file, as hidden rows are.

1. Rows that need no partner are not shuffled.
2. One full outer join pairs rows on the commit and the row's id, or its key columns.
3. Two rows of one side with the same key columns make the job fail.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast.engines.spark.scan import facts
from holdfast.engines.spark.scan.broadcast import small_table
from holdfast.engines.spark.scan.labels import look_up, packed, width_of
from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.scan.scratch import scratch_for
from holdfast.engines.spark.types import named, spark_struct
from holdfast.model.snapshot import HiddenRows
from holdfast.plan.changefeed.moves import Label, Reading, without_dvs
from holdfast.plan.changefeed.query import (
    AFTER,
    BEFORE,
    CHANGE_TYPE,
    COMMIT_TIMESTAMP,
    COMMIT_VERSION,
    DELETE,
    ID,
    INDEX,
    INSERT,
    NUMBER,
    ROW_VERSION,
    ChangesPlan,
    scan_of,
    scan_of_recorded,
)
from holdfast.rows.columns import ROW_ID
from holdfast.schema.constraints import quoted
from holdfast.schema.types import LONG, STRING, Array, DataType, Field, Map, Primitive, Struct

_COMMIT, _CHANGE, _MOVE = "__hf_commit", "__hf_change", "__hf_move"
_JOINED, _START, _WHOLE, _MOVES = "__hf_joined", "__hf_start", "__hf_whole", "__hf_moves"
_OLD, _NEW, _ROW = "__hf_old", "__hf_new", "__hf_row"


def changes(spark: SparkSession, plan: ChangesPlan) -> DataFrame:
    """The changes a plan asks for."""
    parts = [_certain(spark, plan, r) for r in plan.certain]
    parts += [_recorded(spark, plan, r) for r in plan.recorded]
    if plan.left or plan.arrived:
        parts.append(_paired(spark, plan))
    if not parts:
        return spark.createDataFrame([], spark_struct(_outputs(plan)))
    return reduce(DataFrame.unionAll, parts)


def _certain(spark: SparkSession, plan: ChangesPlan, reading: Reading) -> DataFrame:
    rows = _read(spark, plan, reading, plan.fields)
    return rows.select(*(named(f.name) for f in plan.fields), *_given(plan, _CHANGE, F.col(ID)))


def _recorded(spark: SparkSession, plan: ChangesPlan, reading: Reading) -> DataFrame:
    rows = scan_frame(spark, scan_of_recorded(plan, reading), HiddenRows())
    rows = _labelled(spark, plan, reading, rows).where(F.col(CHANGE_TYPE).isin(sorted(plan.shows)))
    return rows.select(*(named(f.name) for f in plan.fields), *_given(plan, CHANGE_TYPE, F.lit(None).cast("bigint")))


def _read(spark: SparkSession, plan: ChangesPlan, reading: Reading, fields: Sequence[Field]) -> DataFrame:
    """The rows of a reading: columns, id, row version, commit and change."""
    scan = scan_of(plan, reading, fields)
    rows = scan_frame(spark, replace(scan, files=without_dvs(scan.files)), HiddenRows())
    rows = _labelled(spark, plan, reading, rows)
    if ID not in rows.columns:
        rows = rows.withColumns({name: F.lit(None).cast("bigint") for name in (ID, ROW_VERSION)})
    return rows.select(*(named(f.name) for f in fields), ID, ROW_VERSION, _COMMIT, _CHANGE)


def _rows(spark: SparkSession, plan: ChangesPlan, readings: Sequence[Reading], fields: Sequence[Field]) -> DataFrame:
    if readings:
        return reduce(DataFrame.unionAll, [_read(spark, plan, r, fields) for r in readings])
    extra = [*(Field(name, LONG) for name in (ID, ROW_VERSION, _COMMIT)), Field(_CHANGE, STRING)]
    return spark.createDataFrame([], spark_struct([*fields, *extra]))


def _labelled(spark: SparkSession, plan: ChangesPlan, reading: Reading, rows: DataFrame) -> DataFrame:
    """The rows that are wanted, each with the commit it belongs to and what happened to it."""
    labels = [label for several in reading.labels for label in several]  # one per move of a file
    starts = np.cumsum([0, *(len(several) for several in reading.labels)])[:-1]
    if not reading.slices:
        return _with_label(rows, labels, NUMBER)
    keys = reading.files.column("key").to_pylist()
    numbers = np.arange(len(keys), dtype=np.int64)
    whole = pa.array([key not in reading.slices for key in keys])
    width = width_of(max(len(slices) for slices in reading.slices.values()))
    columns = {
        _JOINED: pa.array(numbers),
        _START: pa.array(starts),
        _WHOLE: whole,
        _MOVES: packed([reading.slices.get(key, ()) for key in keys], width),
    }
    types = [Field(_JOINED, LONG), Field(_START, LONG), Field(_WHOLE, Primitive("boolean"))]
    schema = spark_struct([*types, Field(_MOVES, Array(Array(LONG)))])
    table = small_table(spark, pa.table(columns), schema, scratch_for(plan.snapshot.location))
    joined = rows.join(F.broadcast(table), F.col(NUMBER) == F.col(_JOINED), "left")
    unknown = "cast(raise_error('a row of a file that no commit moved was read') AS int)"
    which = look_up(_MOVES, INDEX, width)
    number = f"CASE WHEN {_JOINED} IS NULL THEN {unknown} WHEN {_WHOLE} THEN 1 ELSE {which} END"
    moved = joined.withColumn(_MOVE, F.expr(number)).where((F.col(_MOVE) > 0) & facts.barrier())
    return _with_label(moved, labels, f"{_START} + {_MOVE} - 1")


def _paired(spark: SparkSession, plan: ChangesPlan) -> DataFrame:
    keys = plan.keys or (ID,)
    left = _side(_rows(spark, plan, plan.left, plan.needs_left), plan.needs_left, keys, _OLD)
    arrived = _side(_rows(spark, plan, plan.arrived, plan.fields), plan.fields, keys, _NEW)
    if plan.keys:
        left, arrived = (_refusing_doubled(plan, df, p) for df, p in ((left, _OLD), (arrived, _NEW)))
    on = F.col(_OLD + _COMMIT) == F.col(_NEW + _COMMIT)
    for n in range(len(keys)):
        old, new = F.col(f"{_OLD}_key_{n}"), F.col(f"{_NEW}_key_{n}")
        on &= old.eqNullSafe(new) if plan.keys else old == new
    both = left.join(arrived, on, "full_outer")
    return both.where(~_is_carried(plan)).selectExpr(f"inline({_events(plan)})")


def _with_label(rows: DataFrame, labels: Sequence[Label], number: str) -> DataFrame:
    """Rows with the commit and the change of the label that a number means."""
    versions = {label.version for label in labels}
    changes = {label.change for label in labels}
    return rows.withColumns(
        {
            _COMMIT: F.lit(versions.pop()).cast("bigint")
            if len(versions) == 1
            else F.expr(_looked_up([label.version for label in labels], "bigint", number)),
            _CHANGE: F.lit(changes.pop())
            if len(changes) == 1
            else F.expr(_looked_up([label.change for label in labels], "string", number)),
        }
    )


def _looked_up(values: Sequence[int] | Sequence[str], type_: str, number: str) -> str:
    """A value by its number, raising where there is none; the list is folded when planned."""
    unknown = "raise_error('a row of a file that no commit moved was read')"
    array = f"from_json('{json.dumps(list(values))}', 'array<{type_}>')"
    return f"coalesce(get({array}, cast({number} AS int)), cast({unknown} AS {type_}))"


def _side(rows: DataFrame, fields: Sequence[Field], keys: Sequence[str], prefix: str) -> DataFrame:
    """One side of the pairing: the commit, what rows are paired by, the row's version, and the row."""
    row = F.struct(*(named(f.name) for f in fields)) if fields else F.lit(True)
    paired = [named(key).alias(f"{prefix}_key_{n}") for n, key in enumerate(keys)]
    facts_of = [F.col(name).alias(prefix + name) for name in (_COMMIT, ID, ROW_VERSION)]
    return rows.select(*facts_of, *paired, row.alias(prefix + _ROW))


def _refusing_doubled(plan: ChangesPlan, rows: DataFrame, prefix: str) -> DataFrame:
    names = [f"{prefix}_key_{n}" for n in range(len(plan.keys))]
    many = F.count("*").over(Window.partitionBy(prefix + _COMMIT, *names))
    counted = rows.withColumn("__hf_many", many)
    message = f"keys=[{', '.join(plan.keys)}] do not identify a row: add columns. Several in one version have "
    shown = F.concat(F.lit(message), F.to_json(F.struct(*names)))
    kept = F.when(F.col("__hf_many") > 1, F.raise_error(shown).cast("boolean")).otherwise(F.lit(True))
    return counted.where(kept).drop("__hf_many")


def _is_carried(plan: ChangesPlan) -> Column:
    """Whether both sides have the row, and it is the same."""
    both = F.col(_OLD + _COMMIT).isNotNull() & F.col(_NEW + _COMMIT).isNotNull()
    kept = F.col(_OLD + ROW_VERSION) == F.col(_NEW + ROW_VERSION)
    if not (plan.keys or plan.drop_unchanged):
        return F.coalesce(both & kept, F.lit(False))
    same = F.lit(True)
    for f in plan.fields:
        old, new = (F.col(p + _ROW)[f.name] for p in (_OLD, _NEW))
        if _is_unordered(f.type):
            old, new = F.to_json(F.struct(old)), F.to_json(F.struct(new))
        same &= old.eqNullSafe(new)
    return F.coalesce(both & (same if plan.keys else same | kept), F.lit(False))


def _is_unordered(type_: DataType) -> bool:
    """Whether Spark cannot compare values of a type."""
    match type_:
        case Map() | Primitive("variant"):
            return True
        case Array(element, _):
            return _is_unordered(element)
        case Struct(fields):
            return any(_is_unordered(f.type) for f in fields)
        case _:
            return False


def _events(plan: ChangesPlan) -> str:
    """Up to two changes of a pair, as an array of rows."""
    old, new = f"{_OLD}{_COMMIT} IS NOT NULL", f"{_NEW}{_COMMIT} IS NOT NULL"
    cases = []
    if plan.shows & {DELETE, BEFORE}:
        types = [(f"{new}", BEFORE), ("true", DELETE)]
        cases.append(f"CASE WHEN {old} THEN {_event(plan, types, _OLD)} END")
    if plan.shows & {INSERT, AFTER}:
        types = [(f"{old}", AFTER), ("true", INSERT)]
        cases.append(f"CASE WHEN {new} THEN {_event(plan, types, _NEW)} END")
    shown = ", ".join(f"'{name}'" for name in sorted(plan.shows))
    return f"filter(array({', '.join(cases)}), e -> e IS NOT NULL AND e.{CHANGE_TYPE} IN ({shown}))"


def _event(plan: ChangesPlan, types: Sequence[tuple[str, str]], side: str) -> str:
    change = "CASE " + " ".join(f"WHEN {when} THEN '{name}'" for when, name in types) + " END"
    values = [f"'{_text(f.name)}', {side}{_ROW}.{quoted(f.name)}" for f in plan.fields]
    values += [f"'{CHANGE_TYPE}', {change}", f"'{COMMIT_VERSION}', {side}{_COMMIT}"]
    values.append(f"'{COMMIT_TIMESTAMP}', {_time_text(plan, f'{side}{_COMMIT}')}")
    values.append(f"'{ROW_ID}', {side}{ID}")
    return f"named_struct({', '.join(values)})"


def _given(plan: ChangesPlan, change: str, row_id: Column) -> list[Column]:
    """What changes are given with, beside the table's columns."""
    columns = [F.col(change).alias(CHANGE_TYPE), F.col(_COMMIT).alias(COMMIT_VERSION)]
    columns.append(F.expr(_time_text(plan, _COMMIT)).alias(COMMIT_TIMESTAMP))
    return [*columns, row_id.alias(ROW_ID)] if plan.with_ids else columns


def _time_text(plan: ChangesPlan, commit: str) -> str:
    times = json.dumps(list(plan.times.made_ms))  # one per commit; folded when planned
    return f"timestamp_millis(get(from_json('{times}', 'array<bigint>'), cast({commit} - {plan.times.first} AS int)))"


def _text(name: str) -> str:
    return name.replace("\\", "\\\\").replace("'", "\\'")


def _outputs(plan: ChangesPlan) -> list[Field]:
    fields = [*plan.fields, Field(CHANGE_TYPE, STRING), Field(COMMIT_VERSION, LONG)]
    fields.append(Field(COMMIT_TIMESTAMP, Primitive("timestamp")))
    return [*fields, Field(ROW_ID, LONG)] if plan.with_ids else fields

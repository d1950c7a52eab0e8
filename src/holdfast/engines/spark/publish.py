"""Publishes rows on Spark; bitmaps of ids, bits per file and staged files come to this process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast.engines.spark.changefeed import changes
from holdfast.engines.spark.dml.bits import bits_of, positions_of
from holdfast.engines.spark.dml.constraints import prepare
from holdfast.engines.spark.dml.write import write_frame
from holdfast.engines.spark.scan.native import scan_frame
from holdfast.engines.spark.session.carry import by_value
from holdfast.engines.spark.session.progress import tasks
from holdfast.plan.changefeed.query import AFTER, BEFORE, CHANGE_TYPE, DELETE, INSERT, ChangesPlan
from holdfast.plan.dml.change import Positions
from holdfast.plan.dml.follow import LocatedRows
from holdfast.plan.indexing import TaskFunction
from holdfast.plan.publish.rows import Arriving, ChangedIds, Storage, Whole, removed_part, stored_part
from holdfast.plan.scan.metadata_columns import MetadataColumns
from holdfast.rows import columns as names

_GONE = pa.schema([("kind", pa.string()), ("bits", pa.binary())])
_FILE, _POSITION, _ID = "__hf_at_file", "__hf_at_position", "__hf_at_id"  # no table has columns of these names


def changed_ids(spark: SparkSession, plan: ChangesPlan) -> ChangedIds:
    """The ids of rows that a net change updates or deletes."""
    rows = changes(spark, removed_part(plan)).select(CHANGE_TYPE, names.ROW_ID)
    gather = by_value(_gathered, ("pyarrow", "numpy", "pyroaring"), work="gather row ids")
    with tasks(spark, "looking for rows that changed"):
        bitmaps = rows.mapInArrow(gather, "kind string, bits binary").toArrow()  # two bitmaps per task
    return ChangedIds(*(_united(bitmaps, kind) for kind in (BEFORE, DELETE)))


def locate(spark: SparkSession, place: LocatedRows, ids: BitMap64) -> Positions:
    """Where the live rows with these ids are."""
    if not ids or not len(place.plan.files):
        return {}
    metadata = MetadataColumns({_FILE: names.FILE_NUMBER, _POSITION: names.ROW_INDEX, _ID: names.ROW_ID})
    rows = scan_frame(spark, replace(place.plan, metadata=metadata), place.hidden)
    keep = by_value(_among(ids.serialize()), ("pyarrow", "numpy", "pyroaring"), work="find rows by their ids")
    places = rows.select(_FILE, _POSITION, _ID).mapInArrow(keep, f"{_FILE} long, {_POSITION} long")
    with tasks(spark, "finding rows by their ids"):
        bits = bits_of(places, _FILE, _POSITION).toArrow()  # a bit per row of the files
    return positions_of(bits, _FILE, place.plan.files.column("key"))


def publish(spark: SparkSession, rows: Arriving, storage: Storage) -> pa.Table:
    """Store rows with their ids."""
    spec = storage.spec
    match rows:
        case Whole(plan, hidden):
            frame = scan_frame(spark, plan, hidden)
        case ChangesPlan():
            changed = changes(spark, stored_part(rows))
            frame = changed.where(F.col(CHANGE_TYPE).isin(INSERT, AFTER))
            spec = replace(spec, gathered=True)  # what changed is scattered over the tasks that read it
    prepared = prepare(frame, storage.fit, storage.demands, carry=[names.ROW_ID])
    with tasks(spark, "publishing rows"):
        return write_frame(prepared.frame, spec, storage.location)


def _gathered(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    ids_by_kind: dict[str, BitMap64] = {}
    for batch in batches:
        for kind in pc.unique(batch.column(0)).to_pylist():
            ids = batch.column(1).filter(pc.equal(batch.column(0), kind)).to_numpy(zero_copy_only=False)
            ids_by_kind[kind] = ids_by_kind.get(kind, BitMap64()) | BitMap64(ids.astype(np.uint64))
    bitmaps = [{"kind": kind, "bits": ids.serialize()} for kind, ids in ids_by_kind.items()]
    yield pa.RecordBatch.from_pylist(bitmaps, schema=_GONE)


def _united(bitmaps: pa.Table, kind: str) -> BitMap64:
    texts = bitmaps.filter(pc.equal(bitmaps.column("kind"), kind)).column("bits").to_pylist()
    return BitMap64.union(BitMap64(), *map(BitMap64.deserialize, texts))


def _among(ids: bytes) -> TaskFunction:
    """Keeps the places of rows whose ids are in a bitmap."""

    def keep(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        wanted = BitMap64.deserialize(ids)
        for batch in batches:
            mine = batch.column(2).to_numpy(zero_copy_only=False).astype(np.uint64)
            common = np.array((BitMap64(mine) & wanted).to_array(), np.uint64)
            yield batch.select([0, 1]).filter(pa.array(np.isin(mine, common)))

    return keep

"""Checks the entries of scalar segments against the rows of a table, and rows against entries.

1. A valid entry must have the key of its row; a row outside the tail must have an entry.
2. A sample checks entries spread over each segment, and rows of as many files as needed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.engines.local.indexing import indexed_rows
from holdfast.index.kinds import Site
from holdfast.index.reader import PinnedReader
from holdfast.index.scalar.entries import EntryBlock, Segment
from holdfast.index.scalar.query import KeyQuery
from holdfast.index.segment import id_version_pairs
from holdfast.index.tail import Tail
from holdfast.parquet.index_runs import ROW_ID, VERSION, key_names
from holdfast.rows.keys import Numbers, keys_of
from holdfast.schema.types import Field


def expanded(block: EntryBlock, keys: int) -> pa.Table:
    """A block as an entry per row: keys, row id, version."""
    if block.counts is None:
        return block.table
    hits = block.hits(0, block.table.num_rows)
    which = pa.array(np.repeat(np.arange(block.table.num_rows), block.counts))
    table = block.table.select(key_names(keys)).take(which)
    return table.append_column(ROW_ID, pa.array(hits.ids)).append_column(VERSION, pa.array(hits.versions))


def contradicting(segment: Segment, reader: PinnedReader, fields: Sequence[Field], sample: int | None) -> Iterator[str]:
    """Valid entries that have another key than their row."""
    step = 1 if sample is None else max(1, segment.entries // max(sample, 1))
    keys = len(fields)
    for block in segment.blocks():
        plain = expanded(block, keys)
        rows = plain.take(pa.array(np.arange(0, plain.num_rows, step)))
        located = reader.locate(rows.column(ROW_ID).to_numpy())
        valid = located.versions == rows.column(VERSION).to_numpy()
        if not valid.any():
            continue
        actual = reader.take_at(located.files[valid], located.positions[valid], [f.name for f in fields])
        entry_keys = keys_of(rows.filter(pa.array(valid)).columns[:keys]).known
        differs = np.flatnonzero(~_same(entry_keys, keys_of(actual.columns).known))
        if len(differs):
            ids = rows.column(ROW_ID).to_numpy()[valid][differs[:3]].tolist()
            yield f"entries of row ids {', '.join(map(str, ids))} have other keys than their rows"
            return


def lacking(
    segments: Sequence[Segment], site: Site, tail: Tail, fields: Sequence[Field], sample: int | None
) -> Iterator[str]:
    """Rows outside the tail without an entry."""
    snapshot = site.snapshot
    skipped_keys = pa.array([*tail.whole.column("key").to_pylist(), *tail.again.column("key").to_pylist()], pa.string())
    newer = set(tail.newer.column("key").to_pylist())
    files = snapshot.files.filter(
        pc.invert(pc.is_in(snapshot.files.column("key").combine_chunks(), value_set=skipped_keys))
    )
    rows_left = sample
    for at, key in enumerate(files.column("key").to_pylist()):
        one = files.filter(pa.array(np.arange(len(files)) == at))
        for rows in indexed_rows(snapshot, one, site.load_hidden(snapshot.location, one), fields, None):
            if key in newer:
                rows = rows.filter(pc.less_equal(rows.column(len(fields) + 1), pa.scalar(tail.version)))
            if not rows.num_rows:
                continue
            yield from _unanswered(segments, rows, len(fields), key)
            rows_left = None if rows_left is None else rows_left - rows.num_rows
            if rows_left is not None and rows_left <= 0:
                return


def _unanswered(segments: Sequence[Segment], rows: pa.Table, keys: int, file: str) -> Iterator[str]:
    row_keys = keys_of(rows.columns[:keys])
    if row_keys.codes is not None:
        points: Numbers | pa.Array = np.unique(row_keys.codes[~row_keys.null])
    else:
        texts = row_keys.texts.drop_null().unique()
        points = texts.take(pa.array(keys_of([texts]).order()))
    hits = [segment.find(KeyQuery(points=points, null=bool(row_keys.null.any()))).hits() for segment in segments]
    none = np.zeros(0, np.int64)
    held = id_version_pairs(
        np.concatenate([none, *(h.ids for h in hits)]), np.concatenate([none, *(h.versions for h in hits)])
    )
    ids, versions = rows.column(keys).to_numpy(), rows.column(keys + 1).to_numpy()
    lost = np.flatnonzero(~np.isin(id_version_pairs(ids, versions), held))
    if len(lost):
        yield f"{len(lost)} rows of {file} have no entry, such as row id {ids[lost[0]]}"


def _same(one: pa.Array, two: pa.Array) -> NDArray[np.bool_]:
    null = pc.and_(one.is_null(), two.is_null())
    same = pc.or_(null, pc.fill_null(pc.equal(one, two), False))
    return np.asarray(same.to_numpy(zero_copy_only=False))

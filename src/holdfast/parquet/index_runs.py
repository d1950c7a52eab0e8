"""Writes sorted runs of index entries as Parquet files, with a table of the key range of each block.

A run holds entries in the order of their keys, in blocks of one row group each. The first and the last key of every
block are kept beside the run, so that a lookup reads only the blocks that may hold its key.

    entries    key0 ... keyN, row_id, row_commit_version                one row per row of the table
    bitmaps    key0 ... keyN, row_commit_version, row_ids, rows         one row per key and version: for few keys

1. Null keys come first in a block and count in `nulls`; `first` and `last` are keys that are not null, or null where
   the block has none.
2. Every page has a checksum, which readers verify; that of the footer is kept beside the run.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import Invalid
from holdfast.rows.keys import is_coded, keys_of

BLOCK_ROWS = 1 << 16
RUN_ROWS = 1 << 21
ROW_ID, VERSION, ROW_IDS, ROWS = "row_id", "row_commit_version", "row_ids", "rows"
MOST_BITMAPS = 1 << 20  # keys and versions of one run; more are no low cardinality

_TAIL = 8  # bytes at the end of a Parquet file: the length of the footer, and the magic


@dataclass(frozen=True)
class EntryRun:
    """A complete run: the bytes of its file, its blocks, and what it holds."""

    data: bytes
    top: pa.Table  # with the columns of `top_schema`
    entries: int
    low_id: int
    high_id: int
    footer: int  # CRC-32

    @property
    def crc(self) -> int:
        return zlib.crc32(self.data)


def key_names(count: int) -> list[str]:
    """The names of a key's columns."""
    return [f"key{n}" for n in range(count)]


def top_schema(types: Sequence[pa.DataType]) -> pa.Schema:
    """The schema of the table of blocks, given the types of the key's columns."""
    key = pa.int64() if is_coded(types) else pa.binary()
    return pa.schema(
        [
            ("run", pa.int64()),
            ("block", pa.int64()),
            ("rows", pa.int64()),  # of the block's row group
            ("nulls", pa.int64()),
            ("entries", pa.int64()),
            ("first", key),
            ("last", key),
        ]
    )


def entry_runs(rows: pa.Table, keys: int) -> Iterator[EntryRun]:
    """Runs of entries from rows in any order: key columns, row id and version, in this order."""
    order = keys_of(rows.columns[:keys]).order()
    names = [*key_names(keys), ROW_ID, VERSION]
    ordered = rows.rename_columns(names).take(pa.array(order))
    for start in range(0, len(order), RUN_ROWS):
        part = ordered.slice(start, RUN_ROWS).combine_chunks()
        ids = part.column(ROW_ID).to_numpy()
        yield _run(part, keys, np.ones(part.num_rows, np.int64), int(ids.min()), int(ids.max()))


def bitmap_run(batches: Iterable[pa.Table], keys: int) -> EntryRun | None:
    """One run of bitmaps from rows in any order; None where there are none. Memory grows with keys, not with rows."""
    bitmaps: dict[tuple[Any, int], BitMap64] = {}
    samples: list[pa.Table] = []  # a row of each key and version, in the order of `bitmaps`
    for rows in batches:
        renamed = rows.rename_columns([*key_names(keys), ROW_ID, VERSION]).combine_chunks()
        groups = renamed.group_by([*key_names(keys), VERSION], use_threads=False).aggregate([(ROW_ID, "list")])
        lists = groups.column(f"{ROW_ID}_list").combine_chunks()
        if not len(lists):
            continue
        ends, values = lists.offsets.to_numpy(), lists.values.to_numpy()
        plain = groups.select([*key_names(keys), VERSION])
        which = zip(keys_of(plain.columns[:keys]).known.to_pylist(), plain.column(VERSION).to_pylist(), strict=True)
        new = np.zeros(len(lists), bool)
        for at, key in enumerate(which):  # one per key and version among the rows
            ids = BitMap64(values[ends[at] : ends[at + 1]].astype(np.uint64))
            existing = bitmaps.get(key)
            new[at] = existing is None
            bitmaps[key] = ids if existing is None else existing | ids
        samples.append(plain.filter(pa.array(new)))
        if len(bitmaps) > MOST_BITMAPS:
            raise Invalid(
                f"a bitmap index is for few different keys, and here are more than {MOST_BITMAPS} of keys and commit "
                "versions: leave kind= out"
            )
    return _bitmaps(pa.concat_tables(samples).combine_chunks(), list(bitmaps.values()), keys) if bitmaps else None


def footer_sum(data: bytes) -> int:
    """The checksum of a Parquet file's footer, from the end of the file."""
    length = int.from_bytes(data[-_TAIL:-4], "little")
    return zlib.crc32(data[-(length + _TAIL) :])


def _bitmaps(samples: pa.Table, bitmaps: Sequence[BitMap64], keys: int) -> EntryRun:
    for ids in bitmaps:
        ids.run_optimize()
    table = samples.append_column(ROW_IDS, pa.array([ids.serialize() for ids in bitmaps], pa.binary()))
    table = table.append_column(ROWS, pa.array([len(ids) for ids in bitmaps], pa.int64()))
    table = table.take(pa.array(keys_of(samples.columns[:keys]).order())).combine_chunks()
    low, high = min(ids.min() for ids in bitmaps), max(ids.max() for ids in bitmaps)
    return _run(table, keys, table.column(ROWS).to_numpy(), low, high)


def _run(table: pa.Table, keys: int, counts: NDArray[np.int64], low_id: int, high_id: int) -> EntryRun:
    types = [table.schema.field(n).type for n in range(keys)]
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        row_group_size=BLOCK_ROWS,
        compression="zstd",
        compression_level=1,
        use_dictionary=[VERSION],
        column_encoding=_encodings(table.schema),
        write_statistics=False,
        write_page_checksum=True,
        store_schema=True,
    )
    data = bytes(sink.getvalue())
    return EntryRun(data, _top(table, keys, types, counts), int(counts.sum()), low_id, high_id, footer_sum(data))


def _encodings(schema: pa.Schema) -> dict[str, str]:
    encodings = {}
    for field in schema:
        if pa.types.is_integer(field.type) or pa.types.is_timestamp(field.type) or pa.types.is_date(field.type):
            encodings[field.name] = "DELTA_BINARY_PACKED"
        elif pa.types.is_string(field.type) or (pa.types.is_binary(field.type) and field.name != ROW_IDS):
            encodings[field.name] = "DELTA_BYTE_ARRAY"
    encodings.pop(VERSION, None)
    return encodings


def _top(table: pa.Table, keys: int, types: Sequence[pa.DataType], counts: NDArray[np.int64]) -> pa.Table:
    sorted_keys = keys_of(table.columns[:keys])
    starts = np.arange(0, table.num_rows, BLOCK_ROWS)
    ends = np.minimum(starts + BLOCK_ROWS, table.num_rows)
    nulls = np.array(
        [int(sorted_keys.null[a:b].sum()) for a, b in zip(starts, ends, strict=True)], np.int64
    )  # per block
    has_keys = starts + nulls < ends
    firsts = np.where(has_keys, starts + nulls, 0)
    lasts = np.where(has_keys, ends - 1, 0)
    values = sorted_keys.values
    return pa.Table.from_arrays(
        [
            pa.array(np.zeros(len(starts), np.int64)),
            pa.array(np.arange(len(starts))),
            pa.array(ends - starts),
            pa.array(nulls),
            pa.array(np.add.reduceat(counts, starts)),
            values.take(pa.array(firsts, mask=~has_keys)),
            values.take(pa.array(lasts, mask=~has_keys)),
        ],
        schema=top_schema(types),
    )

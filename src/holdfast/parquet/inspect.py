"""Reads from a data file how many rows it has and which row ids its live rows have.

Spark tasks pickle this module by value: it imports only Arrow, numpy, pyroaring and modules of lower layers.

1. Reads the footer and, where the file has one, the column of row ids.
2. Ids are returned as a compressed bitmap, which is small for any number of rows. A row without a materialized id has
   the file's base plus its position.
3. A file that cannot be read is reported in `trouble`, not raised: one bad file does not hide the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyroaring import BitMap64

from holdfast.errors import TableError
from holdfast.parquet.pages.footer import read_footer
from holdfast.parquet.source import open_source
from holdfast.rows.words import mask
from holdfast.storage.arrays import filled
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

INSPECTED = pa.schema(
    [
        ("number", pa.int64()),  # that of the request
        ("rows", pa.int64()),  # null where the file cannot be read
        ("ids", pa.binary()),  # of live rows, as pyroaring serialises them; null where the file carries none
        ("live", pa.int64()),  # rows that have these ids: more than ids where rows share one
        ("trouble", pa.string()),
    ]
)
_BATCH = 1 << 17


@dataclass(frozen=True, slots=True)
class FooterRequest:
    """A file to inspect, with what its table says of it."""

    number: int
    key: str  # in its store
    size: int
    base: int | None = None
    hidden: bytes | None = None  # a bitmap as pyroaring serialises it


@dataclass(frozen=True, slots=True)
class FileInspection:
    """The result for one file, with the fields of INSPECTED."""

    number: int
    rows: int | None = None
    ids: bytes | None = None
    live: int | None = None
    trouble: str | None = None


def inspect_file(store: ObjectStore, request: FooterRequest, id_column: str | None) -> FileInspection:
    """Inspect one file; without the name of a column of row ids only its footer."""
    try:
        with parsing(f"{store.url}/{request.key}", "cannot be read as Parquet"):
            footer = read_footer(store, request.key, request.size)
            columns = footer.schema.to_arrow_schema().names
            if id_column is None or id_column not in columns:
                return FileInspection(request.number, footer.num_rows)
            file = pq.ParquetFile(open_source(store, request.key, request.size), metadata=footer)
            ids, live = _ids(file, request, id_column)
    except TableError as error:
        return FileInspection(request.number, trouble=str(error))
    return FileInspection(request.number, footer.num_rows, ids.serialize(), live)


def _ids(file: pq.ParquetFile, request: FooterRequest, id_column: str) -> tuple[BitMap64, int]:
    hidden = None if request.hidden is None else BitMap64.deserialize(request.hidden)
    ids, live, start = BitMap64(), 0, 0
    for batch in file.iter_batches(_BATCH, columns=[id_column], use_threads=False):
        base = np.full(batch.num_rows, -1, np.int64)
        if request.base is not None:
            base = np.arange(start, start + batch.num_rows, dtype=np.int64) + request.base
        batch_ids = filled(batch.column(0).cast(pa.int64()), base)
        if hidden:
            batch_ids = batch_ids[~mask(hidden, start, batch.num_rows)]
        start += batch.num_rows
        batch_ids = batch_ids[batch_ids >= 0]  # `verbs.maintain` reports files with rows that have no id
        live += len(batch_ids)
        ids |= BitMap64(batch_ids.astype(np.uint64))
    ids.run_optimize()
    return ids, live

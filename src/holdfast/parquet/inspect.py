"""What a data file itself says: how many rows it has, and which row ids its live rows carry.

Runs in this process and inside Spark tasks, where it is pickled by value: it imports only Arrow, numpy, pyroaring and
modules below its own storey.

1. A footer is read, and beyond it only the column of row ids, where the file has one.
2. Ids come as a compressed bitmap, so an answer is small however many rows there are. A row without an id of its own
   has its file's base plus its position.
3. What cannot be read is told, not raised: one bad file does not hide the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.errors import TableError
from holdfast.parquet.pages.footer import read_footer
from holdfast.parquet.source import open_source
from holdfast.rows.words import mask
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

LOOKED = pa.schema(
    [
        ("number", pa.int64()),  # of the file, as it was asked for
        ("rows", pa.int64()),  # null where the file cannot be read
        ("ids", pa.binary()),  # of live rows, as pyroaring serialises them; null where the file carries none
        ("live", pa.int64()),  # rows that have these ids: more than there are ids where some have one id
        ("trouble", pa.string()),
    ]
)
_BATCH = 1 << 17


@dataclass(frozen=True, slots=True)
class FooterRequest:
    """A file to look at, and what its table says of it."""

    number: int
    key: str  # in its store
    size: int
    base: int | None = None
    hidden: bytes | None = None  # a bitmap as pyroaring serialises it


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen, with the fields of LOOKED."""

    number: int
    rows: int | None = None
    ids: bytes | None = None
    live: int | None = None
    trouble: str | None = None


def look(store: ObjectStore, ask: FooterRequest, id_column: str | None) -> Look:
    """Look at one file; without the name of a column of row ids only at its footer."""
    try:
        with parsing(f"{store.url}/{ask.key}", "cannot be read as Parquet"):
            footer = read_footer(store, ask.key, ask.size)
            columns = footer.schema.to_arrow_schema().names
            if id_column is None or id_column not in columns:
                return Look(ask.number, footer.num_rows)
            file = pq.ParquetFile(open_source(store, ask.key, ask.size), metadata=footer)
            ids, live = _ids(file, ask, id_column)
    except TableError as error:
        return Look(ask.number, trouble=str(error))
    return Look(ask.number, footer.num_rows, ids.serialize(), live)


def _ids(file: pq.ParquetFile, ask: FooterRequest, id_column: str) -> tuple[BitMap64, int]:
    hidden = None if ask.hidden is None else BitMap64.deserialize(ask.hidden)
    ids, live, start = BitMap64(), 0, 0
    for batch in file.iter_batches(_BATCH, columns=[id_column], use_threads=False):
        own = batch.column(0).cast(pa.int64())
        found = _filled(own, ask.base, start)
        if hidden:
            found = found[~mask(hidden, start, batch.num_rows)]
        start += batch.num_rows
        found = found[found >= 0]  # a row without any id is told of its file, not here
        live += len(found)
        ids |= BitMap64(found.astype(np.uint64))
    ids.run_optimize()
    return ids, live


def _filled(own: pa.Array, base: int | None, start: int) -> NDArray[np.int64]:
    """The ids of consecutive rows; -1 where there is none."""
    if not own.null_count:
        stored: NDArray[np.int64] = own.to_numpy()
        return stored
    positions = np.arange(start, start + len(own), dtype=np.int64)
    fresh = np.full(len(own), -1, np.int64) if base is None else positions + base
    missing = own.is_null().to_numpy(zero_copy_only=False)
    filled: NDArray[np.int64] = np.where(missing, fresh, own.fill_null(-1).to_numpy())
    return filled

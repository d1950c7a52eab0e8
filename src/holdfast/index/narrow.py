"""Of a tail's files that were written since, the rows that were changed since: told by row maps, not by reading rows.

Compaction and DML copy rows as they are. A file that holds nothing but such rows is no tail, though it is new.

1. What is left holds every row of the tail, and of these files no other row.
2. Where files are many, reading them is no slower than asking for their maps: the tail stays as it is.
"""

from __future__ import annotations

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast.index.reader import PinnedReader
from holdfast.index.tail import Tail
from holdfast.model.files import FileTable
from holdfast.rows.rowmap import RowMap
from holdfast.storage.arrays import mask

MOST_FILES = 1000


def narrowed(tail: Tail, reader: PinnedReader) -> Tail:
    """The same tail, with fewer rows to look at."""
    files = tail.newer
    if not len(files) or len(files) > MOST_FILES or len(tail.again):
        return tail
    known = reader.snapshot.files.column("key").combine_chunks()
    numbers = pc.index_in(files.column("key").combine_chunks(), value_set=known).to_pylist()
    shown: dict[str, BitMap64] = {}
    fate = np.zeros(len(files), np.int8)  # 0: none of its rows, 1: some, 2: all
    for at, (key, number) in enumerate(zip(files.column("key").to_pylist(), numbers, strict=True)):  # few files
        rows = reader.row_map(number)
        newer = _newer(rows, tail.version)
        if len(newer) == len(rows):
            fate[at] = 2
        elif newer := newer - reader.hidden(number):
            fate[at], shown[key] = 1, newer
    return Tail(tail.whole, _some(files, fate == 2), tail.version, _some(files, fate == 1), shown, tail.why)


def _newer(rows: RowMap, version: int) -> BitMap64:
    """The positions of rows that were changed after a version."""
    found = BitMap64()
    starts = np.concatenate(([0], rows.versions.ends[:-1]))
    chosen = rows.versions.values > version
    for start, end in zip(starts[chosen].tolist(), rows.versions.ends[chosen].tolist(), strict=True):
        found.add_range(start, end)
    return found


def _some(files: FileTable, chosen: NDArray[np.bool_]) -> FileTable:
    return files.filter(mask(chosen))

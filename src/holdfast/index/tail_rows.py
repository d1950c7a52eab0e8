"""Reads the rows of an index's tail, with file and position, and drops rows from a tail that were only copied.

1. The rows of a tail are all its live rows, each once.
2. Where a tail has few rows of a file, they are read by position, and not the whole file.
3. A tail without copies still has every row that its index has no entry for. Compaction and DML copy unchanged rows
   into new files; such rows have entries already.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from holdfast.engines.local.indexing import rows_with_places
from holdfast.index.reader import PinnedReader
from holdfast.index.tail import Tail, parts_of
from holdfast.model.snapshot import LoadHidden
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate
from holdfast.rows.keys import Numbers
from holdfast.rows.rowmap import RowMap
from holdfast.schema.types import Field
from holdfast.storage.arrays import mask

MOST_MAPPED_FILES = 1000


@dataclass(frozen=True, eq=False)
class TailRows:
    """Some columns of the rows of a tail, with the file number and position of each row."""

    rows: pa.Table
    files: Numbers
    positions: Numbers

    def where(self, condition: Predicate) -> tuple[Numbers, Numbers]:
        """File numbers and positions of the rows that satisfy a condition."""
        matching = matches(self.rows, condition).to_numpy(zero_copy_only=False)
        return self.files[matching], self.positions[matching]


def tail_rows(reader: PinnedReader, tail: Tail, fields: Sequence[Field], load_hidden: LoadHidden) -> TailRows:
    snapshot = reader.snapshot
    names = [f.name for f in fields]
    none = np.zeros(0, np.int64)
    tables, files, positions = [reader.take_at(none, none, names)], [none], [none]
    for part in parts_of(snapshot, Tail(tail.whole, tail.newer, tail.version), load_hidden):
        rows, number, at = rows_with_places(snapshot, part.files, part.hidden, fields, part.newer_than)
        tables.append(rows)
        files.append(file_numbers(reader, part.files.column("key").combine_chunks())[number])
        positions.append(at)
    if len(tail.again):
        keys = tail.again.column("key").combine_chunks()
        shown = [np.frombuffer(tail.shown[key].to_array(), np.uint64).astype(np.int64) for key in keys.to_pylist()]
        numbers = np.repeat(file_numbers(reader, keys), [len(one) for one in shown])
        order = np.argsort(numbers, kind="stable")
        numbers, at = numbers[order], np.concatenate(shown)[order]
        tables.append(reader.take_at(numbers, at, names))
        files.append(numbers)
        positions.append(at)
    together = pa.concat_tables(tables).combine_chunks()
    return TailRows(together, np.concatenate(files), np.concatenate(positions))


def file_numbers(reader: PinnedReader, keys: pa.Array) -> Numbers:
    """The numbers of files in the snapshot."""
    all_keys = reader.snapshot.files.column("key").combine_chunks()
    return np.asarray(pc.index_in(keys, value_set=all_keys).to_numpy(), np.int64)


def without_copies(tail: Tail, reader: PinnedReader) -> Tail:
    """The tail without rows that were only copied: row maps show which rows of newer files changed.

    Many files are left as they are, because reading their rows is no slower than reading their maps.
    """
    files = tail.newer
    if not len(files) or len(files) > MOST_MAPPED_FILES or len(tail.again):
        return tail
    numbers = file_numbers(reader, files.column("key").combine_chunks()).tolist()
    positions: dict[str, BitMap64] = {}
    fate = np.zeros(len(files), np.int8)  # 0: no row changed, 1: some, 2: all
    for at, (key, number) in enumerate(zip(files.column("key").to_pylist(), numbers, strict=True)):  # few files
        rows = reader.row_map(number)
        newer = _newer(rows, tail.version)
        if len(newer) == len(rows):
            fate[at] = 2
        elif newer := newer - reader.hidden(number):
            fate[at], positions[key] = 1, newer
    return Tail(
        tail.whole, files.filter(mask(fate == 2)), tail.version, files.filter(mask(fate == 1)), positions, tail.why
    )


def _newer(rows: RowMap, version: int) -> BitMap64:
    """The positions of rows that changed after a version."""
    positions = BitMap64()
    starts = np.concatenate(([0], rows.versions.ends[:-1]))
    chosen = rows.versions.values > version
    for start, end in zip(starts[chosen].tolist(), rows.versions.ends[chosen].tolist(), strict=True):
        positions.add_range(start, end)
    return positions

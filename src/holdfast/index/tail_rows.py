"""The rows of a tail, read once and asked again and again: what a lookup tests of them, and where they are.

1. Every live row of the tail is there once, whatever was asked of an index.
2. Rows of which few are wanted of a file are taken by position, never by reading the file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.engines.local.indexing import rows_with_places
from holdfast.index.reader import PinnedReader
from holdfast.index.tail import Tail, parts_of
from holdfast.model.snapshot import LoadHidden
from holdfast.predicate.evaluate import matches
from holdfast.predicate.records import Predicate
from holdfast.rows.keys import Numbers
from holdfast.schema.types import Field


@dataclass(frozen=True, eq=False)
class TailRows:
    """Some columns of the rows of a tail, and the file number and position of each."""

    rows: pa.Table
    files: Numbers
    positions: Numbers

    def where(self, condition: Predicate) -> tuple[Numbers, Numbers]:
        """The places of rows that satisfy a condition on these columns."""
        found = matches(self.rows, condition).to_numpy(zero_copy_only=False)
        return self.files[found], self.positions[found]


def tail_rows(reader: PinnedReader, tail: Tail, fields: Sequence[Field], load_hidden: LoadHidden) -> TailRows:
    """Read the rows of a tail."""
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
    known = reader.snapshot.files.column("key").combine_chunks()
    found: Numbers = pc.index_in(keys, value_set=known).to_numpy().astype(np.int64)
    return found

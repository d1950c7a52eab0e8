"""The history of a table as changes of files, one snapshot after another, for the biography of a row.

1. Versions are sequence numbers, as in the rows' last updated sequence number.
2. A trail begins where rows have ids: with the table's first snapshot, or the first remaining one of version 3.
3. A snapshot is read when the caller reaches it; manifests that snapshots share are read once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Unsupported
from holdfast.formats.iceberg.commit.summary import OPERATION
from holdfast.formats.iceberg.commit.winners import changed_files
from holdfast.formats.iceberg.deletes.scope import POSITIONS
from holdfast.formats.iceberg.metadata.manifests import DATA
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import DV, FILES, FileTable, Slab
from holdfast.model.touch import Touch, Trail


def trail(newest: IcebergState) -> Trail:
    """The remaining snapshots of a table whose rows have ids."""
    snapshots = newest.metadata.ancestry(newest.entry)
    entries = list(takewhile(lambda entry: _has_ids(time_travel(newest, version=entry.snapshot_id)), snapshots))[::-1]
    if not entries or entries[0].parent_snapshot_id is None:
        return Trail(None, FileTable(), _touches(newest, None, entries))
    first = time_travel(newest, version=entries[0].snapshot_id)
    return Trail(entries[0].sequence_number, _files(first), _touches(newest, first, entries[1:]))


def _files(state: IcebergState, chosen: NDArray[np.bool_] | None = None) -> FileTable:
    """Files of a state; an unchanged deletion vector keeps its name from snapshot to snapshot."""
    files = state.snapshot.files if chosen is None else state.snapshot.files.filter(pa.array(chosen))
    return FileTable(
        tuple(Slab(_with_stable_names(slab.files.select([*FILES.names, "format"])), slab.stats) for slab in files.slabs)
    )


def _has_ids(state: IcebergState) -> bool:
    """Whether every data manifest has a first row id."""
    return all(m.first_row_id is not None for m in state.contents.manifests if m.content == DATA)


def _touches(newest: IcebergState, before: IcebergState | None, entries: Sequence[SnapshotEntry]) -> Iterator[Touch]:
    for entry in entries:
        state = time_travel(newest, version=entry.snapshot_id)
        yield _touch(before, state, entry)
        before = state


def _touch(before: IcebergState | None, after: IcebergState, entry: SnapshotEntry) -> Touch:
    if len(after.contents.deletes.equality):
        raise Unsupported(
            f"snapshot {after.version} of {after.metadata.location} deletes rows by value, so which of them it deleted "
            "is not told"
        )
    operation = entry.summary.get(OPERATION, entry.operation)
    if before is None:
        added, removed = _files(after), FILES.empty_table()
    else:
        was_removed, was_added = changed_files(before, after)
        added, removed = _files(after, was_added), _files(before, was_removed).table
    vectors = pc.struct_field(removed["dv"].combine_chunks(), "id")
    return Touch(
        entry.sequence_number,
        entry.timestamp_ms,
        operation,
        added,
        pa.table({"key": removed["key"], "vector": vectors}),
        entry.operation != "replace",
    )


def _with_stable_names(files: pa.Table) -> pa.Table:
    """Names position deletes without the snapshot that they were read at."""
    vectors = files["dv"].combine_chunks()
    by_position = pc.fill_null(pc.equal(pc.struct_field(vectors, "storage"), POSITIONS), False)
    names = pc.if_else(by_position, POSITIONS, pc.struct_field(vectors, "id"))
    parts = [names, *(pc.struct_field(vectors, f.name) for f in list(DV)[1:])]
    renamed = pa.StructArray.from_arrays(parts, fields=list(DV), mask=vectors.is_null())
    return files.set_column(files.column_names.index("dv"), "dv", renamed)

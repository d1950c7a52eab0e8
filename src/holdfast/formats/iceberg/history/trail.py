"""The snapshots that led to the newest as touches of files, one after another: what a row's biography is told from.

1. Versions are sequence numbers, which is what rows say they were last changed in.
2. A trail begins where rows have ids: with the table itself, or with the first snapshot left since it is of version 3.
3. A snapshot is read when it is asked for; manifests it shares with others are read once.
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
    """What is left of the commits of a table whose rows have ids."""
    line = newest.metadata.ancestry(newest.entry)
    entries = list(takewhile(lambda entry: _has_ids(time_travel(newest, version=entry.snapshot_id)), line))[::-1]
    if not entries or entries[0].parent_snapshot_id is None:
        return Trail(None, FileTable(), _touches(newest, None, entries))
    first = time_travel(newest, version=entries[0].snapshot_id)
    return Trail(entries[0].sequence_number, told(first), _touches(newest, first, entries[1:]))


def told(state: IcebergState, chosen: NDArray[np.bool_] | None = None) -> FileTable:
    """Files of a state as a trail has them: a vector has one name as long as it is the same."""
    files = state.snapshot.files if chosen is None else state.snapshot.files.filter(pa.array(chosen))
    return FileTable(
        tuple(Slab(_named(slab.files.select([*FILES.names, "format"])), slab.stats) for slab in files.slabs)
    )


def _has_ids(state: IcebergState) -> bool:
    """Whether every data manifest has given its rows ids."""
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
        added, removed = told(after), FILES.empty_table()
    else:
        left, came = changed_files(before, after)
        added, removed = told(after, came), told(before, left).table
    vectors = pc.struct_field(removed["dv"].combine_chunks(), "id")
    return Touch(
        entry.sequence_number,
        entry.timestamp_ms,
        operation,
        added,
        pa.table({"key": removed["key"], "vector": vectors}),
        entry.operation != "replace",
    )


def _named(files: pa.Table) -> pa.Table:
    """Position deletes are named after the snapshot they were looked at in; here it does not matter which."""
    vectors = files["dv"].combine_chunks()
    by_position = pc.fill_null(pc.equal(pc.struct_field(vectors, "storage"), POSITIONS), False)
    names = pc.if_else(by_position, POSITIONS, pc.struct_field(vectors, "id"))
    parts = [names, *(pc.struct_field(vectors, f.name) for f in list(DV)[1:])]
    again = pa.StructArray.from_arrays(parts, fields=list(DV), mask=vectors.is_null())
    return files.set_column(files.column_names.index("dv"), "dv", again)

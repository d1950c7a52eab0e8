"""The snapshots that came since a state was read, as conflict checks see them.

A snapshot is what it changed of the files: those it added and removed, and those whose deletes it changed, which count
as removed and added again. All of it is told by comparing listings; manifests that did not change are not read again.

1. Snapshots are those of the branch that is written, oldest first. If the branch was set back, there is no telling.
2. Deletes by value that came or went, and that count for a file which is there, may concern any row of it: a conflict
   with whoever read or moved rows, and none with who only adds some.
"""

from __future__ import annotations

from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Conflict
from holdfast.iceberg.deletes import DeleteFiles, lost_by, refers_to
from holdfast.iceberg.match import places_of
from holdfast.iceberg.metadata import SnapshotEntry
from holdfast.iceberg.state import IcebergState, moved
from holdfast.iceberg.summary import APP, KEEPS_IDS, OPERATION, REPAIR
from holdfast.model.files import FileTable
from holdfast.model.mutation import Winner


def winners(old: IcebergState, new: IcebergState) -> tuple[Winner, ...]:
    """Every snapshot after `old` up to `new`, oldest first; a change of the schema alone is told as one too."""
    found, before = [], old
    for entry in _between(old, new):
        after = new if entry.snapshot_id == new.version else moved(new, version=entry.snapshot_id)
        found.append(_winner(before, after, entry))
        before = after
    if _shape(old) != _shape(new):
        found.append(_reshaped(new))
    return tuple(found)


def _between(old: IcebergState, new: IcebergState) -> list[SnapshotEntry]:
    line = list(new.metadata.line(new.entry))
    chain = list(takewhile(lambda entry: entry.snapshot_id != old.version, line))
    if len(chain) == len(line) and old.entry is not None:
        raise Conflict(
            f"snapshot {old.version} of {new.metadata.location} was set back or expired while this transaction ran; "
            "run it again"
        )
    return chain[::-1]


def touched(before: IcebergState, after: IcebergState) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which files of the one state went and which of the other came; a file whose deletes changed did both."""
    was, now = before.snapshot.files.table, after.snapshot.files.table
    old, new = was["key"].combine_chunks(), now["key"].combine_chunks()
    came = ~np.asarray(pc.is_in(new, value_set=old)) | _rehidden(now, before.contents.deletes, after.contents.deletes)
    if after.entry is not None and after.entry.summary.get(OPERATION) == REPAIR:
        came |= _reached_anew(was, now, before.contents.deletes, after.contents.deletes)
    stays = new.filter(pa.array(~came))
    return ~np.asarray(pc.is_in(old, value_set=stays)), came


def _winner(before: IcebergState, after: IcebergState, entry: SnapshotEntry) -> Winner:
    was, now = before.snapshot.files.table, after.snapshot.files.table
    left, came = touched(before, after)
    summary = entry.summary
    return Winner(
        version=entry.snapshot_id,
        operation=summary.get(OPERATION, entry.operation),
        timestamp_ms=entry.timestamp_ms,
        added=after.snapshot.files.filter(pa.array(came)),
        removed_keys=frozenset(was["key"].filter(pa.array(left)).to_pylist()),
        data_change=entry.operation != "replace",
        blind_append=entry.operation == "append",
        changes_shape=False,
        changes_protocol=False,
        apps=frozenset(name.removeprefix(APP) for name in summary if name.startswith(APP)),
        keeps_row_ids=summary.get(KEEPS_IDS) == "true" or entry.operation == "replace",
        deletes_by_value=_by_value(now, before.contents.deletes, after.contents.deletes),
    )


def _by_value(now: pa.Table, was: DeleteFiles, is_: DeleteFiles) -> bool:
    """Whether deletes by value came or went that count for a live file."""
    return any(len(some) and lost_by(now, some).any() for some in (_beyond(is_, was), _beyond(was, is_)))


def _beyond(some: DeleteFiles, others: DeleteFiles) -> DeleteFiles:
    """Delete files of the one that the other has not."""
    return DeleteFiles(some.table.filter(pc.invert(pc.is_in(names_of(some.table), value_set=names_of(others.table)))))


def _rehidden(now: pa.Table, was: DeleteFiles, is_: DeleteFiles) -> NDArray[np.bool_]:
    """Live files about which there are deletes now that were not there before, or the other way round."""
    touched = np.zeros(now.num_rows, np.bool_)
    if not now.num_rows:
        return touched
    for some, others in ((is_, was), (was, is_)):
        changed = _beyond(some, others).by_position
        if not changed.num_rows:
            continue
        about = refers_to(changed)
        places = places_of(now["path"].combine_chunks(), about)
        touched[places[places >= 0]] = True
        if about.null_count:
            several = changed.filter(pc.is_null(about))["group"]
            touched |= np.asarray(pc.is_in(now["group"], value_set=several.combine_chunks()))
    return touched


def _reached_anew(was: pa.Table, now: pa.Table, old: DeleteFiles, new: DeleteFiles) -> NDArray[np.bool_]:
    """Files that position deletes about several files came to apply to, or no longer do, because tuples changed."""
    touched = np.zeros(now.num_rows, np.bool_)
    several, before = (some.positions.filter(pc.is_null(refers_to(some.positions))) for some in (new, old))
    if not several.num_rows or not before.num_rows or not was.num_rows:
        return touched
    at = pc.index_in(now["key"].combine_chunks(), value_set=was["key"].combine_chunks())
    groups = (now["group"].to_numpy(), was["group"].combine_chunks().take(at).to_numpy(zero_copy_only=False))
    same = pc.index_in(names_of(several), value_set=names_of(before)).to_pylist()
    for group, place in zip(several["group"].to_pylist(), same, strict=True):  # one per delete file of a repair
        if place is not None:
            touched |= (groups[0] == group) != (groups[1] == before["group"][place].as_py())
    return touched


def names_of(entries: pa.Table) -> pa.Array:
    """What tells files apart: several vectors are in one."""
    offsets = pc.fill_null(entries["content_offset"].cast(pa.string()), "")
    return pc.binary_join_element_wise(entries["file_path"], offsets, "@").combine_chunks()


def _shape(state: IcebergState) -> tuple[object, ...]:
    metadata = state.metadata
    return metadata.current_schema_id, metadata.default_spec_id, metadata.format_version


def _reshaped(new: IcebergState) -> Winner:
    return Winner(
        version=new.version,
        operation="a change of the schema, the partition spec or the format version",
        timestamp_ms=new.metadata.last_updated_ms,
        added=FileTable(),
        removed_keys=frozenset(),
        data_change=False,
        blind_append=False,
        changes_shape=True,
        changes_protocol=False,
        apps=frozenset(),
    )

"""The snapshots that came since a state was read, as conflict checks see them.

A snapshot is what it changed of the files: those it added and removed, and those whose deletes it changed, which count
as removed and added again. All of it is told by comparing listings, when it is first asked for; manifests that did not
change are not read again.

1. Snapshots are those of the branch that is written, oldest first. If the branch was set back, there is no telling.
2. Deletes by value that came or went, and that count for a file which is there, may concern any row of it: a conflict
   with whoever read or moved rows, and none with who only adds some.
3. Where all that came are appends whose manifests stand beside those that were there, the newest list tells it all: no
   list in between is read, and no manifest but those that came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.errors import Conflict
from holdfast.formats.iceberg.commit.summary import APP, KEEPS_IDS, OPERATION, REPAIR
from holdfast.formats.iceberg.deletes.scope import DeleteFiles, have_equality_deletes, referenced_files
from holdfast.formats.iceberg.metadata.contents import LazyFiles
from holdfast.formats.iceberg.metadata.manifests import DATA, DELETES, ManifestFile
from holdfast.formats.iceberg.metadata.paths import path_indices
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import FileTable, Slab
from holdfast.model.mutation import Came, Winner


def winners_since(old: IcebergState, new: IcebergState) -> Came:
    """Every snapshot after `old` up to `new`, oldest first; a change of the schema alone is told as one too."""
    chain = _between(old, new)
    came = _appended(old, new, chain) or _compared(old, new, chain)
    return came if _shape(old) == _shape(new) else replace(came, winners=(*came.winners, _reshaped(new)))


def appended_manifests(old: IcebergState, new: IcebergState) -> tuple[ManifestFile, ...] | None:
    """The manifests that came, where they are of data and all that had files stayed as they were; else None."""
    if old.entry is None or new.entry is None or _shape(old) != _shape(new):
        return None
    were, are = set(old.contents.manifests), set(new.contents.manifests)
    came = tuple(one for one in new.contents.manifests if one not in were)
    stayed = all(_is_empty(old, one) for one in were - are)
    return came if stayed and all(one.content == DATA for one in came) else None


def _is_empty(state: IcebergState, manifest: ManifestFile) -> bool:
    """Whether a manifest has no live file, so that the next list leaves it out."""
    known = state.contents.read.get(manifest.path)
    return manifest.files == 0 and (known is None or not len(known))


def _compared(old: IcebergState, new: IcebergState, chain: Sequence[SnapshotEntry]) -> Came:
    winners, before = list[Winner](), old
    for entry in chain:
        after = new if entry.snapshot_id == new.version else time_travel(new, version=entry.snapshot_id)
        winners.append(_Compared(before, after, entry))
        before = after
    return Came(tuple(winners), _Together(winners))


def _appended(old: IcebergState, new: IcebergState, chain: Sequence[SnapshotEntry]) -> Came | None:
    """What came where it is appends alone; None: that is not told by the newest list."""
    if any(entry.operation != "append" for entry in chain):
        return None
    manifests = appended_manifests(old, new)
    by_snapshot: dict[int | None, list[ManifestFile]] = {entry.snapshot_id: [] for entry in chain}
    if manifests is None or any(one.added_snapshot_id not in by_snapshot for one in manifests):
        return None
    for one in manifests:
        by_snapshot[one.added_snapshot_id].append(one)
    each = tuple(
        Winner(
            added=LazyFiles(new.contents.only(by_snapshot[entry.snapshot_id])), removed_keys=frozenset(), **_said(entry)
        )
        for entry in chain
    )
    return Came(each, LazyFiles(new.contents.only(manifests)))


def _between(old: IcebergState, new: IcebergState) -> list[SnapshotEntry]:
    chain: list[SnapshotEntry] = []
    for entry in new.metadata.ancestry(new.entry):
        if entry.snapshot_id == old.version:
            return chain[::-1]
        chain.append(entry)
    if old.entry is not None:
        raise Conflict(
            f"snapshot {old.version} of {new.metadata.location} was set back or expired while this transaction ran; "
            "run it again"
        )
    return chain[::-1]


def changed_files(before: IcebergState, after: IcebergState) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which files of the one state went and which of the other came; a file whose deletes changed did both."""
    was, now = before.snapshot.files.table, after.snapshot.files.table
    old, new = was["key"].combine_chunks(), now["key"].combine_chunks()
    came = ~np.asarray(pc.is_in(new, value_set=old)) | _rehidden(now, before.contents.deletes, after.contents.deletes)
    if after.entry is not None and after.entry.summary.get(OPERATION) == REPAIR:
        came |= _reached_anew(was, now, before.contents.deletes, after.contents.deletes)
    stays = new.filter(pa.array(~came))
    return ~np.asarray(pc.is_in(old, value_set=stays)), came


class _Compared(Winner):
    """A snapshot that is compared with the one before it when it is first asked what it did to files."""

    def __init__(self, before: IcebergState, after: IcebergState, entry: SnapshotEntry) -> None:
        for name, value in (*_said(entry).items(), ("_states", (before, after))):
            object.__setattr__(self, name, value)

    _states: tuple[IcebergState, IcebergState]

    @cached_property
    def added(self) -> FileTable:
        return self._touched[0]

    @cached_property
    def removed_keys(self) -> frozenset[str]:
        return self._touched[1]

    @cached_property
    def deletes_by_value(self) -> bool:
        before, after = self._states
        same = _deletes(before) == _deletes(after)
        return not same and _by_value(after.snapshot.files.table, before.contents.deletes, after.contents.deletes)

    @cached_property
    def _touched(self) -> tuple[FileTable, frozenset[str]]:
        before, after = _apart(*self._states)
        left, came = changed_files(before, after)
        gone = before.snapshot.files.table["key"].filter(pa.array(left))
        return after.snapshot.files.filter(pa.array(came)), frozenset(gone.to_pylist())


class _Together(FileTable):
    """The files that several snapshots added."""

    def __init__(self, winners: Sequence[Winner]) -> None:
        object.__setattr__(self, "_winners", winners)

    _winners: Sequence[Winner]

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        return tuple(slab for winner in self._winners for slab in winner.added.slabs)


def _said(entry: SnapshotEntry) -> dict[str, Any]:
    """What a snapshot says of itself."""
    summary = entry.summary
    return {
        "version": entry.snapshot_id,
        "operation": summary.get(OPERATION, entry.operation),
        "timestamp_ms": entry.timestamp_ms,
        "data_change": entry.operation != "replace",
        "blind_append": entry.operation == "append",
        "changes_shape": False,
        "changes_protocol": False,
        "apps": frozenset(name.removeprefix(APP) for name in summary if name.startswith(APP)),
        "keeps_row_ids": summary.get(KEEPS_IDS) == "true" or entry.operation == "replace",
    }


def _apart(before: IcebergState, after: IcebergState) -> tuple[IcebergState, IcebergState]:
    """The states without the data manifests that both have, where their deletes are the same."""
    if _deletes(before) != _deletes(after) or (after.entry and after.entry.summary.get(OPERATION) == REPAIR):
        return before, after
    both = {one for one in before.contents.manifests if one.content == DATA} & set(after.contents.manifests)
    return _without(before, both), _without(after, both)


def _without(state: IcebergState, manifests: set[ManifestFile]) -> IcebergState:
    contents = state.contents.only(one for one in state.contents.manifests if one not in manifests)
    return replace(state, contents=contents, snapshot=replace(state.snapshot, files=LazyFiles(contents)))


def _deletes(state: IcebergState) -> set[ManifestFile]:
    return {one for one in state.contents.manifests if one.content == DELETES}


def _by_value(now: pa.Table, was: DeleteFiles, is_: DeleteFiles) -> bool:
    """Whether deletes by value came or went that count for a live file."""
    return any(len(some) and have_equality_deletes(now, some).any() for some in (_beyond(is_, was), _beyond(was, is_)))


def _beyond(some: DeleteFiles, others: DeleteFiles) -> DeleteFiles:
    """Delete files of the one that the other has not."""
    return DeleteFiles(
        some.table.filter(pc.invert(pc.is_in(file_names(some.table), value_set=file_names(others.table))))
    )


def _rehidden(now: pa.Table, was: DeleteFiles, is_: DeleteFiles) -> NDArray[np.bool_]:
    """Live files about which there are deletes now that were not there before, or the other way round."""
    touched = np.zeros(now.num_rows, np.bool_)
    if not now.num_rows:
        return touched
    for some, others in ((is_, was), (was, is_)):
        changed = _beyond(some, others).by_position
        if not changed.num_rows:
            continue
        about = referenced_files(changed)
        places = path_indices(now["path"].combine_chunks(), about)
        touched[places[places >= 0]] = True
        if about.null_count:
            several = changed.filter(pc.is_null(about))["group"]
            touched |= np.asarray(pc.is_in(now["group"], value_set=several.combine_chunks()))
    return touched


def _reached_anew(was: pa.Table, now: pa.Table, old: DeleteFiles, new: DeleteFiles) -> NDArray[np.bool_]:
    """Files that position deletes about several files came to apply to, or no longer do, because tuples changed."""
    touched = np.zeros(now.num_rows, np.bool_)
    several, before = (some.positions.filter(pc.is_null(referenced_files(some.positions))) for some in (new, old))
    if not several.num_rows or not before.num_rows or not was.num_rows:
        return touched
    at = pc.index_in(now["key"].combine_chunks(), value_set=was["key"].combine_chunks())
    groups = (now["group"].to_numpy(), was["group"].combine_chunks().take(at).to_numpy(zero_copy_only=False))
    same = pc.index_in(file_names(several), value_set=file_names(before)).to_pylist()
    for group, place in zip(several["group"].to_pylist(), same, strict=True):  # one per delete file of a repair
        if place is not None:
            touched |= (groups[0] == group) != (groups[1] == before["group"][place].as_py())
    return touched


def file_names(entries: pa.Table) -> pa.Array:
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

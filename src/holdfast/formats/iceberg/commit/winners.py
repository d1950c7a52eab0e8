"""The snapshots that were committed since a state was read, for conflict checks.

A snapshot's changes are the files it added and removed; a file whose deletes changed counts as removed and added. They
are found by comparing the files of two states, on first use; unchanged manifests are not read again.

1. Snapshots are those of the branch that is written to, oldest first. If the branch was set back, that is a conflict.
2. An added or removed equality delete that applies to a live file may concern any row of it: it conflicts with
   transactions that read or move rows, and not with appends.
3. Where all new snapshots are appends that only added manifests, the newest manifest list suffices: no manifest list in
   between is read, and no manifest but the new ones.
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
    """The snapshots after `old` up to `new`, oldest first; a change of the schema or spec counts as another."""
    chain = _between(old, new)
    came = _appended(old, new, chain) or _compared(old, new, chain)
    return came if _definition(old) == _definition(new) else replace(came, winners=(*came.winners, _redefined(new)))


def appended_manifests(old: IcebergState, new: IcebergState) -> tuple[ManifestFile, ...] | None:
    """The added manifests, if all are data manifests and no manifest with files was removed; else None."""
    if old.entry is None or new.entry is None or _definition(old) != _definition(new):
        return None
    before, after = set(old.contents.manifests), set(new.contents.manifests)
    added = tuple(one for one in new.contents.manifests if one not in before)
    keeps_files = all(_is_empty(old, one) for one in before - after)
    return added if keeps_files and all(one.content == DATA for one in added) else None


def _is_empty(state: IcebergState, manifest: ManifestFile) -> bool:
    """Whether a manifest has no live file, so that the next manifest list leaves it out."""
    entries = state.contents.read.get(manifest.path)
    return manifest.files == 0 and (entries is None or not len(entries))


def _compared(old: IcebergState, new: IcebergState, chain: Sequence[SnapshotEntry]) -> Came:
    winners, before = list[Winner](), old
    for entry in chain:
        after = new if entry.snapshot_id == new.version else time_travel(new, version=entry.snapshot_id)
        winners.append(_Compared(before, after, entry))
        before = after
    return Came(tuple(winners), _AddedFiles(winners))


def _appended(old: IcebergState, new: IcebergState, chain: Sequence[SnapshotEntry]) -> Came | None:
    """The new snapshots if all are appends (rule 3), else None."""
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
            added=LazyFiles(new.contents.only(by_snapshot[entry.snapshot_id])),
            removed_keys=frozenset(),
            **_facts(entry),
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
    """Which files of `before` were removed and which of `after` added; a file whose deletes changed is both."""
    old_files, files = before.snapshot.files.table, after.snapshot.files.table
    old_deletes, deletes = before.contents.deletes, after.contents.deletes
    old_keys, keys = old_files["key"].combine_chunks(), files["key"].combine_chunks()
    added = ~np.asarray(pc.is_in(keys, value_set=old_keys)) | _deletes_changed(files, old_deletes, deletes)
    if after.entry is not None and after.entry.summary.get(OPERATION) == REPAIR:
        added |= _scope_changed(old_files, files, old_deletes, deletes)
    unchanged = keys.filter(pa.array(~added))
    return ~np.asarray(pc.is_in(old_keys, value_set=unchanged)), added


class _Compared(Winner):
    """A snapshot that is compared with its parent when its files are first needed."""

    def __init__(self, before: IcebergState, after: IcebergState, entry: SnapshotEntry) -> None:
        for name, value in (*_facts(entry).items(), ("_states", (before, after))):
            object.__setattr__(self, name, value)

    _states: tuple[IcebergState, IcebergState]

    @cached_property
    def added(self) -> FileTable:
        return self._changes[0]

    @cached_property
    def removed_keys(self) -> frozenset[str]:
        return self._changes[1]

    @cached_property
    def deletes_by_value(self) -> bool:
        before, after = self._states
        if _delete_manifests(before) == _delete_manifests(after):
            return False
        old, new, files = before.contents.deletes, after.contents.deletes, after.snapshot.files.table
        changes = (_except(new, old), _except(old, new))
        return any(len(some) and have_equality_deletes(files, some).any() for some in changes)

    @cached_property
    def _changes(self) -> tuple[FileTable, frozenset[str]]:
        before, after = _without_shared(*self._states)
        removed, added = changed_files(before, after)
        keys = before.snapshot.files.table["key"].filter(pa.array(removed))
        return after.snapshot.files.filter(pa.array(added)), frozenset(keys.to_pylist())


class _AddedFiles(FileTable):
    """The files that several snapshots added."""

    def __init__(self, winners: Sequence[Winner]) -> None:
        object.__setattr__(self, "_winners", winners)

    _winners: Sequence[Winner]

    @cached_property
    def slabs(self) -> tuple[Slab, ...]:
        return tuple(slab for winner in self._winners for slab in winner.added.slabs)


def _facts(entry: SnapshotEntry) -> dict[str, Any]:
    """The fields of a Winner that the snapshot's summary gives."""
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


def _without_shared(before: IcebergState, after: IcebergState) -> tuple[IcebergState, IcebergState]:
    """The states without the data manifests that both have, where their deletes are the same."""
    if _delete_manifests(before) != _delete_manifests(after) or (
        after.entry and after.entry.summary.get(OPERATION) == REPAIR
    ):
        return before, after
    both = {one for one in before.contents.manifests if one.content == DATA} & set(after.contents.manifests)
    return _without(before, both), _without(after, both)


def _without(state: IcebergState, manifests: set[ManifestFile]) -> IcebergState:
    contents = state.contents.only(one for one in state.contents.manifests if one not in manifests)
    return replace(state, contents=contents, snapshot=replace(state.snapshot, files=LazyFiles(contents)))


def _delete_manifests(state: IcebergState) -> set[ManifestFile]:
    return {one for one in state.contents.manifests if one.content == DELETES}


def _except(some: DeleteFiles, others: DeleteFiles) -> DeleteFiles:
    """The delete files that are not among others."""
    return DeleteFiles(
        some.table.filter(pc.invert(pc.is_in(file_names(some.table), value_set=file_names(others.table))))
    )


def _deletes_changed(files: pa.Table, old: DeleteFiles, new: DeleteFiles) -> NDArray[np.bool_]:
    """Which files may be affected by position deletes that were added or removed."""
    affected = np.zeros(files.num_rows, np.bool_)
    if not files.num_rows:
        return affected
    for changed in (_except(new, old).by_position, _except(old, new).by_position):
        if not changed.num_rows:
            continue
        referenced = referenced_files(changed)
        indices = path_indices(files["path"].combine_chunks(), referenced)
        affected[indices[indices >= 0]] = True
        if referenced.null_count:
            groups = changed.filter(pc.is_null(referenced))["group"]
            affected |= np.asarray(pc.is_in(files["group"], value_set=groups.combine_chunks()))
    return affected


def _scope_changed(
    old_files: pa.Table, files: pa.Table, old_deletes: DeleteFiles, deletes: DeleteFiles
) -> NDArray[np.bool_]:
    """Which files position deletes of a partition apply to now and did not before, or the other way round."""
    affected = np.zeros(files.num_rows, np.bool_)
    new, old = (some.positions.filter(pc.is_null(referenced_files(some.positions))) for some in (deletes, old_deletes))
    if not new.num_rows or not old.num_rows or not old_files.num_rows:
        return affected
    at = pc.index_in(files["key"].combine_chunks(), value_set=old_files["key"].combine_chunks())
    groups = files["group"].to_numpy()
    old_groups = old_files["group"].combine_chunks().take(at).to_numpy(zero_copy_only=False)
    same = pc.index_in(file_names(new), value_set=file_names(old)).to_pylist()
    for group, index in zip(new["group"].to_pylist(), same, strict=True):  # one per delete file of a repair
        if index is not None:
            affected |= (groups == group) != (old_groups == old["group"][index].as_py())
    return affected


def file_names(entries: pa.Table) -> pa.Array:
    """Unique names of delete files: path and offset, because a Puffin file holds several deletion vectors."""
    offsets = pc.fill_null(entries["content_offset"].cast(pa.string()), "")
    return pc.binary_join_element_wise(entries["file_path"], offsets, "@").combine_chunks()


def _definition(state: IcebergState) -> tuple[object, ...]:
    metadata = state.metadata
    return metadata.current_schema_id, metadata.default_spec_id, metadata.format_version


def _redefined(new: IcebergState) -> Winner:
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

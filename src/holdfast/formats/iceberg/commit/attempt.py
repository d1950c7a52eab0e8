"""Prepares one commit attempt: writes the manifests and the manifest list of a mutation on the newest snapshot.

1. Everything that depends on the commit is made per attempt: sequence numbers, row ids, deletion vectors. Data files
   are not written again, nor are files of an earlier attempt that would be the same.
2. Nothing of an attempt is in the table until the catalog accepts its snapshot; nobody refers to files of a lost one.
3. Added files have the table's current spec; deletes have the spec of the data file that they reference.
4. Removing a data file also removes the deletes that reference it alone, and those that apply to no other file.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyroaring import BitMap64

from holdfast import __version__
from holdfast.env import Env
from holdfast.errors import Unsupported
from holdfast.formats.iceberg.commit.avro_schemas import tuple_schema
from holdfast.formats.iceberg.commit.drafts import Drafts, ManifestPlan, ManifestRow
from holdfast.formats.iceberg.commit.manifest_writer import ManifestWriter, manifest_list_rows
from holdfast.formats.iceberg.commit.position_deletes import (
    FilePartition,
    delete_files,
    partitions_of,
    superseded,
    unite_positions,
)
from holdfast.formats.iceberg.commit.published import publication_summary
from holdfast.formats.iceberg.commit.repair import repaired_manifests, repaired_totals
from holdfast.formats.iceberg.commit.restore import restored_manifests
from holdfast.formats.iceberg.commit.staging import data_files
from holdfast.formats.iceberg.commit.summary import APP, KEEPS_IDS, OPERATION, SnapshotTally, operation_of, summary_of
from holdfast.formats.iceberg.deletes.scope import dangling
from holdfast.formats.iceberg.metadata.manifests import DATA, DELETES, ManifestEntries
from holdfast.formats.iceberg.metadata.schema_evolution import check_evolution, schema_json
from holdfast.formats.iceberg.metadata.table_metadata import ROW_IDS_SINCE
from holdfast.formats.iceberg.metadata.types import type_names
from holdfast.formats.iceberg.state import IcebergState, time_travel
from holdfast.model.files import FILES
from holdfast.model.mutation import KEEPS_ROW_IDS, Mutation
from holdfast.schema.properties import number, truth
from holdfast.storage.arrays import strings

DATA_FOLDER = "data"
_MERGES, _MERGE_FROM = "commit.manifest-merge.enabled", "commit.manifest.min-count-to-merge"
_SMALL = 8 << 20  # bytes; larger manifests are not merged
_PATIENCE = 4  # after a lost attempt, merging needs so many times the usual number of manifests


@dataclass(frozen=True, slots=True)
class SnapshotAttempt:
    """A written snapshot that no catalog has accepted yet."""

    snapshot_id: int
    parent: int | None
    sequence: int
    timestamp_ms: int
    manifest_list: str
    summary: Mapping[str, str]
    schema_id: int
    first_row_id: int | None  # None below version 3
    added_rows: int | None
    schema: Mapping[str, Any] | None = None  # the new schema; None: unchanged
    files: frozenset[str] = frozenset()  # written for it


def prepare(state: IcebergState, mutation: Mutation, env: Env, drafts: Drafts | None = None) -> SnapshotAttempt:
    """Writes the snapshot that a mutation makes after `state`, the newest; `drafts` is what earlier attempts wrote."""
    metadata = state.metadata
    if mutation.feed.num_rows or mutation.domains or mutation.readded.num_rows or mutation.restamped.num_rows:
        raise Unsupported(f"{mutation.operation} is nothing that the Iceberg table at {metadata.location} can keep")
    drafts = Drafts() if drafts is None else drafts
    name = drafts.begin(env)
    schema = _schema(state, mutation)
    writer = ManifestWriter(state, name.int >> 65, metadata.last_sequence_number + 1, str(name), schema, drafts)
    before = {} if state.entry is None else state.entry.summary
    files: frozenset[str] = frozenset()
    tally = SnapshotTally()
    if mutation.mends:
        manifests = list(repaired_manifests(writer, mutation.counts))
        before = {**before, **{k: str(n) for k, n in repaired_totals(state, mutation.counts).items() if k in before}}
    elif mutation.back_to is None:
        plan = drafts.planned(state.version, mutation) or _Planner(mutation, writer).plan()
        drafts.plan = state.version, plan
        tally, files = SnapshotTally(plan.counts), plan.files
        manifests = [*plan.added, *_kept(writer, plan)]
    else:
        manifests = list(restored_manifests(writer, time_travel(state, version=mutation.back_to), tally))
    path, first, count = writer.write_manifest_list(manifests, mark=mutation.mark)
    parent = state.entry
    notes = {
        "engine-name": "holdfast",
        "engine-version": __version__,
        OPERATION: mutation.operation,
        **({KEEPS_IDS: "true"} if mutation.tags.get(KEEPS_ROW_IDS) == "true" else {}),
        **({} if mutation.app is None else {f"{APP}{mutation.app.app_id}": str(mutation.app.version)}),
        **({} if mutation.user_metadata is None else {"user-metadata": mutation.user_metadata}),
        **publication_summary(mutation, parent, writer.sequence),
    }
    counts = summary_of(tally, before, is_first=parent is None)
    return SnapshotAttempt(
        snapshot_id=writer.snapshot_id,
        parent=None if parent is None else parent.snapshot_id,
        sequence=writer.sequence,
        timestamp_ms=max(env.now_ms(), metadata.last_updated_ms),
        manifest_list=path,
        summary={"operation": _operation(tally, mutation), **counts, **notes},
        schema_id=schema["schema-id"],
        first_row_id=first,
        added_rows=count,
        schema=None if schema["schema-id"] == metadata.current_schema_id else schema,
        files=files | {path, *(row["manifest_path"] for row in manifests)},
    )


def _operation(tally: SnapshotTally, mutation: Mutation) -> str:
    """The operation of a snapshot; a restore, or a repair of rows, may change rows without adding or removing files."""
    if mutation.back_to is not None or (mutation.mends and mutation.data_change):
        return "overwrite"
    return operation_of(tally, data_change=mutation.data_change)


def _schema(state: IcebergState, mutation: Mutation) -> Mapping[str, Any]:
    """The table's schema after a mutation."""
    metadata, where = state.metadata, state.metadata_path
    if mutation.shape is None:
        raw = metadata.schema_of(None, where)
        return {**raw, "schema-id": metadata.current_schema_id}
    check_evolution(state.snapshot.schema, mutation.shape.schema, state.contents.types.specs, where=metadata.location)
    return schema_json(metadata, mutation.shape.schema, where)


def _kept(writer: ManifestWriter, plan: ManifestPlan) -> Iterator[ManifestRow]:
    """The rows of existing manifests: unchanged, replaced by the plan, or merged."""
    state, drafts = writer.state, writer.drafts
    rows: dict[str, ManifestRow] = {}
    for row in manifest_list_rows(state):
        path = row["manifest_path"]
        if path in plan.replaced:
            yield plan.replaced[path]
        else:
            rows[path] = row
    unmerged = {one for one in state.contents.manifests if one.path in rows}
    for sources, merged in drafts.merged:
        if sources <= unmerged:
            unmerged -= sources
            rows = _replace(rows, {one.path for one in sources}, merged)
    for spec_id, paths in _small(writer, rows.values()):
        manifests = [one for one in state.contents.manifests if one.path in paths]
        merged = writer.write_merged(manifests, state.contents.types.specs[spec_id])
        drafts.merged.append((frozenset(manifests), merged))
        rows = _replace(rows, paths, merged)
    yield from rows.values()


def _replace(rows: Mapping[str, ManifestRow], paths: Collection[str], merged: ManifestRow) -> dict[str, ManifestRow]:
    others = {path: row for path, row in rows.items() if path not in paths}
    return {**others, merged["manifest_path"]: merged}


def _small(writer: ManifestWriter, rows: Iterable[ManifestRow]) -> Iterator[tuple[int, frozenset[str]]]:
    """The paths of small data manifests to merge, by spec.

    After a lost attempt merging waits until there are many more, because it takes time in which others commit again.
    """
    properties = writer.state.metadata.properties
    least = max(number(_MERGE_FROM, properties.get(_MERGE_FROM, "100")), 2)
    if not truth(properties.get(_MERGES, "true")):
        return
    small: dict[int, list[ManifestRow]] = {}
    for row in rows:
        # Manifests of this transaction are merged already, or have no row ids yet.
        has_ids = writer.version < ROW_IDS_SINCE or row.get("first_row_id") is not None
        is_ours = row["added_snapshot_id"] == writer.snapshot_id
        if row["content"] == DATA and row["manifest_length"] < _SMALL and has_ids and not is_ours:
            small.setdefault(row["partition_spec_id"], []).append(row)
    for spec_id, some in small.items():
        if len(some) >= (least if writer.drafts.attempts <= 1 else _PATIENCE * least):
            yield spec_id, frozenset(row["manifest_path"] for row in _worthwhile(some, least))


def _worthwhile(small: Sequence[ManifestRow], least: int) -> Sequence[ManifestRow]:
    """Leaves out a few of the newest, which others may soon change, and those with more files than all smaller ones
    together, so that no entry is rewritten again and again."""
    by_age = sorted(small, key=lambda row: int(row["sequence_number"]))
    ordered = sorted(by_age[: len(by_age) - least // 10], key=_files)
    while len(ordered) > 2 and _files(ordered[-1]) > sum(map(_files, ordered[:-1])):
        ordered.pop()
    return ordered


def _files(row: ManifestRow) -> int:
    return int(row["added_files_count"] + row["existing_files_count"])


class _Planner:
    """Writes the manifests that a mutation adds to a state, and rewrites those that lose entries."""

    def __init__(self, mutation: Mutation, writer: ManifestWriter) -> None:
        self.state, self.mutation, self.writer = writer.state, mutation, writer
        state = writer.state
        self.tally = SnapshotTally()
        self.sources = type_names(writer.schema)
        self.spec = state.contents.types.specs[state.metadata.default_spec_id]
        self.location = state.metadata.location.rstrip("/")
        self.hidden = unite_positions(state, mutation.hidden)
        keys = {*mutation.removed.column("key").to_pylist(), *self.hidden.emptied}
        files = state.snapshot.files.table if keys else FILES.empty_table()
        is_removed = pc.is_in(files["key"], value_set=strings(sorted(keys)))
        self.removed = strings(files["path"].filter(is_removed).to_pylist())
        self.changed = strings([*self.removed.to_pylist(), *self.hidden.united])
        deletes, self.dangling = state.contents.deletes if keys else None, strings([])
        if deletes is not None and len(deletes):  # new files are newer than all deletes, so none applies to them
            self.dangling = dangling(files.filter(pc.invert(is_removed)), deletes)
        self.files: set[str] = set()

    def plan(self) -> ManifestPlan:
        """Writes what the mutation adds and changes."""
        added = (*self._added(), *self._added_deletes())
        replaced = dict(self._replaced()) if len(self.changed) else {}
        return ManifestPlan(self.mutation, added, replaced, self.tally.counts, frozenset(self.files))

    def _added(self) -> Iterator[ManifestRow]:
        """The manifest of new data files, without those of which the transaction hid every row."""
        covered = self.mutation.covered
        files = [
            file for key, file in self._data_files() if not covered or len(covered.get(key, ())) != file["record_count"]
        ]
        if files:
            self.tally.added(files)
            yield self.writer.write_added(DATA, self.spec.spec_id, tuple_schema(self.spec, self.sources), files)

    def _added_deletes(self) -> Iterator[ManifestRow]:
        """The manifests of new deletes, one per spec."""
        own, partitions = self._covered()
        partitions |= partitions_of(self.state, list(self.hidden.united))
        by_spec: dict[int, list[tuple[FilePartition, Mapping[str, Any]]]] = {}
        folder = f"{self.location}/{DATA_FOLDER}"
        for partition, file in delete_files(self.writer, {**self.hidden.united, **own}, partitions, folder):
            by_spec.setdefault(partition.spec_id, []).append((partition, file))
            self.files.add(file["file_path"])
        for spec_id, pairs in by_spec.items():
            self.tally.deletes_added([file for _, file in pairs])
            schema = pairs[0][0].tuple_schema
            files = [{**file, "partition": partition.values_for(schema)} for partition, file in pairs]
            yield self.writer.write_added(DELETES, spec_id, schema, files)

    def _replaced(self) -> Iterator[tuple[str, ManifestRow]]:
        """Manifests without the entries that are removed, by the path of the original."""
        for one in self.state.contents.listed:
            removed = self._removed_entries(one)
            if removed.any():
                self.tally.removed(one, removed)
                yield one.manifest.path, self.writer.write_without(one, removed.tolist())

    def _removed_entries(self, one: ManifestEntries) -> NDArray[np.bool_]:
        is_delete = one.manifest.content == DELETES
        value_set = self.dangling if is_delete else self.removed
        paths = one.entries["file_path"].combine_chunks()
        removed: NDArray[np.bool_] = pc.is_in(paths, value_set=value_set).to_numpy(zero_copy_only=False)
        return removed | superseded(one, self.changed) if is_delete else removed

    def _data_files(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """The keys and the manifest entries of new data files."""
        staged, with_ids = self.mutation.added, self.writer.version >= ROW_IDS_SINCE
        files = data_files(staged, self.spec, self.sources, self.location, with_ids=with_ids)
        return zip(staged["key"].to_pylist(), files, strict=True)

    def _covered(self) -> tuple[dict[str, BitMap64], dict[str, FilePartition]]:
        """Rows of its own new files that the transaction hides, and the partitions of these files, by path."""
        hidden, partitions = {}, {}
        for key, file in self._data_files() if self.mutation.covered else ():  # one per new file
            positions = self.mutation.covered.get(key)
            if positions and len(positions) < file["record_count"]:
                schema = tuple_schema(self.spec, self.sources)
                hidden[file["file_path"]] = positions
                partitions[file["file_path"]] = FilePartition(self.spec.spec_id, schema, file["partition"])
        return hidden, partitions

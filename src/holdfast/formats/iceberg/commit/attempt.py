"""One attempt to commit: a mutation and the newest metadata become manifests, a list of them and a snapshot.

1. Everything that depends on the commit it lands at is made here, per attempt: sequence numbers, row ids, vectors.
   Files of rows are not written again, and neither is what an attempt before this one wrote and would be the same.
2. Nothing of an attempt is in the table until a catalog takes its snapshot; what a lost attempt wrote nobody refers to.
3. Added files are of the spec the table has now; deletes are of the spec of the file they are about.
4. A file that goes takes along what was about it alone, and the last of those that some deletes were about takes these
   along.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

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
_SMALL = 8 << 20  # bytes of a manifest that is not merged any more
_PATIENCE = 4  # times as many manifests as are merged, from which on who lost an attempt merges them too


@dataclass(frozen=True, slots=True)
class SnapshotAttempt:
    """A snapshot that is written and that no catalog has yet."""

    snapshot_id: int
    parent: int | None
    sequence: int
    timestamp_ms: int
    manifest_list: str
    summary: Mapping[str, str]
    schema_id: int
    first_row_id: int | None  # None below version 3
    added_rows: int | None
    schema: Mapping[str, Any] | None = None  # that the table is to have; None: as it is
    files: frozenset[str] = frozenset()  # that it refers to and that were written for it


def prepare(state: IcebergState, mutation: Mutation, env: Env, drafts: Drafts | None = None) -> SnapshotAttempt:
    """Write what makes a mutation the snapshot after `state`, the newest there is; `drafts` is what earlier attempts
    wrote."""
    _refuse(state, mutation)
    metadata = state.metadata
    drafts = Drafts() if drafts is None else drafts
    name = drafts.begin(env)
    schema = _schema(state, mutation)
    writing = ManifestWriter(state, name.int >> 65, metadata.last_sequence_number + 1, str(name), schema, drafts)
    before = {} if state.entry is None else state.entry.summary
    files: frozenset[str] = frozenset()
    if mutation.mends:
        tally, manifests = SnapshotTally(), list(repaired_manifests(writing, mutation.counts))
        before = {**before, **{k: str(n) for k, n in repaired_totals(state, mutation.counts).items() if k in before}}
    elif mutation.back_to is None:
        plan = drafts.planned(state.version, mutation) or _Made(state, mutation, writing).plan()
        drafts.plan = state.version, plan
        tally, files = SnapshotTally(plan.counts), plan.files
        manifests = [*plan.added, *_kept(writing, plan)]
    else:
        tally = SnapshotTally()
        manifests = list(restored_manifests(writing, time_travel(state, version=mutation.back_to), tally))
    path, first, count = writing.manifest_list(manifests, mark=mutation.mark)
    parent = state.entry
    notes = {
        "engine-name": "holdfast",
        "engine-version": __version__,
        OPERATION: mutation.operation,
        **({KEEPS_IDS: "true"} if mutation.tags.get(KEEPS_ROW_IDS) == "true" else {}),
        **({} if mutation.app is None else {f"{APP}{mutation.app.app_id}": str(mutation.app.version)}),
        **({} if mutation.user_metadata is None else {"user-metadata": mutation.user_metadata}),
        **publication_summary(mutation, parent, writing.sequence),
    }
    said = summary_of(tally, before, is_first=parent is None)
    return SnapshotAttempt(
        snapshot_id=writing.snapshot_id,
        parent=None if parent is None else parent.snapshot_id,
        sequence=writing.sequence,
        timestamp_ms=max(env.now_ms(), metadata.last_updated_ms),
        manifest_list=path,
        summary={"operation": _operation(tally, mutation), **said, **notes},
        schema_id=schema["schema-id"],
        first_row_id=first,
        added_rows=count,
        schema=None if schema["schema-id"] == metadata.current_schema_id else schema,
        files=files | {path, *(row["manifest_path"] for row in manifests)},
    )


def _operation(tally: SnapshotTally, mutation: Mutation) -> str:
    """The word for what a commit does; what came back may have been hidden, which looks like nothing, and so do
    deletes that apply again."""
    if mutation.back_to is not None or (mutation.mends and mutation.data_change):
        return "overwrite"
    return operation_of(tally, data_change=mutation.data_change)


def _schema(state: IcebergState, mutation: Mutation) -> Mapping[str, Any]:
    """The schema that the table has once a mutation is in it."""
    metadata, where = state.metadata, state.metadata_path
    if mutation.shape is None:
        raw = metadata.schema_of(None, where)
        return {**raw, "schema-id": metadata.current_schema_id}
    check_evolution(state.snapshot.schema, mutation.shape.schema, state.contents.types.specs, where=metadata.location)
    return schema_json(metadata, mutation.shape.schema, where)


def _refuse(state: IcebergState, mutation: Mutation) -> None:
    """Say what an Iceberg table has no way to keep."""
    where = state.metadata.location
    if mutation.feed.num_rows or mutation.domains or mutation.readded.num_rows or mutation.restamped.num_rows:
        raise Unsupported(f"{mutation.operation} is nothing that the Iceberg table at {where} can keep")


def _kept(writing: ManifestWriter, plan: ManifestPlan) -> Iterator[ManifestRow]:
    """Manifests that were there: as they are, or without what goes, or many small ones of a spec as one."""
    state, drafts = writing.state, writing.drafts
    whole = []
    for row in manifest_list_rows(state):
        if (again := plan.replaced.get(row["manifest_path"])) is not None:
            yield again
        else:
            whole.append(row)
    rows: dict[str, ManifestRow] = {row["manifest_path"]: row for row in whole}
    there = {one for one in state.contents.manifests if one.path in rows}
    for sources, merged in drafts.merged:
        if sources <= there:
            there -= sources
            rows = _instead(rows, {one.path for one in sources}, merged)
    for spec_id, paths in _small(writing, rows.values()):
        some = [one for one in state.contents.manifests if one.path in paths]
        merged = writing.merged(some, state.contents.types.specs[spec_id])
        drafts.merged.append((frozenset(some), merged))
        rows = _instead(rows, paths, merged)
    yield from rows.values()


def _instead(rows: Mapping[str, ManifestRow], gone: Collection[str], merged: ManifestRow) -> dict[str, ManifestRow]:
    left = {path: row for path, row in rows.items() if path not in gone}
    return {**left, merged["manifest_path"]: merged}


def _small(writing: ManifestWriter, rows: Iterable[ManifestRow]) -> Iterator[tuple[int, frozenset[str]]]:
    """Small data manifests that are to be one, by their paths, spec by spec.

    Who lost an attempt leaves that to others, as long as it can: it takes time, in which more would come.
    """
    properties = writing.state.metadata.properties
    least = max(number(_MERGE_FROM, properties.get(_MERGE_FROM, "100")), 2)
    if not truth(properties.get(_MERGES, "true")):
        return
    small: dict[int, list[ManifestRow]] = {}
    for row in rows:
        # Those of this transaction have been merged already, or have no ids yet.
        has_ids = writing.version < ROW_IDS_SINCE or row.get("first_row_id") is not None
        is_ours = row["added_snapshot_id"] == writing.snapshot_id
        if row["content"] == DATA and row["manifest_length"] < _SMALL and has_ids and not is_ours:
            small.setdefault(row["partition_spec_id"], []).append(row)
    for spec_id, some in small.items():
        if len(some) >= (least if writing.drafts.attempts <= 1 else _PATIENCE * least):
            yield spec_id, frozenset(row["manifest_path"] for row in _worthwhile(some, least))


def _worthwhile(small: Sequence[ManifestRow], least: int) -> Sequence[ManifestRow]:
    """All but a few of the newest, which others may be about to change again; and but those that have more files than
    all smaller ones together, so that no file is written again and again."""
    by_age = sorted(small, key=lambda row: int(row["sequence_number"]))
    ordered = sorted(by_age[: len(by_age) - least // 10], key=_files)
    while len(ordered) > 2 and _files(ordered[-1]) > sum(map(_files, ordered[:-1])):
        ordered.pop()
    return ordered


def _files(row: ManifestRow) -> int:
    return int(row["added_files_count"] + row["existing_files_count"])


class _Made:
    """What a mutation does to the manifests of a state."""

    def __init__(self, state: IcebergState, mutation: Mutation, writing: ManifestWriter) -> None:
        self.state, self.mutation, self.writing = state, mutation, writing
        self.tally = SnapshotTally()
        self.sources = type_names(writing.schema)
        self.spec = state.contents.types.specs[state.metadata.default_spec_id]
        self.location = state.metadata.location.rstrip("/")
        self.hides = unite_positions(state, mutation.hidden)
        keys = {*mutation.removed.column("key").to_pylist(), *self.hides.emptied}
        files = state.snapshot.files.table if keys else FILES.empty_table()
        gone = files.filter(pc.is_in(files["key"], value_set=strings(sorted(keys)))) if keys else files.slice(0, 0)
        self.removed = gone["path"].combine_chunks() if len(gone) else strings([])
        self.changed = strings([*self.removed.to_pylist(), *self.hides.united])
        self.dangling = self._dangling(files, keys)
        self.files: set[str] = set()

    def plan(self) -> ManifestPlan:
        """Write what the mutation adds and changes."""
        added = (*self._added(), *self._hidden())
        replaced = dict(self._replaced()) if len(self.changed) else {}
        return ManifestPlan(self.mutation, added, replaced, self.tally.counts, frozenset(self.files))

    def _added(self) -> Iterator[ManifestRow]:
        """The manifest of new data files."""
        staged = self.mutation.added
        if self.mutation.covered:
            whole = [k for k, n in zip(*_told(staged), strict=True) if len(self.mutation.covered.get(k, ())) == n]
            staged = staged.filter(pc.invert(pc.is_in(staged["key"], value_set=strings(whole))))
        if not staged.num_rows:
            return
        files = list(self._told_of(staged))
        self.tally.added(files)
        yield self.writing.of_new(DATA, self.spec.spec_id, tuple_schema(self.spec, self.sources), files)

    def _hidden(self) -> Iterator[ManifestRow]:
        """Manifests of new deletes, one per spec."""
        own, places = self._covered()
        hidden = {**self.hides.united, **own}
        places |= partitions_of(self.state, list(self.hides.united))
        by_spec: dict[int, list[tuple[FilePartition, Mapping[str, Any]]]] = {}
        folder = f"{self.location}/{DATA_FOLDER}"
        for place, file in delete_files(self.writing, hidden, places, folder):
            by_spec.setdefault(place.spec_id, []).append((place, file))
            self.files.add(file["file_path"])
        for spec_id, made in by_spec.items():
            self.tally.deletes_added([file for _, file in made])
            tuples = made[0][0].tuples
            files = [{**file, "partition": _fitted(place, tuples)} for place, file in made]
            yield self.writing.of_new(DELETES, spec_id, tuples, files)

    def _replaced(self) -> Iterator[tuple[str, ManifestRow]]:
        """Manifests without what goes, by the path of what they were."""
        for one in self.state.contents.listed:
            gone = self._gone(one)
            if gone.any():
                self.tally.removed(one, gone)
                yield one.manifest.path, self.writing.without(one, gone.tolist())

    def _gone(self, one: ManifestEntries) -> Any:
        if one.manifest.content == DELETES:
            about_none = pc.is_in(one.entries["file_path"].combine_chunks(), value_set=self.dangling)
            return superseded(one, self.changed) | about_none.to_numpy(zero_copy_only=False)
        if not len(one) or not len(self.removed):
            return np.zeros(len(one), np.bool_)
        return pc.is_in(one.entries["file_path"].combine_chunks(), value_set=self.removed).to_numpy(
            zero_copy_only=False
        )

    def _dangling(self, files: pa.Table, gone: set[str]) -> pa.Array:
        """Delete files that would apply to none of the files that stay; new files are newer than all of them."""
        deletes = self.state.contents.deletes
        if not gone or not len(deletes):
            return strings([])
        return dangling(files.filter(pc.invert(pc.is_in(files["key"], value_set=strings(sorted(gone))))), deletes)

    def _told_of(self, staged: pa.Table) -> Iterator[dict[str, Any]]:
        """What manifests say of new files."""
        with_ids = self.writing.version >= ROW_IDS_SINCE
        return data_files(staged, self.spec, self.sources, self.location, with_ids=with_ids)

    def _covered(self) -> tuple[dict[str, Any], dict[str, FilePartition]]:
        """Rows of its own new files that a transaction hides, and where these files are placed."""
        hidden, places = {}, {}
        if not self.mutation.covered:
            return {}, {}
        tuples = tuple_schema(self.spec, self.sources)
        files = zip(
            _told(self.mutation.added)[0],
            self._told_of(self.mutation.added),
            strict=True,
        )
        for key, file in files:  # one per new file
            positions = self.mutation.covered.get(key)
            if positions and len(positions) < file["record_count"]:
                hidden[file["file_path"]] = positions
                places[file["file_path"]] = FilePartition(self.spec.spec_id, tuples, file["partition"])
        return hidden, places


def _told(staged: pa.Table) -> tuple[Sequence[str], Sequence[int]]:
    return staged["key"].to_pylist(), staged["num_records"].to_pylist()


def _fitted(place: FilePartition, tuples: Mapping[str, Any]) -> Mapping[str, Any]:
    """A tuple under the names of another manifest of the same spec."""
    if place.tuples is tuples or place.tuples == tuples:
        return place.value
    names = {f.get("field-id"): f["name"] for f in tuples["fields"]}
    return {names.get(f.get("field-id"), f["name"]): place.value.get(f["name"]) for f in place.tuples["fields"]}

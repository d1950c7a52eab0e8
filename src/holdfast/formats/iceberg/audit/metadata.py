"""A table's metadata checked against itself: snapshots, lists, manifests, and what they say of each other.

1. Every snapshot that is kept is looked at; a manifest that several share is read once.
2. Nothing is written, and what cannot be read is a finding that costs the others nothing. Files that only history
   names (old metadata, statistics, files of older snapshots) may be anywhere: nobody opens them here.
3. What other engines may leave without being wrong (deletes that apply to nothing, totals in summaries that do not add
   up) is only worth knowing. But a list with fewer files than the summary says may have lost a manifest: that is wrong
   until somebody looked. It is no reason to refuse the table, because DuckDB and others count wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, Invalid, MissingFile
from holdfast.formats.iceberg.audit.partition_values import PartitionCheck, check_partition_values
from holdfast.formats.iceberg.commit.summary import totals_of
from holdfast.formats.iceberg.deletes.reader import open_delete_file
from holdfast.formats.iceberg.deletes.scope import dangling, referenced_files
from holdfast.formats.iceberg.metadata.manifests import (
    ManifestEntries,
    count_mismatch,
    manifest_files,
    read_manifest,
    read_manifest_list,
)
from holdfast.formats.iceberg.metadata.paths import path_indices
from holdfast.formats.iceberg.metadata.table_metadata import ROW_IDS_SINCE, SnapshotEntry, TableMetadata
from holdfast.formats.iceberg.state import IcebergState
from holdfast.model.finding import Finding, FindingKind
from holdfast.parquet.read import columns_and_rows
from holdfast.storage.arrays import strings
from holdfast.storage.base import NotFound
from holdfast.storage.open import place

_EXAMPLES = 3
_FILES = ("total-data-files", "total-delete-files")
_DIGITS = 20  # that a count has at most


@dataclass(frozen=True, slots=True)
class MetadataChecked:
    """What was found in metadata; `spoken_of` are the keys of every file that some snapshot refers to."""

    findings: tuple[Finding, ...]
    spoken_of: pa.Array


@dataclass(frozen=True, slots=True)
class HeadChecked:
    """What was found in a snapshot that a branch or a tag points to."""

    findings: tuple[Finding, ...]
    is_readable: bool  # whether its files can be listed
    tuples: PartitionCheck
    totals_wrong: bool  # in its summary
    miscounted: int  # manifests of it that its list counts otherwise


def check_metadata(state: IcebergState) -> MetadataChecked:
    """Check what leads to the files of a table, for every snapshot it keeps."""
    found = list(_against_itself(state.metadata))
    keys = [strings(sorted(_metadata_keys(state)))]
    seen = dict(state.contents.read)
    for entry in state.metadata.snapshots:
        for finding, spoken in _snapshot(state, entry, seen):
            found += [] if finding is None else [finding]
            keys.append(spoken)
    return MetadataChecked(tuple(found), pc.unique(pa.concat_arrays(keys)))


def check_head(state: IcebergState, *, footers: bool) -> HeadChecked:
    """Check what the snapshot of a state says of its files; `footers` lets it open data files."""
    found: list[Finding] = []
    is_readable, tuples, wrong = True, PartitionCheck(), 0
    try:
        if state.entry is not None:
            found += _totals(state)
            tuples = check_partition_values(state, footers=footers)
            wrong = sum(count_mismatch(one) is not None for one in state.contents.listed)
            found += tuples.findings
            found += _deletes(state)
    except Damaged as error:
        is_readable = False
        kind = FindingKind.MISSING_COMMIT if isinstance(error, MissingFile) else FindingKind.BAD_COMMIT
        found.append(Finding(kind, str(error), file=error.path, version=state.version))
    totals_wrong = any(finding.kind in (FindingKind.WRONG_SUMMARY, FindingKind.LOST_FILES) for finding in found)
    return HeadChecked(tuple(found), is_readable, tuples, totals_wrong, wrong)


def _against_itself(metadata: TableMetadata) -> Iterator[Finding]:
    """What the metadata file alone shows to be wrong."""
    known = {entry.snapshot_id for entry in metadata.snapshots}
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in known:
            what = f"the {ref.type} {name} points to snapshot {ref.snapshot_id}, which the metadata does not have"
            yield Finding(FindingKind.MISSING_COMMIT, what, version=ref.snapshot_id)
    schemas = {int(schema.get("schema-id", 0)) for schema in metadata.schemas}
    specs = {int(spec.get("spec-id", 0)) for spec in metadata.partition_specs}
    if metadata.current_schema_id not in schemas or metadata.default_spec_id not in specs:
        yield Finding(FindingKind.BAD_COMMIT, "the current schema or the default partition spec is not in the metadata")
    for entry in metadata.snapshots:
        if entry.sequence_number > metadata.last_sequence_number:
            what = (
                f"snapshot {entry.snapshot_id} has the sequence number {entry.sequence_number}, and the last of the "
                f"table is {metadata.last_sequence_number}: deletes to come would miss its files"
            )
            yield Finding(FindingKind.BAD_COMMIT, what, version=entry.snapshot_id)
        if entry.schema_id is not None and entry.schema_id not in schemas:
            what = f"snapshot {entry.snapshot_id} is of schema {entry.schema_id}, which the metadata does not have"
            yield Finding(FindingKind.BAD_COMMIT, what, version=entry.snapshot_id)
    if metadata.format_version >= ROW_IDS_SINCE and metadata.next_row_id is None:
        yield Finding(
            FindingKind.MARK_BELOW_DATA, "the metadata has no next-row-id, so no row to come can be given an id"
        )


def _metadata_keys(state: IcebergState) -> Iterator[str]:
    metadata = state.metadata
    told = [
        state.metadata_path,
        *(entry.get("metadata-file") for entry in metadata.metadata_log),
        *(entry.get("statistics-path") for entry in (*metadata.statistics, *metadata.partition_statistics)),
        *(entry.manifest_list for entry in metadata.snapshots),
        f"{metadata.location.rstrip('/')}/metadata/version-hint.text",
    ]
    for path in told:
        if isinstance(path, str) and path:
            yield state.paths.anywhere.key(path)


def _snapshot(
    state: IcebergState, entry: SnapshotEntry, seen: dict[str, ManifestEntries]
) -> Iterator[tuple[Finding | None, pa.Array]]:
    """What is wrong with the manifests of a snapshot, and the keys of the files they list; `seen` are read already."""
    nothing = strings([])
    heads = {ref.snapshot_id for ref in state.metadata.refs.values() if ref.type == "branch"}
    try:
        manifests = manifest_files(entry, read_manifest_list(state.paths, entry))
    except (Damaged, Invalid) as error:
        yield _unreadable(error, entry), nothing
        return
    for manifest in manifests:
        known = seen.get(manifest.path)
        if known is None or manifest != known.manifest:
            try:
                known = seen[manifest.path] = read_manifest(state.paths, manifest)
            except (Damaged, Invalid) as error:
                yield _unreadable(error, entry), nothing
                continue
        yield None, strings([state.paths.key(manifest.path)])
        yield None, state.paths.anywhere.keys(known.entries["file_path"].combine_chunks())
        wrong = count_mismatch(known)
        if wrong is not None:
            what = f"the list of snapshot {entry.snapshot_id} says that {manifest.path} has {wrong}"
            repair = "counts anew in a new snapshot" if entry.snapshot_id in heads else None
            yield Finding(FindingKind.WRONG_COUNT, what, manifest.path, entry.snapshot_id, repair), nothing


def _unreadable(error: Damaged | Invalid, entry: SnapshotEntry) -> Finding:
    kind = FindingKind.MISSING_COMMIT if isinstance(error, MissingFile) else FindingKind.BAD_COMMIT
    what = f"snapshot {entry.snapshot_id} cannot be read: {error}"
    return Finding(kind, what, file=error.path if isinstance(error, Damaged) else None, version=entry.snapshot_id)


def _deletes(state: IcebergState) -> Iterator[Finding]:
    """What is wrong with the delete files of a snapshot."""
    deletes = state.contents.deletes
    files = state.snapshot.files.table
    if not len(deletes):
        return
    for row in deletes.equality.to_pylist():  # one per file of deletes by value
        if (wrong := _absent(state, row)) is not None:
            yield wrong
    loose: set[str] = set(deletes.table["file_path"].to_pylist())
    if len(files):
        about = referenced_files(deletes.table)
        lost = np.asarray(pc.is_valid(about)) & (path_indices(files["path"].combine_chunks(), about) < 0)
        single = deletes.table.filter(pa.array(lost))["file_path"].to_pylist()
        loose = {*dangling(files, deletes).to_pylist(), *single}
    if loose:
        what = (
            f"{len(loose)} delete files apply to no file of the table, such as "
            f"{', '.join(sorted(loose)[:_EXAMPLES])}: compactions of other engines leave them"
        )
        yield Finding(FindingKind.IDLE_DELETES, what, file=min(loose), count=len(loose))


def _absent(state: IcebergState, row: Mapping[str, Any]) -> Finding | None:
    path = row["file_path"]
    store, key = place(state.paths.location, state.paths.key(path))
    try:
        size = store.head(key).size
    except NotFound:
        what = f"{path} holds rows that are deleted by value and is not there: reading the table fails; restore it"
        return Finding(FindingKind.MISSING_DELETES, what, file=path)
    if size != row["file_size_in_bytes"]:
        what = f"{path} has {size} bytes where its manifest has {row['file_size_in_bytes']}: it was overwritten"
        return Finding(FindingKind.WRONG_SIZE, what, file=path)
    return _blind(state, row)


def _blind(state: IcebergState, row: Mapping[str, Any]) -> Finding | None:
    """Deletes by value that lack a column they compare, which is then compared as null."""
    source, task = open_delete_file(state.paths, row)
    try:
        nodes, rows = columns_and_rows(source, task)
    except Damaged as error:
        return Finding(FindingKind.BAD_VECTOR, str(error), file=task.uri)
    if rows != task.rows:
        what = f"{task.uri} has {rows} rows to delete by value, and its manifest says {task.rows}"
        return Finding(FindingKind.WRONG_COUNT, what, file=task.uri)
    known = {node.field_id for node in nodes}
    absent = sorted(set(row["equality_ids"] or ()) - known) if known - {None} else []
    if not absent:
        return None
    what = (
        f"{task.uri} deletes by the fields {', '.join(map(str, absent))}, which it does not have: it takes rows where "
        "they are null, and no others"
    )
    return Finding(FindingKind.BLIND_DELETES, what, file=task.uri)


def _totals(state: IcebergState) -> Iterator[Finding]:
    assert state.entry is not None, "totals are those of a snapshot"
    summary = state.entry.summary
    counts = totals_of(state.contents.listed)
    wrong = {name: count for name, count in counts.items() if summary.get(name, count) not in (count, str(count))}
    if not wrong:
        return
    what = f"the summary of snapshot {state.version} says "
    what += ", ".join(f"{name} {summary[name]} for {count}" for name, count in wrong.items())
    repair = "adds up in a new snapshot"
    lost = [name for name in _FILES if name in wrong and _number(summary[name]) > wrong[name]]
    if not lost:
        yield Finding(FindingKind.WRONG_SUMMARY, what, version=state.version, repair=repair)
        return
    what += (
        ": the list of manifests may have lost some; compare with an earlier snapshot, and restore the list, or repair "
        "the totals if the writer counted wrong"
    )
    yield Finding(FindingKind.LOST_FILES, what, state.entry.manifest_list, state.version, repair)


def _number(said: object) -> int:
    """What a summary says as a number; 0 where it says none."""
    text = str(said)
    return int(text) if text.isdecimal() and text.isascii() and len(text) < _DIGITS else 0

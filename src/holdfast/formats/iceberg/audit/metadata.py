"""Checks a table's metadata for contradictions between snapshots, manifest lists and manifests.

1. Every snapshot in the metadata is checked; a manifest that several share is read once.
2. Nothing is written, and an unreadable file is a finding that does not stop the check. Files that only the history
   names (old metadata, statistics, files of older snapshots) may lie anywhere: they are not opened.
3. What other engines leave behind without harm (deletes that apply to nothing, totals in summaries that do not add up)
   is reported as such. But a manifest list with fewer files than the summary says may have lost a manifest: that is an
   error until somebody has looked. The table is still read, because DuckDB and others count wrong.
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
    """Findings in the metadata; `spoken_of` are the keys of all files that some snapshot refers to."""

    findings: tuple[Finding, ...]
    spoken_of: pa.Array


@dataclass(frozen=True, slots=True)
class HeadChecked:
    """Findings in a snapshot that a branch or a tag points to."""

    findings: tuple[Finding, ...]
    is_readable: bool  # whether its files can be listed
    tuples: PartitionCheck
    totals_wrong: bool  # in its summary
    miscounted: int  # manifests of it that its list counts otherwise


def check_metadata(state: IcebergState) -> MetadataChecked:
    """Checks the metadata, manifest lists and manifests of all snapshots."""
    findings = list(_check_fields(state.metadata))
    keys = [strings(sorted(_metadata_keys(state)))]
    read = dict(state.contents.read)
    for entry in state.metadata.snapshots:
        for finding, files in _snapshot(state, entry, read):
            findings += [] if finding is None else [finding]
            keys.append(files)
    return MetadataChecked(tuple(findings), pc.unique(pa.concat_arrays(keys)))


def check_head(state: IcebergState, *, footers: bool) -> HeadChecked:
    """Checks the summary, partition values and deletes of a state's snapshot; `footers` allows opening data files."""
    findings: list[Finding] = []
    is_readable, tuples, wrong = True, PartitionCheck(), 0
    try:
        if state.entry is not None:
            findings += _totals(state)
            tuples = check_partition_values(state, footers=footers)
            wrong = sum(count_mismatch(one) is not None for one in state.contents.listed)
            findings += tuples.findings
            findings += _deletes(state)
    except Damaged as error:
        is_readable = False
        kind = FindingKind.MISSING_COMMIT if isinstance(error, MissingFile) else FindingKind.BAD_COMMIT
        findings.append(Finding(kind, str(error), file=error.path, version=state.version))
    totals_wrong = any(finding.kind in (FindingKind.WRONG_SUMMARY, FindingKind.LOST_FILES) for finding in findings)
    return HeadChecked(tuple(findings), is_readable, tuples, totals_wrong, wrong)


def _check_fields(metadata: TableMetadata) -> Iterator[Finding]:
    """Contradictions within the metadata file."""
    snapshots = {entry.snapshot_id for entry in metadata.snapshots}
    for name, ref in metadata.refs.items():
        if ref.snapshot_id not in snapshots:
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
    paths = [
        state.metadata_path,
        *(entry.get("metadata-file") for entry in metadata.metadata_log),
        *(entry.get("statistics-path") for entry in (*metadata.statistics, *metadata.partition_statistics)),
        *(entry.manifest_list for entry in metadata.snapshots),
        f"{metadata.location.rstrip('/')}/metadata/version-hint.text",
    ]
    for path in paths:
        if isinstance(path, str) and path:
            yield state.paths.anywhere.key(path)


def _snapshot(
    state: IcebergState, entry: SnapshotEntry, read: dict[str, ManifestEntries]
) -> Iterator[tuple[Finding | None, pa.Array]]:
    """Findings in the manifests of a snapshot, and the keys of their files; `read` are manifests read before."""
    nothing = strings([])
    heads = {ref.snapshot_id for ref in state.metadata.refs.values() if ref.type == "branch"}
    try:
        manifests = manifest_files(entry, read_manifest_list(state.paths, entry))
    except (Damaged, Invalid) as error:
        yield _unreadable(error, entry), nothing
        return
    for manifest in manifests:
        entries = read.get(manifest.path)
        if entries is None or manifest != entries.manifest:
            try:
                entries = read[manifest.path] = read_manifest(state.paths, manifest)
            except (Damaged, Invalid) as error:
                yield _unreadable(error, entry), nothing
                continue
        yield None, strings([state.paths.key(manifest.path)])
        yield None, state.paths.anywhere.keys(entries.entries["file_path"].combine_chunks())
        wrong = count_mismatch(entries)
        if wrong is not None:
            what = f"the list of snapshot {entry.snapshot_id} says that {manifest.path} has {wrong}"
            repair = "counts anew in a new snapshot" if entry.snapshot_id in heads else None
            yield Finding(FindingKind.WRONG_COUNT, what, manifest.path, entry.snapshot_id, repair), nothing


def _unreadable(error: Damaged | Invalid, entry: SnapshotEntry) -> Finding:
    kind = FindingKind.MISSING_COMMIT if isinstance(error, MissingFile) else FindingKind.BAD_COMMIT
    what = f"snapshot {entry.snapshot_id} cannot be read: {error}"
    return Finding(kind, what, file=error.path if isinstance(error, Damaged) else None, version=entry.snapshot_id)


def _deletes(state: IcebergState) -> Iterator[Finding]:
    """Findings in the delete files of a snapshot."""
    deletes = state.contents.deletes
    files = state.snapshot.files.table
    if not len(deletes):
        return
    for row in deletes.equality.to_pylist():  # one per equality delete file
        if (finding := _check_equality_file(state, row)) is not None:
            yield finding
    idle: set[str] = set(deletes.table["file_path"].to_pylist())
    if len(files):
        referenced = referenced_files(deletes.table)
        lost = np.asarray(pc.is_valid(referenced)) & (path_indices(files["path"].combine_chunks(), referenced) < 0)
        of_lost = deletes.table.filter(pa.array(lost))["file_path"].to_pylist()
        idle = {*dangling(files, deletes).to_pylist(), *of_lost}
    if idle:
        what = (
            f"{len(idle)} delete files apply to no file of the table, such as "
            f"{', '.join(sorted(idle)[:_EXAMPLES])}: compactions of other engines leave them"
        )
        yield Finding(FindingKind.IDLE_DELETES, what, file=min(idle), count=len(idle))


def _check_equality_file(state: IcebergState, row: Mapping[str, Any]) -> Finding | None:
    """What is wrong with an equality delete file, if anything."""
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
    source, task = open_delete_file(state.paths, row)
    try:
        nodes, rows = columns_and_rows(source, task)
    except Damaged as error:
        return Finding(FindingKind.BAD_VECTOR, str(error), file=task.uri)
    if rows != task.rows:
        what = f"{task.uri} has {rows} rows to delete by value, and its manifest says {task.rows}"
        return Finding(FindingKind.WRONG_COUNT, what, file=task.uri)
    field_ids = {node.field_id for node in nodes}
    absent = sorted(set(row["equality_ids"] or ()) - field_ids) if field_ids - {None} else []
    if not absent:
        return None  # a compared column that the file lacks would be compared as null
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


def _number(total: object) -> int:
    """A total of a summary as a number; 0 where it is none."""
    text = str(total)
    return int(text) if text.isdecimal() and text.isascii() and len(text) < _DIGITS else 0

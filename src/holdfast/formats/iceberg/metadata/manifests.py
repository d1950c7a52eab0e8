"""Manifests and the lists of them: which files a snapshot has, and what each commit said of its files.

1. Only live entries are kept; what they inherit (sequence numbers, first row ids) is settled over all entries of their
   manifest first, so that leaving a file out never renumbers another.
2. A row id is inherited from the manifest alone: a delete manifest has none, whatever its list says, and the
   snapshot's own number is not looked at.
3. A manifest has at least as many live entries as the list over it says, and where the list does not say, as many
   bytes; another one is Damaged, never fewer files. Lengths alone are not held against one: rewriters leave them wrong.
   What it says of itself, data or deletes and of which spec, is what the list says of it.
4. Entries are columns; partition tuples keep the types of the manifest's own schema, whatever the table's is today.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import Damaged, MissingFile
from holdfast.formats.iceberg.avro.layouts import FIELD_ID
from holdfast.formats.iceberg.avro.reader import read_container
from holdfast.formats.iceberg.metadata.paths import Paths
from holdfast.formats.iceberg.metadata.table_metadata import SnapshotEntry
from holdfast.storage.base import LARGEST_BYTES, NotFound
from holdfast.storage.open import place

DATA, DELETES = 0, 1  # contents of a manifest
DATA_FILE, POSITION_DELETES, EQUALITY_DELETES = 0, 1, 2  # contents of a file
_DELETED = 2  # status of an entry
_SPEC_DIGITS = 10
_ANY_MANIFEST, _LENGTHS = 256 << 20, 16  # bytes that a manifest may have whatever its list says, and how many lengths
_PAIRS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.int64())]))
_BLOBS = pa.list_(pa.struct([("key", pa.int64()), ("value", pa.binary())]))
ENTRIES = pa.schema(
    [
        ("content", pa.int64()),
        ("file_path", pa.string()),
        ("file_format", pa.string()),
        ("record_count", pa.int64()),
        ("file_size_in_bytes", pa.int64()),
        ("null_value_counts", _PAIRS),
        ("nan_value_counts", _PAIRS),
        ("lower_bounds", _BLOBS),
        ("upper_bounds", _BLOBS),
        ("equality_ids", pa.list_(pa.int64())),
        ("first_row_id", pa.int64()),
        ("referenced_data_file", pa.string()),
        ("content_offset", pa.int64()),
        ("content_size_in_bytes", pa.int64()),
        ("sequence_number", pa.int64()),
    ]
)
_REQUIRED = ("content", "file_path", "file_format", "record_count", "file_size_in_bytes")
_ENTRY_FIELDS = frozenset({*ENTRIES.names, "status", "snapshot_id", "partition"})


@dataclass(frozen=True, slots=True)
class FieldSummary:
    """What a list says of one partition field over all files of a manifest; bounds are single values as bytes."""

    contains_null: bool
    contains_nan: bool | None = None  # None: not said
    low: bytes | None = None
    high: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """A manifest as a list of them tells; `spec_id` is None in tables of version 1 that have no list."""

    path: str
    content: int
    spec_id: int | None
    sequence_number: int
    first_row_id: int | None
    length: int | None
    files: int | None = None  # live ones; None: not said
    rows: int | None = None  # of these
    partitions: tuple[FieldSummary, ...] | None = None  # of its files' tuples, a field of the spec each; None: not said
    added_by: int | None = None  # the snapshot that wrote it, which entries inherit that say none


@dataclass(frozen=True)
class ManifestEntries:
    """The live entries of a manifest: a table with the columns of ENTRIES, and their partition tuples as stored."""

    manifest: ManifestFile
    spec_id: int
    entries: pa.Table
    partitions: pa.StructArray
    written_as: bytes = b""  # the schema its writer gave it, as Avro says it

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    @cached_property
    def partition_ids(self) -> dict[int, int]:
        """Where each partition field, by id, stands in the tuples."""
        fields = [self.partitions.type.field(i) for i in range(self.partitions.type.num_fields)]
        ids = [(f.metadata or {}).get(FIELD_ID) for f in fields]
        return {int(number): at for at, number in enumerate(ids) if number is not None}

    def partition_column(self, field_id: int, name: str) -> pa.Array | None:
        """The stored values of a partition field; None where the manifest has no such field."""
        at = self.partition_place(field_id, name)
        return None if at is None else self.partitions.field(at)

    def partition_place(self, field_id: int, name: str) -> int | None:
        """Where a partition field stands in the tuples; None where the manifest has no such field."""
        at = self.partition_ids.get(field_id)
        if at is None and not self.partition_ids:
            at = self.partitions.type.get_field_index(name)
        return None if at is None or at < 0 else at


def read_manifest_list(paths: Paths, snapshot: SnapshotEntry) -> pa.StructArray | None:
    """The list of a snapshot's manifests, as it is stored; None where the snapshot names them itself."""
    where = snapshot.manifest_list
    return None if where is None else read_container(fetch_file(paths, where), where=where).records


def manifest_files(snapshot: SnapshotEntry, records: pa.StructArray | None) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, in the order of its list."""
    if records is None or snapshot.manifest_list is None:
        return tuple(ManifestFile(path, DATA, None, 0, None, None) for path in snapshot.manifests)
    where = snapshot.manifest_list
    found = []
    for row in records.to_pylist():  # one per manifest
        _check_listed(row, where)
        content = row.get("content") or DATA
        first = row.get("first_row_id") if content == DATA else None
        found.append(
            ManifestFile(
                row["manifest_path"],
                content,
                row.get("partition_spec_id", 0),
                row.get("sequence_number") or 0,
                first,
                row.get("manifest_length"),
                _live(row, "files", where),
                _live(row, "rows", where),
                _summaries(row.get("partitions")),
                row.get("added_snapshot_id"),
            )
        )
    return tuple(found)


_LISTED = {  # types of what a list says of a manifest, where it says it
    "manifest_path": str,
    "partitions": list,
    **dict.fromkeys(
        ("manifest_length", "partition_spec_id", "content", "sequence_number", "min_sequence_number", "first_row_id"),
        int,
    ),
    "added_snapshot_id": int,
    **{
        f"{kind}_{what}_count": int
        for kind in ("added", "existing", "deleted")
        for what in ("files", "data_files", "rows")
    },
}


def _check_listed(row: Mapping[str, Any], where: str) -> None:
    wrong = [name for name, type_ in _LISTED.items() if not isinstance(row.get(name), type_ | None)]
    if wrong or row.get("manifest_path") is None or row.get("content") not in (None, DATA, DELETES):
        raise Damaged(f"{where} is no list of manifests ({', '.join(wrong) or 'an entry has no path'})", path=where)
    for one in row.get("partitions") or ():
        if not isinstance(one, dict) or not isinstance(one.get("contains_null"), bool):
            raise Damaged(f"{where} has a summary of partitions that does not say whether there are nulls", path=where)


def _live(row: Mapping[str, Any], what: str, where: str) -> int | None:
    """How many live files, or rows, a list says a manifest has; lists of version 1 call files data files."""
    counts = [row.get(f"{kind}_{what}_count", row.get(f"{kind}_data_{what}_count")) for kind in ("added", "existing")]
    known = [count for count in counts if count is not None]
    if min(known, default=0) < 0:
        raise Damaged(f"{where} says that {row['manifest_path']} has fewer than no {what}; restore it", path=where)
    return sum(known) if len(known) == len(counts) else None


def _summaries(told: Sequence[Mapping[str, Any]] | None) -> tuple[FieldSummary, ...] | None:
    if told is None:
        return None
    return tuple(
        FieldSummary(
            bool(one["contains_null"]), one.get("contains_nan"), one.get("lower_bound"), one.get("upper_bound")
        )
        for one in told
    )


def read_manifest(paths: Paths, manifest: ManifestFile) -> ManifestEntries:
    """The live entries of a manifest."""
    most = LARGEST_BYTES if manifest.length is None else max(_ANY_MANIFEST, _LENGTHS * manifest.length)
    data = fetch_file(paths, manifest.path, most)
    found = read_container(data, wanted=_ENTRY_FIELDS, where=manifest.path)
    spec_id = _spec_id(found.notes, manifest)
    _check_content(found.notes, manifest)
    files, partitions = _struct(found.records, "data_file"), None
    if files is not None:
        partitions = _struct(files, "partition")
    if files is None or (partitions is None and _field(files, "partition") is not None):
        raise Damaged(f"{manifest.path} has no files, or tuples that are none: it is no manifest", path=manifest.path)
    status = _column(found.records, pa.field("status", pa.int64()), manifest.path)
    if status.null_count or (len(status) and not 0 <= pc.min(status).as_py() <= pc.max(status).as_py() <= _DELETED):
        raise Damaged(f"{manifest.path} has an entry of no known status; restore it", path=manifest.path)
    columns = {f.name: _column(files, f, manifest.path) for f in ENTRIES}
    columns["content"] = pc.fill_null(columns["content"], DATA_FILE)
    columns["sequence_number"] = _sequence(found.records, status, manifest)
    live = pc.not_equal(status, _DELETED)
    columns["first_row_id"] = _first_row_ids(columns, live, manifest)
    columns["file_format"] = pc.utf8_lower(columns["file_format"])
    if partitions is None:
        partitions = pa.Array.from_buffers(pa.struct([]), len(files), [None])
    entries = pa.table(columns, schema=ENTRIES)
    if not pc.all(live, min_count=0).as_py():
        entries, partitions = entries.filter(live), partitions.filter(live)
    _check_whole(entries, len(data), manifest)
    _check_entries(entries, manifest)
    if (missing := pc.index(pc.is_null(entries["sequence_number"]), True).as_py()) >= 0:
        file = entries["file_path"][missing].as_py()
        raise Damaged(f"{manifest.path} gives no sequence number for {file}, which it did not add", path=manifest.path)
    return ManifestEntries(manifest, spec_id, entries, partitions, found.notes["avro.schema"])


def count_mismatch(one: ManifestEntries) -> str | None:
    """What a list says otherwise of a manifest than the manifest does."""
    manifest = one.manifest
    rows = pc.sum(one.entries["record_count"]).as_py() or 0
    if manifest.files is not None and manifest.files != len(one):
        return f"{manifest.files} live files, and it has {len(one)}"
    if manifest.rows is not None and manifest.rows != rows:
        return f"{manifest.rows} live rows, and its files have {rows}"
    return None


def _check_whole(entries: pa.Table, size: int, manifest: ManifestFile) -> None:
    """Whether a manifest of some bytes has all live entries that the list over it speaks of."""
    what, said, count = "live files", manifest.files, entries.num_rows
    if said is None:
        what, said, count = "bytes", manifest.length, size
    if said is not None and said > count:
        raise Damaged(
            f"{manifest.path} has {count} {what} where the list of manifests says {said}; restore it, or read an "
            "earlier snapshot",
            path=manifest.path,
            expected=str(said),
            found=str(count),
        )


def _check_entries(entries: pa.Table, manifest: ManifestFile) -> None:
    """Whether each entry says what it must, and is of the kind that its manifest lists."""
    where = manifest.path
    for name in _REQUIRED:
        column = entries[name]
        if column.null_count or (pa.types.is_integer(column.type) and (pc.min(column).as_py() or 0) < 0):
            raise Damaged(f"{where} has a file without {name}, or with one below zero; restore it", path=where)
    kinds = {*pc.unique(entries["content"]).to_pylist()}
    if manifest.content == DELETES and not kinds <= {POSITION_DELETES, EQUALITY_DELETES}:
        raise Damaged(f"{where} lists other files among delete files; restore it", path=where)
    if manifest.content != DELETES and not kinds <= {DATA_FILE}:
        raise Damaged(f"{where} lists delete files among data files; restore it", path=where)


def fetch_file(paths: Paths, path: str, most: int = LARGEST_BYTES) -> bytes:
    """The bytes of a metadata file that the table refers to, which are not more than some."""
    store, key = place(paths.location, paths.key(path))
    try:
        return store.get(key, min(most, LARGEST_BYTES))
    except NotFound as error:
        url = f"{store.url}/{key}"
        raise MissingFile(
            f"{url} is not there, but the table refers to it as {path}; restore it, or say with relocate={{old: new}} "
            "where the table was copied to",
            path=url,
        ) from error


def _field(records: pa.StructArray, name: str) -> pa.Array | None:
    at = records.type.get_field_index(name)
    return None if at < 0 else records.field(at)


def _struct(records: pa.StructArray, name: str) -> pa.StructArray | None:
    found = _field(records, name)
    return found if found is not None and pa.types.is_struct(found.type) else None


def _column(records: pa.StructArray, field: pa.Field, where: str) -> pa.Array:
    found = _field(records, field.name)
    if found is None:
        return pa.nulls(len(records), field.type)
    try:
        return found.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Damaged(f"{where} has a {field.name} of {found.type}; restore it", path=where) from error


def _spec_id(notes: Mapping[str, bytes], manifest: ManifestFile) -> int:
    """The spec of a manifest: the list says it, or the manifest itself; if both do, they agree."""
    where = manifest.path
    noted = notes.get("partition-spec-id", b"0" if manifest.spec_id is None else b"%d" % manifest.spec_id)
    if not noted.isdigit() or len(noted) > _SPEC_DIGITS:
        raise Damaged(f"{where} says no partition spec; restore it", path=where, found=repr(noted))
    if manifest.spec_id not in (None, int(noted)):
        raise Damaged(
            f"{where} is of partition spec {int(noted)} where the list of manifests says {manifest.spec_id}: one "
            "manifest stands in place of another; restore it, or read an earlier snapshot",
            path=where,
            expected=str(manifest.spec_id),
            found=noted.decode(),
        )
    return int(noted)


def _check_content(notes: Mapping[str, bytes], manifest: ManifestFile) -> None:
    """Whether a manifest that says what it lists says what the list of manifests does."""
    expected = b"deletes" if manifest.content == DELETES else b"data"
    noted = notes.get("content", expected)
    if noted != expected:
        raise Damaged(
            f"{manifest.path} says that it lists {noted!r} where the list of manifests says {expected!r}: one manifest "
            "stands in place of another; restore it, or read an earlier snapshot",
            path=manifest.path,
            expected=repr(expected),
            found=repr(noted),
        )


def _sequence(records: pa.StructArray, status: pa.Array, manifest: ManifestFile) -> pa.Array:
    """Data sequence numbers: an added file without one has its manifest's; version 1 has none but 0."""
    if _field(records, "sequence_number") is None:
        return pa.array(np.zeros(len(records), np.int64))
    own = _column(records, ENTRIES.field("sequence_number"), manifest.path)
    added = pc.not_equal(status, 0)
    inherits = pc.or_(added, pa.scalar(manifest.sequence_number == 0))
    return pc.if_else(pc.and_(pc.is_null(own), inherits), pa.scalar(manifest.sequence_number, pa.int64()), own)


def _first_row_ids(columns: dict[str, pa.Array], live: pa.Array, manifest: ManifestFile) -> pa.Array:
    own = columns["first_row_id"]
    if manifest.first_row_id is None:
        return pa.nulls(len(own), pa.int64())
    asks = pc.and_(live, pc.is_null(own)).to_numpy(zero_copy_only=False)
    counts = np.where(asks, columns["record_count"].to_numpy(zero_copy_only=False), 0)
    ends = manifest.first_row_id + np.cumsum(counts)
    given = pa.array(ends - counts, mask=~asks)
    return pc.coalesce(own, given)

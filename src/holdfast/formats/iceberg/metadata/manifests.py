"""Reads manifest lists and manifests: the data files and delete files of a snapshot.

1. Only live entries are kept. What they inherit (sequence numbers, first row ids) is computed over all entries of the
   manifest first, so that a deleted entry never changes the ids of another.
2. A first row id is inherited from the manifest alone: a delete manifest has none, whatever the manifest list says, and
   the snapshot's own `first-row-id` is not used.
3. A manifest has at least as many live entries as the manifest list says, or at least as many bytes where the list
   gives no count; otherwise it is Damaged. A wrong length alone is accepted: some rewriters leave it wrong. The content
   and the partition spec that a manifest states are those that the list states.
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
_SIZE_FLOOR, _SIZE_RATIO = 256 << 20, 16  # a manifest may have this many bytes, or this many times its stated length
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
    """A manifest list's `field_summary`: one partition field over all files of a manifest."""

    contains_null: bool
    contains_nan: bool | None = None  # None: not stated
    low: bytes | None = None
    high: bytes | None = None


@dataclass(frozen=True, slots=True)
class ManifestFile:
    """An entry of a manifest list; `spec_id` is None in tables of version 1 that have no manifest list."""

    path: str
    content: int
    spec_id: int | None
    sequence_number: int
    first_row_id: int | None
    length: int | None
    files: int | None = None  # live ones; None: not stated
    rows: int | None = None  # of the live files
    partitions: tuple[FieldSummary, ...] | None = None  # one per field of the spec; None: not stated
    added_snapshot_id: int | None = None  # inherited by entries without a snapshot id


@dataclass(frozen=True)
class ManifestEntries:
    """The live entries of a manifest, as a table with the columns of ENTRIES, and their partition tuples as stored."""

    manifest: ManifestFile
    spec_id: int
    entries: pa.Table
    partitions: pa.StructArray
    avro_schema: bytes = b""  # the writer's, as JSON

    def __len__(self) -> int:
        return int(self.entries.num_rows)

    @cached_property
    def partition_ids(self) -> dict[int, int]:
        """The index of each partition field in the tuples, by field id."""
        fields = [self.partitions.type.field(i) for i in range(self.partitions.type.num_fields)]
        ids = [(f.metadata or {}).get(FIELD_ID) for f in fields]
        return {int(number): at for at, number in enumerate(ids) if number is not None}

    def partition_column(self, field_id: int, name: str) -> pa.Array | None:
        """The stored values of a partition field; None where the manifest has no such field."""
        at = self.partition_index(field_id, name)
        return None if at is None else self.partitions.field(at)

    def partition_index(self, field_id: int, name: str) -> int | None:
        """The index of a partition field in the tuples; None where the manifest has no such field."""
        at = self.partition_ids.get(field_id)
        if at is None and not self.partition_ids:
            at = self.partitions.type.get_field_index(name)
        return None if at is None or at < 0 else at


def read_manifest_list(paths: Paths, snapshot: SnapshotEntry) -> pa.StructArray | None:
    """The records of a snapshot's manifest list; None where the snapshot names its manifests itself."""
    where = snapshot.manifest_list
    return None if where is None else read_container(fetch_file(paths, where), where=where).records


def manifest_files(snapshot: SnapshotEntry, records: pa.StructArray | None) -> tuple[ManifestFile, ...]:
    """The manifests of a snapshot, in the order of its manifest list."""
    if records is None or snapshot.manifest_list is None:
        return tuple(ManifestFile(path, DATA, None, 0, None, None) for path in snapshot.manifests)
    where = snapshot.manifest_list
    manifests = []
    for row in records.to_pylist():  # one per manifest
        _check_list_row(row, where)
        content = row.get("content") or DATA
        manifests.append(
            ManifestFile(
                row["manifest_path"],
                content,
                row.get("partition_spec_id", 0),
                row.get("sequence_number") or 0,
                row.get("first_row_id") if content == DATA else None,
                row.get("manifest_length"),
                _live_count(row, "files", where),
                _live_count(row, "rows", where),
                _field_summaries(row.get("partitions")),
                row.get("added_snapshot_id"),
            )
        )
    return tuple(manifests)


_LIST_TYPES = {  # of the fields of a manifest list, where they are set
    "manifest_path": str,
    "partitions": list,
    **dict.fromkeys(
        (
            *("manifest_length", "partition_spec_id", "content", "sequence_number", "min_sequence_number"),
            *("first_row_id", "added_snapshot_id"),
            *(f"{k}_{n}_count" for k in ("added", "existing", "deleted") for n in ("files", "data_files", "rows")),
        ),
        int,
    ),
}


def _check_list_row(row: Mapping[str, Any], where: str) -> None:
    wrong = [name for name, type_ in _LIST_TYPES.items() if not isinstance(row.get(name), type_ | None)]
    if wrong or row.get("manifest_path") is None or row.get("content") not in (None, DATA, DELETES):
        raise Damaged(f"{where} is no list of manifests ({', '.join(wrong) or 'an entry has no path'})", path=where)
    for one in row.get("partitions") or ():
        if not isinstance(one, dict) or not isinstance(one.get("contains_null"), bool):
            raise Damaged(f"{where} has a summary of partitions that does not say whether there are nulls", path=where)


def _live_count(row: Mapping[str, Any], what: str, where: str) -> int | None:
    """The live files or rows that a manifest list states; version 1 says `data_files` for `files`."""
    counts = [row.get(f"{kind}_{what}_count", row.get(f"{kind}_data_{what}_count")) for kind in ("added", "existing")]
    known = [count for count in counts if count is not None]
    if min(known, default=0) < 0:
        raise Damaged(f"{where} says that {row['manifest_path']} has fewer than no {what}; restore it", path=where)
    return sum(known) if len(known) == len(counts) else None


def _field_summaries(rows: Sequence[Mapping[str, Any]] | None) -> tuple[FieldSummary, ...] | None:
    if rows is None:
        return None
    return tuple(
        FieldSummary(row["contains_null"], row.get("contains_nan"), row.get("lower_bound"), row.get("upper_bound"))
        for row in rows
    )


def read_manifest(paths: Paths, manifest: ManifestFile) -> ManifestEntries:
    """Reads the live entries of a manifest."""
    most = LARGEST_BYTES if manifest.length is None else max(_SIZE_FLOOR, _SIZE_RATIO * manifest.length)
    data = fetch_file(paths, manifest.path, most)
    container = read_container(data, wanted=_ENTRY_FIELDS, where=manifest.path)
    records = container.records
    spec_id = _spec_id(container.header, manifest)
    _check_content(container.header, manifest)
    files = _struct(records, "data_file")
    partitions = None if files is None else _struct(files, "partition")
    if files is None or (partitions is None and _field(files, "partition") is not None):
        raise Damaged(f"{manifest.path} has no files, or tuples that are none: it is no manifest", path=manifest.path)
    status = _column(records, pa.field("status", pa.int64()), manifest.path)
    if status.null_count or (len(status) and not 0 <= pc.min(status).as_py() <= pc.max(status).as_py() <= _DELETED):
        raise Damaged(f"{manifest.path} has an entry of no known status; restore it", path=manifest.path)
    columns = {f.name: _column(files, f, manifest.path) for f in ENTRIES}
    columns["content"] = pc.fill_null(columns["content"], DATA_FILE)
    columns["sequence_number"] = _sequence_numbers(records, status, manifest)
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
    return ManifestEntries(manifest, spec_id, entries, partitions, container.header["avro.schema"])


def count_mismatch(one: ManifestEntries) -> str | None:
    """How the counts of the manifest list differ from those of the manifest; None where they do not."""
    manifest = one.manifest
    rows = pc.sum(one.entries["record_count"]).as_py() or 0
    if manifest.files is not None and manifest.files != len(one):
        return f"{manifest.files} live files, and it has {len(one)}"
    if manifest.rows is not None and manifest.rows != rows:
        return f"{manifest.rows} live rows, and its files have {rows}"
    return None


def _check_whole(entries: pa.Table, size: int, manifest: ManifestFile) -> None:
    """Refuses a manifest with fewer live entries, or fewer bytes, than the manifest list states."""
    what, stated, count = "live files", manifest.files, entries.num_rows
    if stated is None:
        what, stated, count = "bytes", manifest.length, size
    if stated is not None and stated > count:
        raise Damaged(
            f"{manifest.path} has {count} {what} where the list of manifests says {stated}; restore it, or read an "
            "earlier snapshot",
            path=manifest.path,
            expected=str(stated),
            found=str(count),
        )


def _check_entries(entries: pa.Table, manifest: ManifestFile) -> None:
    """Refuses entries without a required field, or of another content than their manifest."""
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
    """The bytes of a metadata file that the table refers to, at most `most` of them."""
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
    array = _field(records, name)
    return array if array is not None and pa.types.is_struct(array.type) else None


def _column(records: pa.StructArray, field: pa.Field, where: str) -> pa.Array:
    array = _field(records, field.name)
    if array is None:
        return pa.nulls(len(records), field.type)
    try:
        return array.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise Damaged(f"{where} has a {field.name} of {array.type}; restore it", path=where) from error


def _spec_id(header: Mapping[str, bytes], manifest: ManifestFile) -> int:
    """The spec id of a manifest, from its header or the manifest list; where both state it, they must agree."""
    where = manifest.path
    stated = header.get("partition-spec-id", b"0" if manifest.spec_id is None else b"%d" % manifest.spec_id)
    if not stated.isdigit() or len(stated) > _SPEC_DIGITS:
        raise Damaged(f"{where} says no partition spec; restore it", path=where, found=repr(stated))
    if manifest.spec_id not in (None, int(stated)):
        raise Damaged(
            f"{where} is of partition spec {int(stated)} where the list of manifests says {manifest.spec_id}: one "
            "manifest stands in place of another; restore it, or read an earlier snapshot",
            path=where,
            expected=str(manifest.spec_id),
            found=stated.decode(),
        )
    return int(stated)


def _check_content(header: Mapping[str, bytes], manifest: ManifestFile) -> None:
    """Refuses a manifest whose header states another content than the manifest list."""
    expected = b"deletes" if manifest.content == DELETES else b"data"
    stated = header.get("content", expected)
    if stated != expected:
        raise Damaged(
            f"{manifest.path} says that it lists {stated!r} where the list of manifests says {expected!r}: one "
            "manifest stands in place of another; restore it, or read an earlier snapshot",
            path=manifest.path,
            expected=repr(expected),
            found=repr(stated),
        )


def _sequence_numbers(records: pa.StructArray, status: pa.Array, manifest: ManifestFile) -> pa.Array:
    """Data sequence numbers: an added file without one inherits its manifest's; in version 1 all are 0."""
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
    inherits = pc.and_(live, pc.is_null(own)).to_numpy(zero_copy_only=False)
    counts = np.where(inherits, columns["record_count"].to_numpy(zero_copy_only=False), 0)
    ends = manifest.first_row_id + np.cumsum(counts)
    return pc.coalesce(own, pa.array(ends - counts, mask=~inherits))

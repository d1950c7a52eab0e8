"""Reads checkpoints: classic (one Parquet file or several parts), and V2 with or without sidecars.

1. Only the needed columns are read, and the statistics of large files only on first use.
2. A file that is missing, truncated or not a checkpoint is Damaged; the error names it, so that the caller can read
   another segment.
3. So is a checkpoint that contradicts itself: empty rows, other sidecars or counts than it states, a file twice.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import Damaged, MissingFile
from holdfast.formats.delta.checkpoint.validation import count_empty_rows, repeated_file, wrong_counts
from holdfast.formats.delta.log.actions import FileAction, Line, Sidecar, decode_lines
from holdfast.formats.delta.log.columns import ADD_COLUMNS, from_actions, from_struct
from holdfast.formats.delta.log.file_names import LOG, SIDECARS
from holdfast.formats.delta.log.replay import layer_from
from holdfast.formats.delta.log.segment import Checkpoint
from holdfast.formats.delta.log.settings import TableSettings, fold
from holdfast.formats.delta.stats.reader import DeferredStats, JsonStats, StructStats
from holdfast.model.files import FILES, Slab, StatsSource
from holdfast.storage.arrays import longs, mask, one_array
from holdfast.storage.base import NotFound, ObjectMeta, ObjectStore
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import Location
from holdfast.storage.prefetch import each

WHOLE_BYTES = 4 << 20  # files up to this size are fetched in one request, which costs less than several ranges
SLAB_ROWS = 1 << 18  # row groups are read together up to this many rows
REMOVED = FILES.append(pa.field("deleted_ms", pa.int64()))  # null where the log does not say when

_TRUE = mask(np.ones(1, bool))[0]
_KINDS = {  # actions that are not about a file, and a field each of them must have
    "protocol": "minReaderVersion",
    "metaData": "id",
    "txn": "appId",
    "domainMetadata": "domain",
    "sidecar": "path",
    "checkpointMetadata": "version",
}
_FILE_KINDS = {"add": "path", "remove": "path"}


@dataclass(frozen=True, slots=True)
class _CheckpointPart:
    """One file of a checkpoint, open: a Parquet file, or the lines of a JSON file."""

    meta: ObjectMeta
    parquet: pq.ParquetFile | None
    lines: Sequence[Line]


@dataclass(frozen=True, slots=True)
class Survey:
    """The number of actions and live files of a checkpoint, the size of its files, and its sidecars."""

    actions: int
    adds: int
    size_bytes: int
    sidecars: tuple[Sidecar, ...]


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """The settings and live files of a checkpoint."""

    settings: TableSettings
    slabs: tuple[Slab, ...]
    survey: Survey
    add_fields: frozenset[str]  # fields of its `add` column


def read_settings(location: Location, checkpoint: Checkpoint) -> TableSettings:
    """The settings of a checkpoint."""
    return fold(TableSettings(), _small_actions(location, _parts(location, checkpoint), checkpoint))


def survey(location: Location, checkpoint: Checkpoint) -> Survey:
    """The counts and sidecars of a checkpoint; Damaged where it cannot be read or has no protocol or metaData."""
    contents = read_checkpoint(location, checkpoint)
    if not contents.settings.is_complete:
        raise _damaged(location, checkpoint.files[0], "has no protocol or no metaData")
    return contents.survey


def read_checkpoint(location: Location, checkpoint: Checkpoint) -> CheckpointContents:
    """The settings and the live files of a checkpoint."""
    parts = _parts(location, checkpoint)
    actions = _small_actions(location, parts, checkpoint)
    sidecars = tuple(line.sidecar for line in actions if line.sidecar is not None)
    sidecar_parts = _sidecar_parts(location, sidecars)
    every = [*parts, *sidecar_parts]
    slabs = [slab for group in each(location.store, lambda part: _slabs(location, part), every) for slab in group]
    adds = sum(slab.files.num_rows for slab in slabs)
    marks = [line.checkpoint_metadata for line in actions if line.checkpoint_metadata is not None]
    sidecar_rows = sum(map(_rows, sidecar_parts))
    problem = wrong_counts(marks, checkpoint.version, adds=adds, actions=sidecar_rows, size_bytes=_size(sidecar_parts))
    if problem is None and len(every) > 1:
        problem = repeated_file(slabs)
    if problem is not None:
        raise _damaged(location, checkpoint.files[0], problem)
    fields = {name for part in every for name in (_fields(part.parquet, "add") if part.parquet else ADD_COLUMNS)}
    return CheckpointContents(
        fold(TableSettings(), actions),
        tuple(slab for slab in slabs if slab.files.num_rows),
        Survey(sum(map(_rows, every)), adds, _size(every), sidecars),
        frozenset(fields),
    )


def read_removed(location: Location, checkpoint: Checkpoint) -> pa.Table:
    """The tombstones of a checkpoint, with the columns of REMOVED."""
    parts = _parts(location, checkpoint)
    actions = _small_actions(location, parts, checkpoint)
    parts += _sidecar_parts(location, [line.sidecar for line in actions if line.sidecar is not None])
    tables = [REMOVED.empty_table()]
    for part in parts:
        if part.parquet is None:
            tables.append(removed_from([line.remove for line in part.lines if line.remove is not None], location))
        else:
            with _damage(location, part.meta):
                tables += _removed(location, part.parquet)
    return pa.concat_tables(tables)


def removed_from(actions: Sequence[FileAction], location: Location) -> pa.Table:
    """The tombstones of `remove` actions, with the columns of REMOVED."""
    deleted = longs([a.deletion_timestamp for a in actions])
    return from_actions(actions, location.anywhere).append_column(REMOVED.field("deleted_ms"), deleted)


def _removed(location: Location, file: pq.ParquetFile) -> Iterator[pa.Table]:
    fields = _fields(file, "remove")
    if "path" not in fields:
        return
    columns = [f"remove.{name}" for name in fields if name in ADD_COLUMNS or name == "deletionTimestamp"]
    for groups in _row_groups(file):
        rows = _struct(file, groups, "remove", columns)
        removes = _RowSelection.where(pc.is_valid(pc.struct_field(rows, "path"))).of(rows)
        keys = location.anywhere.file_keys(pc.struct_field(removes, "path"))
        deleted = pa.nulls(len(removes), pa.int64())
        if "deletionTimestamp" in fields:
            deleted = pc.struct_field(removes, "deletionTimestamp").cast(pa.int64())
        yield from_struct(removes, keys).append_column(REMOVED.field("deleted_ms"), deleted)


def _parts(location: Location, checkpoint: Checkpoint) -> list[_CheckpointPart]:
    return list(each(location.store, lambda meta: _open(location, meta), checkpoint.files))


def _open(location: Location, meta: ObjectMeta) -> _CheckpointPart:
    with _damage(location, meta):
        if meta.name.endswith(".json"):
            where = f"{location.url}/{LOG}/{meta.name}"
            return _CheckpointPart(meta, None, decode_lines(location.store.get(meta.key), where=where))
        file = pq.ParquetFile(_open_source(location.store, meta), pre_buffer=True)
        for kind in _FILE_KINDS:
            if (fields := _fields(file, kind)) and "path" not in fields:
                raise _damaged(location, meta, f"has no column {kind}.path")
        if empty := count_empty_rows(file, _KINDS | _FILE_KINDS):
            raise _damaged(location, meta, f"has {empty} rows that hold no action, of {file.metadata.num_rows}")
        return _CheckpointPart(meta, file, ())


def _rows(part: _CheckpointPart) -> int:
    return len(part.lines) if part.parquet is None else int(part.parquet.metadata.num_rows)


def _size(parts: Sequence[_CheckpointPart]) -> int:
    return sum(part.meta.size for part in parts)


def _small_actions(location: Location, parts: Sequence[_CheckpointPart], checkpoint: Checkpoint) -> list[Line]:
    """Every action that is not about a file."""
    actions: list[Line] = []
    for part in parts:
        if part.parquet is None:
            actions += [line for line in part.lines if line.add is None and line.remove is None]
        else:
            with _damage(location, part.meta):
                actions += _parquet_actions(part.parquet)
    if checkpoint.unique and not any(line.checkpoint_metadata for line in actions):
        raise _damaged(location, checkpoint.files[0], "has no checkpointMetadata")
    return actions


def _parquet_actions(file: pq.ParquetFile) -> Iterator[Line]:
    kinds = [kind for kind in _KINDS if _fields(file, kind)]
    if not kinds:
        return
    table = file.read(columns=kinds)
    table.validate(full=True)
    for kind in kinds:
        column = table.column(kind)
        # Some writers store an absent action as a struct of nulls.
        has_field = column.type.get_field_index(_KINDS[kind]) >= 0
        present = pc.is_valid(pc.struct_field(column, _KINDS[kind]) if has_field else column)
        for action in column.filter(present).to_pylist(maps_as_pydicts="lossy"):
            yield msgspec.convert({kind: action}, Line, strict=False)


def _sidecar_parts(location: Location, sidecars: Sequence[Sidecar]) -> list[_CheckpointPart]:
    return list(each(location.store, lambda sidecar: _open_sidecar(location, sidecar), sidecars))


def _open_sidecar(location: Location, sidecar: Sidecar) -> _CheckpointPart:
    # A sidecar is a name in `_sidecars` or a path; unlike a data file, it must lie inside the table.
    if "/" in sidecar.path or "%" in sidecar.path:
        own = replace(location, allow_outside=False)
        key = own.store_key(own.file_key(sidecar.path))
    else:
        key = location.key(LOG, SIDECARS, sidecar.path)
    meta = ObjectMeta(key, sidecar.size_in_bytes, sidecar.modification_time)
    try:
        meta = location.store.head(key)
    except NotFound as error:
        raise _missing(location, meta) from error
    if sidecar.size_in_bytes not in (0, meta.size):
        raise _damaged(location, meta, f"has {meta.size} bytes where the checkpoint says {sidecar.size_in_bytes}")
    return _open(location, meta)


def _slabs(location: Location, part: _CheckpointPart) -> list[Slab]:
    if part.parquet is None:
        layer = layer_from([line for line in part.lines if line.add is not None], location)
        return [Slab(layer.files, JsonStats(layer.texts))]
    with _damage(location, part.meta):
        fields = _fields(part.parquet, "add")
        if "path" not in fields:
            return []
        return [_slab(location, part, groups, fields) for groups in _row_groups(part.parquet)]


def _slab(location: Location, part: _CheckpointPart, groups: list[int], fields: Sequence[str]) -> Slab:
    assert part.parquet is not None, "only Parquet has row groups"
    file, meta = part.parquet, part.meta
    column = _struct(file, groups, "add", [f"add.{name}" for name in fields if name in ADD_COLUMNS])
    rows = _RowSelection.where(pc.is_valid(pc.struct_field(column, "path")))
    adds = rows.of(column)
    files = from_struct(adds, location.file_keys(pc.struct_field(adds, "path")))

    def load() -> StatsSource:
        with _damage(location, meta):
            return _stats(file, groups, fields, rows)

    stats = load() if meta.size <= WHOLE_BYTES else DeferredStats(files.num_rows, load)
    return Slab(files, stats)


def _stats(file: pq.ParquetFile, groups: list[int], fields: Sequence[str], rows: _RowSelection) -> StatsSource:
    """JSON statistics, or `stats_parsed` where some are missing."""

    def column(name: str) -> pa.Array:
        return pc.struct_field(rows.of(_struct(file, groups, "add", [f"add.{name}"])), name)

    texts = column("stats") if "stats" in fields else pa.nulls(rows.count, pa.string())
    if texts.null_count and "stats_parsed" in fields:
        return StructStats(column("stats_parsed"), texts)
    return JsonStats(texts)


@dataclass(frozen=True, slots=True)
class _RowSelection:
    """Selected rows of some row groups; usually consecutive ones, which are sliced without a copy."""

    start: int
    count: int
    mask: pa.Array | None

    @classmethod
    def where(cls, mask: pa.Array) -> _RowSelection:
        count = mask.true_count
        start = max(pc.index(mask, _TRUE).as_py(), 0)
        run = mask.slice(start, count).true_count == count
        return cls(start, count, None if run else mask)

    def of(self, values: pa.Array) -> pa.Array:
        return values.slice(self.start, self.count) if self.mask is None else values.filter(self.mask)


def _struct(file: pq.ParquetFile, groups: list[int], kind: str, columns: list[str]) -> pa.StructArray:
    actions = one_array(file.read_row_groups(groups, columns=columns).column(kind))
    actions.validate(full=True)  # Arrow does not check while it reads that texts are UTF-8
    return actions


def _fields(file: pq.ParquetFile, kind: str) -> list[str]:
    index = file.schema_arrow.get_field_index(kind)
    if index < 0 or not pa.types.is_struct(file.schema_arrow.field(index).type):
        return []
    return [f.name for f in file.schema_arrow.field(index).type]


def _row_groups(file: pq.ParquetFile) -> Iterator[list[int]]:
    group: list[int] = []
    rows = 0
    for n in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(n).num_rows
        if group and rows + count > SLAB_ROWS:
            yield group
            group, rows = [], 0
        group.append(n)
        rows += count
    if group:
        yield group


def _open_source(store: ObjectStore, meta: ObjectMeta) -> pa.NativeFile:
    if meta.size <= WHOLE_BYTES:
        return pa.BufferReader(store.get(meta.key, WHOLE_BYTES))
    return pa.PythonFile(_RangedFile(store, meta), mode="r")


class _RangedFile(io.RawIOBase):
    """A file over ranges of an object, so that pyarrow fetches only the columns that it needs."""

    def __init__(self, store: ObjectStore, meta: ObjectMeta) -> None:
        super().__init__()
        self._store = store
        self._meta = meta
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._meta.size}[whence]
        self._position = start + offset
        return self._position

    def read(self, size: int = -1) -> bytes:
        remaining = max(self._meta.size - self._position, 0)
        length = remaining if size < 0 else min(size, remaining)
        if length == 0:
            return b""
        data = self._store.get_range(self._meta.key, self._position, length)
        self._position += len(data)
        return data


@contextmanager
def _damage(location: Location, meta: ObjectMeta) -> Iterator[None]:
    """Turns errors of the body into Damaged errors that name the file."""
    try:
        yield
    except NotFound as error:
        raise _missing(location, meta) from error
    except MALFORMED_JSON as error:
        raise _damaged(location, meta, f"cannot be read: {reason_of(error)}") from error
    except OSError as error:  # Arrow raises it for bytes that it cannot read; stores raise other errors
        raise _damaged(location, meta, f"cannot be read: {reason_of(error)}") from error


def _damaged(location: Location, meta: ObjectMeta, problem: str) -> Damaged:
    return Damaged(
        f"the checkpoint file {meta.name} of {location.url} {problem}", path=f"{location.store.url}/{meta.key}"
    )


def _missing(location: Location, meta: ObjectMeta) -> MissingFile:
    return MissingFile(
        f"the checkpoint file {meta.name} of {location.url} is not there", path=f"{location.store.url}/{meta.key}"
    )

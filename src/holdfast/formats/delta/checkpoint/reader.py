"""Checkpoints: the whole state of a version in a few files.

A classic checkpoint is one Parquet file or several parts; a V2 checkpoint is a Parquet or JSON file that holds file
actions itself or names sidecars that do.

1. Only the columns asked for are read, and of large files the statistics not before somebody asks for them.
2. What is missing, cut short or not a checkpoint is Damaged and names the file, so that another way can be tried.
3. So is what contradicts itself: rows that hold no action, other sidecars or counts than it states, a file twice.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from holdfast.errors import Damaged, MissingFile
from holdfast.formats.delta.checkpoint.counts import idle_rows, misstated, repeated
from holdfast.formats.delta.checkpoint.deferred_stats import DeferredStats
from holdfast.formats.delta.log.actions import FileAction, Line, Sidecar, decode_lines
from holdfast.formats.delta.log.columns import ADD_COLUMNS, from_actions, from_struct
from holdfast.formats.delta.log.file_names import LOG, SIDECARS
from holdfast.formats.delta.log.replay import layer_from
from holdfast.formats.delta.log.segment import Checkpoint
from holdfast.formats.delta.log.settings import TableSettings, fold
from holdfast.formats.delta.source import WHOLE_BYTES, open_source
from holdfast.formats.delta.stats.reader import JsonStats, StructStats
from holdfast.model.files import FILES, Slab, StatsSource
from holdfast.storage.arrays import longs, mask, strings
from holdfast.storage.base import NotFound, ObjectMeta
from holdfast.storage.error_mapping import MALFORMED_JSON, reason_of
from holdfast.storage.location import Location
from holdfast.storage.prefetch import each

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
    """How many actions and live files a checkpoint has, how large its files are together, the sidecars it names."""

    actions: int
    adds: int
    size_bytes: int
    sidecars: tuple[Sidecar, ...]


@dataclass(frozen=True, slots=True)
class CheckpointContents:
    """What a checkpoint says: settings and live files, and how much of it there is."""

    settings: TableSettings
    slabs: tuple[Slab, ...]
    survey: Survey
    add_fields: frozenset[str]  # what an `add` of it can say


def read_settings(location: Location, checkpoint: Checkpoint) -> TableSettings:
    """What a checkpoint says of everything but files."""
    return fold(TableSettings(), _small_actions(location, _parts(location, checkpoint), checkpoint))


def survey(location: Location, checkpoint: Checkpoint) -> Survey:
    """What a checkpoint consists of; Damaged where one of its files cannot be opened or says too little."""
    contents = read_checkpoint(location, checkpoint)
    if contents.settings.protocol is None or contents.settings.metadata is None:
        raise _damaged(location, checkpoint.files[0], "has no protocol or no metaData")
    return contents.survey


def read_checkpoint(location: Location, checkpoint: Checkpoint) -> CheckpointContents:
    """The settings and the live files of a checkpoint."""
    parts = _parts(location, checkpoint)
    actions = _small_actions(location, parts, checkpoint)
    named = tuple(line.sidecar for line in actions if line.sidecar is not None)
    sidecars = _sidecars(location, named)
    every = [*parts, *sidecars]
    slabs = [slab for group in each(location.store, lambda part: _slabs(location, part), every) for slab in group]
    counted = Survey(sum(map(_rows, every)), sum(s.files.num_rows for s in slabs), _size(every), named)
    marks = [line.checkpoint_metadata for line in actions if line.checkpoint_metadata is not None]
    wrong = misstated(
        marks, checkpoint.version, adds=counted.adds, actions=sum(map(_rows, sidecars)), size_bytes=_size(sidecars)
    )
    if wrong is None and len(every) > 1:
        wrong = repeated(slabs)
    if wrong is not None:
        raise _damaged(location, checkpoint.files[0], wrong)
    fields = {name for part in every for name in (_fields(part.parquet, "add") if part.parquet else ADD_COLUMNS)}
    live = tuple(slab for slab in slabs if slab.files.num_rows)
    return CheckpointContents(fold(TableSettings(), actions), live, counted, frozenset(fields))


def read_removed(location: Location, checkpoint: Checkpoint) -> pa.Table:
    """The removed files a checkpoint remembers, with the columns of REMOVED."""
    parts = _parts(location, checkpoint)
    actions = _small_actions(location, parts, checkpoint)
    parts += _sidecars(location, [line.sidecar for line in actions if line.sidecar is not None])
    tables = [REMOVED.empty_table()]
    for part in parts:
        if part.parquet is None:
            tables.append(removed_from([line.remove for line in part.lines if line.remove is not None], location))
        else:
            with _damage(location, part.meta):
                tables += _removed(location, part.parquet)
    return pa.concat_tables(tables)


def removed_from(actions: Sequence[FileAction], location: Location) -> pa.Table:
    """Removed files from their records."""
    keys = location.anywhere.file_keys(strings([a.path for a in actions]))
    deleted = longs([a.deletion_timestamp for a in actions])
    return from_actions(actions, keys).append_column(REMOVED.field("deleted_ms"), deleted)


def _removed(location: Location, file: pq.ParquetFile) -> Iterator[pa.Table]:
    fields = _fields(file, "remove")
    if "path" not in fields:
        return
    wanted = [f"remove.{name}" for name in fields if name in ADD_COLUMNS or name == "deletionTimestamp"]
    for groups in _row_groups(file):
        found = _struct(file, groups, "remove", wanted)
        found = _StretchRows.where(pc.is_valid(pc.struct_field(found, "path"))).of(found)
        keys = location.anywhere.file_keys(pc.struct_field(found, "path"))
        deleted = pa.nulls(len(found), pa.int64())
        if "deletionTimestamp" in fields:
            deleted = pc.struct_field(found, "deletionTimestamp").cast(pa.int64())
        yield from_struct(found, keys).append_column(REMOVED.field("deleted_ms"), deleted)


def _parts(location: Location, checkpoint: Checkpoint) -> list[_CheckpointPart]:
    return list(each(location.store, lambda meta: _open(location, meta), checkpoint.files))


def _open(location: Location, meta: ObjectMeta) -> _CheckpointPart:
    with _damage(location, meta):
        if meta.name.endswith(".json"):
            where = f"{location.url}/{LOG}/{meta.name}"
            return _CheckpointPart(meta, None, decode_lines(location.store.get(meta.key), where=where))
        file = pq.ParquetFile(open_source(location.store, meta), pre_buffer=True)
        for kind in _FILE_KINDS:
            if (fields := _fields(file, kind)) and "path" not in fields:
                raise _damaged(location, meta, f"has no column {kind}.path")
        if idle := idle_rows(file, _KINDS | _FILE_KINDS):
            raise _damaged(location, meta, f"has {idle} rows that hold no action, of {file.metadata.num_rows}")
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
    present = [kind for kind in _KINDS if _fields(file, kind)]
    if not present:
        return
    table = file.read(columns=present)
    for kind in present:
        column = table.column(kind)
        for found in column.filter(_present(column, _KINDS[kind])).to_pylist(maps_as_pydicts="lossy"):
            yield msgspec.convert({kind: found}, Line, strict=False)


def _present(column: pa.ChunkedArray, required: str) -> pa.ChunkedArray:
    """Where an action is; some writers spell an absent one as a struct of nulls."""
    if column.type.get_field_index(required) < 0:
        return pc.is_valid(column)
    return pc.is_valid(pc.struct_field(column, required))


def _sidecars(location: Location, named: Sequence[Sidecar]) -> list[_CheckpointPart]:
    return list(each(location.store, lambda sidecar: _open_sidecar(location, sidecar), named))


def _open_sidecar(location: Location, sidecar: Sidecar) -> _CheckpointPart:
    # A sidecar is a name in its own directory, or a path in a table; it is opened, whatever data files may be.
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
    wanted = [f"add.{name}" for name in fields if name in ADD_COLUMNS]
    found = _struct(file, groups, "add", wanted)
    rows = _StretchRows.where(pc.is_valid(pc.struct_field(found, "path")))
    adds = rows.of(found)
    files = from_struct(adds, location.file_keys(pc.struct_field(adds, "path")))

    def load() -> StatsSource:
        with _damage(location, meta):
            return _stats(file, groups, fields, rows)

    stats = load() if meta.size <= WHOLE_BYTES else DeferredStats(files.num_rows, load)
    return Slab(files, stats)


def _stats(file: pq.ParquetFile, groups: list[int], fields: Sequence[str], rows: _StretchRows) -> StatsSource:
    """Statistics as text where there is any, as structs where there is none."""

    def column(name: str) -> pa.Array:
        return pc.struct_field(rows.of(_struct(file, groups, "add", [f"add.{name}"])), name)

    texts = column("stats") if "stats" in fields else pa.nulls(rows.count, pa.string())
    if texts.null_count and "stats_parsed" in fields:
        return StructStats(column("stats_parsed"), texts)
    return JsonStats(texts)


@dataclass(frozen=True, slots=True)
class _StretchRows:
    """Some of the rows of a stretch; mostly a run, which costs nothing to cut out."""

    start: int
    count: int
    mask: pa.Array | None

    @classmethod
    def where(cls, mask: pa.Array) -> _StretchRows:
        count = mask.true_count
        start = max(pc.index(mask, _TRUE).as_py(), 0)
        run = mask.slice(start, count).true_count == count
        return cls(start, count, None if run else mask)

    def of(self, values: pa.Array) -> pa.Array:
        return values.slice(self.start, self.count) if self.mask is None else values.filter(self.mask)


def _struct(file: pq.ParquetFile, groups: list[int], kind: str, columns: list[str]) -> pa.StructArray:
    found = file.read_row_groups(groups, columns=columns).column(kind)
    return found.chunk(0) if found.num_chunks == 1 else found.combine_chunks()  # combining one chunk copies it


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


@contextmanager
def _damage(location: Location, meta: ObjectMeta) -> Iterator[None]:
    """Say which file it was."""
    try:
        yield
    except NotFound as error:
        raise _missing(location, meta) from error
    except MALFORMED_JSON as error:
        raise _damaged(location, meta, f"cannot be read: {reason_of(error)}") from error
    except OSError as error:  # of Arrow, for bytes it cannot read: stores have errors of the tree
        raise _damaged(location, meta, f"cannot be read: {reason_of(error)}") from error


def _damaged(location: Location, meta: ObjectMeta, what: str) -> Damaged:
    return Damaged(f"the checkpoint file {meta.name} of {location.url} {what}", path=f"{location.store.url}/{meta.key}")


def _missing(location: Location, meta: ObjectMeta) -> MissingFile:
    return MissingFile(
        f"the checkpoint file {meta.name} of {location.url} is not there", path=f"{location.store.url}/{meta.key}"
    )

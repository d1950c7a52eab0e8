"""Reads the row map of a data file (the id and version of every row): from the writer's note, else from its columns.

1. A file without the table's column of ids has no materialized ids; its footer shows that.
2. A note counts only if it is whole, names this file and this table's column, and agrees with the footer on the number
   of rows and the range of ids; else the two columns of ids and versions are read, and no others.
3. Maps are bound: rows without a materialized id or version have the one that follows from the file's entry in the log.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.find import CandidateFile
from holdfast.parquet.pages.footer import leaf_paths, read_footer
from holdfast.parquet.source import open_source
from holdfast.rows.rowmap import DERIVED, RowMap
from holdfast.rows.stamp import LARGEST_ID
from holdfast.storage.arrays import filled
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

ROW_MAP = "holdfast.rowMap"  # in the footer of a file
_BATCH = 1 << 17
_LARGEST = 4 << 20  # bytes of a noted map; ours are smaller by far
_NOTHING = (np.zeros(0, np.int64),) * 3


@dataclass(frozen=True, slots=True)
class CarriedIds:
    """What the footer of a file says of the row ids that the file materializes."""

    rows: int
    carries: bool
    low: int = 0  # materialized ids lie between these
    high: int = -1
    derived: int = 0  # rows without a materialized id, at most
    map: RowMap | None = None  # the writer's note


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows:
    """The rows of a file that have one of the requested ids."""

    which: NDArray[np.int64]  # the number of the id in the request
    positions: NDArray[np.int64]
    versions: NDArray[np.int64]


def read_carried_ids(store: ObjectStore, file: CandidateFile) -> CarriedIds:
    """Read from the footer of a file which row ids it materializes."""
    if file.format == "orc":
        return _carried_ids_in_orc(store, file)
    return _carried_ids(read_footer(store, file.key, file.size), file)


def read_map(store: ObjectStore, file: CandidateFile) -> RowMap:
    """The map of a file that materializes ids: from the note in its footer, else from its columns."""
    if file.format == "orc":
        return read_columns(store, file)
    footer = read_footer(store, file.key, file.size)
    noted = _carried_ids(footer, file).map
    return read_columns(store, file, footer) if noted is None else noted


def seek(store: ObjectStore, file: CandidateFile, ascending: NDArray[np.int64]) -> MappedRows:
    """The rows of a file that have one of these ids, from its columns, with one batch in memory at a time."""
    matches, start = [_NOTHING], 0
    for ids, versions in _ids_and_versions(store, file):
        at = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
        here = np.flatnonzero(ascending[at] == ids)
        matches.append((at[here], start + here, versions[here]))
        start += len(ids)
    return MappedRows(*(np.concatenate(parts) for parts in zip(*matches, strict=True)))


def read_columns(store: ObjectStore, file: CandidateFile, footer: pq.FileMetaData | None = None) -> RowMap:
    """The map of a file, from its columns."""
    parts = [_NOTHING[:2], *_ids_and_versions(store, file, footer)]
    return RowMap.of(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _ids_and_versions(
    store: ObjectStore, file: CandidateFile, footer: pq.FileMetaData | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The ids and the versions of a file's rows, batch by batch."""
    names = (file.id_column, file.version_column)
    start = 0
    with parsing(f"{store.url}/{file.key}", "cannot be read as a data file"):
        if file.format == "orc":
            stripes = OrcFile(open_source(store, file.key, file.size))
            stored_names = stripes.columns_with_id
            ids_in, versions_in = (name if name in stored_names else None for name in names)
            batches = stripes.batches([name for name in (ids_in, versions_in) if name is not None], _BATCH)
        else:
            footer = footer or read_footer(store, file.key, file.size)
            ids_in, versions_in = (_stored_name(footer, name) for name in names)
            opened = pq.ParquetFile(open_source(store, file.key, file.size), metadata=footer)
            columns = [name for name in (ids_in, versions_in) if name is not None]
            batches = opened.iter_batches(_BATCH, columns=columns, use_threads=False)
        for batch in batches:
            positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
            start += batch.num_rows
            default = np.full(batch.num_rows, _default(file), np.int64)
            yield _filled(batch, ids_in, _base(file) + positions), _filled(batch, versions_in, default)


def decoded(text: str | bytes, key: str, column: str) -> RowMap | None:
    """A map from a note; None where that is damaged, or of another file or column."""
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), _LARGEST)
        return RowMap.decode(data, _subject(key, column), where=key) if packed.eof else None
    except (Damaged, binascii.Error, zlib.error):
        return None


def encoded(row_map: RowMap, key: str, column: str) -> str:
    """A map as the text of a note."""
    return base64.b64encode(zlib.compress(row_map.encode(_subject(key, column)))).decode("ascii")


def _carried_ids(footer: pq.FileMetaData, file: CandidateFile) -> CarriedIds:
    leaf = _leaf(footer, file.id_column)
    if leaf is None or file.id_column is None:
        return CarriedIds(footer.num_rows, carries=False, derived=footer.num_rows)
    spanned = _spanned(footer, leaf)
    if spanned is None:
        return CarriedIds(footer.num_rows, True, 0, LARGEST_ID, footer.num_rows)
    if spanned == (0, -1, footer.num_rows) and not _has_versions(footer, file):
        return CarriedIds(footer.num_rows, carries=False, derived=footer.num_rows)
    noted = _noted(footer, file.key, file.id_column)
    if noted is not None and noted.carried() == spanned:
        return CarriedIds(footer.num_rows, True, *spanned, noted.bound(_base(file), _default(file)))
    return CarriedIds(footer.num_rows, True, *spanned)


def _carried_ids_in_orc(store: ObjectStore, file: CandidateFile) -> CarriedIds:
    with parsing(f"{store.url}/{file.key}", "cannot be read as ORC"):
        opened = OrcFile(open_source(store, file.key, file.size))
    if not {file.id_column, file.version_column} & opened.columns_with_id:
        return CarriedIds(opened.rows, carries=False, derived=opened.rows)
    return CarriedIds(opened.rows, True, 0, LARGEST_ID, opened.rows)  # nothing here says which ids they are


def _subject(key: str, column: str) -> str:
    """What identifies the file and column of a map: the file's name without its path, because tables are moved."""
    return f"{key.rpartition('/')[2]}/{column}"


def _noted(footer: pq.FileMetaData, key: str, column: str) -> RowMap | None:
    text = (footer.metadata or {}).get(ROW_MAP.encode())
    row_map = None if text is None else decoded(text, key, column)
    return row_map if row_map is not None and len(row_map) == footer.num_rows else None


def _spanned(footer: pq.FileMetaData, leaf: int) -> tuple[int, int, int] | None:
    """The lowest and highest value of a column of ids, and how many rows have none; None where not stated."""
    low, high, derived = LARGEST_ID, -1, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        statistics = group.column(leaf).statistics
        if statistics is None or not statistics.has_null_count:
            return None
        derived += statistics.null_count
        if statistics.null_count == group.num_rows:
            continue
        if not statistics.has_min_max or not isinstance(statistics.min, int):
            return None
        low, high = min(low, statistics.min), max(high, statistics.max)
    return (low, high, derived) if high >= 0 else (0, -1, derived)


def _has_versions(footer: pq.FileMetaData, file: CandidateFile) -> bool:
    """Whether the file may materialize versions."""
    leaf = _leaf(footer, file.version_column)
    return leaf is not None and _spanned(footer, leaf) != (0, -1, footer.num_rows)


def _leaf(footer: pq.FileMetaData, name: str | None) -> int | None:
    """The leaf of this name: exactly, else without regard to case, as for any column."""
    if name is None:
        return None
    paths = leaf_paths(footer)
    if name in paths:
        return paths.index(name)
    return next((n for n, path in enumerate(paths) if path.lower() == name.lower()), None)


def _stored_name(footer: pq.FileMetaData, name: str | None) -> str | None:
    leaf = _leaf(footer, name)
    return None if leaf is None else footer.schema.column(leaf).path


def _filled(batch: pa.RecordBatch, name: str | None, otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    if name is None or name not in batch.schema.names:
        return otherwise
    return filled(batch.column(name).cast(pa.int64()), otherwise)


def _base(file: CandidateFile) -> int:
    if file.base is None:
        raise Damaged(f"the log gives {file.key} no base row id; give it one with enableRowTracking()", path=file.key)
    return file.base


def _default(file: CandidateFile) -> int:
    return DERIVED if file.default_version is None else file.default_version

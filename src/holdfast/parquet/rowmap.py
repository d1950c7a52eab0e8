"""The row map of a data file: what its writer noted, or else what its two columns of identity say.

1. A file without the table's column of ids carries nothing; telling that costs its footer.
2. What the writer noted counts only if it is whole, names this file and this table's column, and agrees with the
   footer on how many rows there are and which ids they span; else the two columns are read, and nothing but these.
3. Maps are bound: rows that carry nothing have the id and version that follow from what the log says of the file.
"""

from __future__ import annotations

import base64
import binascii
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from holdfast.errors import Damaged
from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.find import Carrier
from holdfast.parquet.pages.footer import read_footer
from holdfast.parquet.source import open_source
from holdfast.rows.rowmap import DERIVED, RowMap
from holdfast.rows.stamp import LARGEST_ID
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

ROW_MAP = "holdfast.rowMap"  # in the footer of a file
_BATCH = 1 << 17
_LARGEST = 4 << 20  # bytes of a noted map; ours are smaller by far
_NOTHING = (np.zeros(0, np.int64),) * 3


@dataclass(frozen=True, slots=True)
class Seen:
    """What the footer of a file says of the ids its rows carry."""

    rows: int
    carries: bool
    low: int = 0  # ids that are carried lie between these
    high: int = -1
    derived: int = 0  # rows that carry none, at most
    map: RowMap | None = None  # where the writer noted it


@dataclass(frozen=True, slots=True, eq=False)
class MappedRows:
    """Rows of a file that were looked for."""

    which: NDArray[np.int64]  # number of the id among those asked for
    positions: NDArray[np.int64]
    versions: NDArray[np.int64]


def look(store: ObjectStore, file: Carrier) -> Seen:
    """Read the footer of a file."""
    if file.format == "orc":
        return _seen_in_orc(store, file)
    return _seen(read_footer(store, file.key, file.size), file)


def read_map(store: ObjectStore, file: Carrier) -> RowMap:
    """The map of a file that carries ids: as its writer noted it there, else from its columns."""
    if file.format == "orc":
        return read_columns(store, file)
    footer = read_footer(store, file.key, file.size)
    noted = _seen(footer, file).map
    return read_columns(store, file, footer) if noted is None else noted


def seek(store: ObjectStore, file: Carrier, ascending: NDArray[np.int64]) -> MappedRows:
    """Rows of a file that have one of these ids, from its columns, of which no more than a batch is held."""
    found, start = [_NOTHING], 0
    for ids, versions in _identities(store, file):
        at = np.minimum(np.searchsorted(ascending, ids), len(ascending) - 1)
        here = np.flatnonzero(ascending[at] == ids)
        found.append((at[here], start + here, versions[here]))
        start += len(ids)
    return MappedRows(*(np.concatenate(parts) for parts in zip(*found, strict=True)))


def read_columns(store: ObjectStore, file: Carrier, footer: pq.FileMetaData | None = None) -> RowMap:
    """The map of a file, from its columns."""
    parts = [_NOTHING[:2], *_identities(store, file, footer)]
    return RowMap.of(*(np.concatenate(column) for column in zip(*parts, strict=True)))


def _identities(
    store: ObjectStore, file: Carrier, footer: pq.FileMetaData | None = None
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """The ids and the versions of a file's rows, batch by batch."""
    asked = (file.id_column, file.version_column)
    start = 0
    with parsing(f"{store.url}/{file.key}", "cannot be read as a data file"):
        if file.format == "orc":
            stripes = OrcFile(open_source(store, file.key, file.size))
            known = stripes.marked
            ids_in, versions_in = (name if name in known else None for name in asked)
            batches = stripes.batches([name for name in (ids_in, versions_in) if name is not None], _BATCH)
        else:
            footer = footer or read_footer(store, file.key, file.size)
            ids_in, versions_in = (_stored_name(footer, name) for name in asked)
            opened = pq.ParquetFile(open_source(store, file.key, file.size), metadata=footer)
            wanted = [name for name in (ids_in, versions_in) if name is not None]
            batches = opened.iter_batches(_BATCH, columns=wanted, use_threads=False)
        for batch in batches:
            positions = np.arange(start, start + batch.num_rows, dtype=np.int64)
            start += batch.num_rows
            default = np.full(batch.num_rows, _default(file), np.int64)
            yield _filled(batch, ids_in, _base(file) + positions), _filled(batch, versions_in, default)


def decoded(text: str | bytes, key: str, column: str) -> RowMap | None:
    """A map that was noted as text; None where it cannot be used: another file's or column's, or damaged."""
    try:
        packed = zlib.decompressobj()
        data = packed.decompress(base64.b64decode(text, validate=True), _LARGEST)
        return RowMap.decode(data, _subject(key, column), where=key) if packed.eof else None
    except (Damaged, binascii.Error, zlib.error):
        return None


def encoded(noted: RowMap, key: str, column: str) -> str:
    """A map as text, for whoever notes it."""
    return base64.b64encode(zlib.compress(noted.encode(_subject(key, column)))).decode("ascii")


def _seen(footer: pq.FileMetaData, file: Carrier) -> Seen:
    leaf = _leaf(footer, file.id_column)
    if leaf is None or file.id_column is None:
        return Seen(footer.num_rows, carries=False, derived=footer.num_rows)
    spanned = _spanned(footer, leaf)
    if spanned is None:
        return Seen(footer.num_rows, True, 0, LARGEST_ID, footer.num_rows)
    if spanned == (0, -1, footer.num_rows) and not _has_versions(footer, file):
        return Seen(footer.num_rows, carries=False, derived=footer.num_rows)
    noted = _noted(footer, file.key, file.id_column)
    if noted is not None and noted.carried() == spanned:
        return Seen(footer.num_rows, True, *spanned, noted.bound(_base(file), _default(file)))
    return Seen(footer.num_rows, True, *spanned)


def _seen_in_orc(store: ObjectStore, file: Carrier) -> Seen:
    with parsing(f"{store.url}/{file.key}", "cannot be read as ORC"):
        opened = OrcFile(open_source(store, file.key, file.size))
    if not {file.id_column, file.version_column} & opened.marked:
        return Seen(opened.rows, carries=False, derived=opened.rows)
    return Seen(opened.rows, True, 0, LARGEST_ID, opened.rows)  # nothing here says which ids they are


def _subject(key: str, column: str) -> str:
    """What a map is of. A file goes by its name alone, because tables are moved."""
    return f"{key.rpartition('/')[2]}/{column}"


def _noted(footer: pq.FileMetaData, key: str, column: str) -> RowMap | None:
    said: Mapping[bytes, bytes] = footer.metadata or {}
    text = said.get(ROW_MAP.encode())
    found = None if text is None else decoded(text, key, column)
    return found if found is not None and len(found) == footer.num_rows else None


def _spanned(footer: pq.FileMetaData, leaf: int) -> tuple[int, int, int] | None:
    """The lowest and highest value of a column of ids, and how many rows have none; None where that is not said."""
    low, high, derived = LARGEST_ID, -1, 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        told = group.column(leaf).statistics
        if told is None or not told.has_null_count:
            return None
        derived += told.null_count
        if told.null_count == group.num_rows:
            continue
        if not told.has_min_max or not isinstance(told.min, int):
            return None
        low, high = min(low, told.min), max(high, told.max)
    return (low, high, derived) if high >= 0 else (0, -1, derived)


def _has_versions(footer: pq.FileMetaData, file: Carrier) -> bool:
    """Whether rows may carry versions."""
    leaf = _leaf(footer, file.version_column)
    return leaf is not None and _spanned(footer, leaf) != (0, -1, footer.num_rows)


def _leaf(footer: pq.FileMetaData, name: str | None) -> int | None:
    """The leaf of this name: exactly, else without regard to case, as rows are read."""
    if name is None:
        return None
    paths = [footer.schema.column(n).path for n in range(len(footer.schema))]
    if name in paths:
        return paths.index(name)
    return next((n for n, path in enumerate(paths) if path.lower() == name.lower()), None)


def _stored_name(footer: pq.FileMetaData, name: str | None) -> str | None:
    leaf = _leaf(footer, name)
    return None if leaf is None else footer.schema.column(leaf).path


def _filled(batch: pa.RecordBatch, name: str | None, otherwise: NDArray[np.int64]) -> NDArray[np.int64]:
    if name is None or name not in batch.schema.names:
        return otherwise
    own = batch.column(name).cast(pa.int64())
    if not own.null_count:
        stored: NDArray[np.int64] = own.to_numpy()
        return stored
    missing = own.is_null().to_numpy(zero_copy_only=False)
    filled: NDArray[np.int64] = np.where(missing, otherwise, own.fill_null(DERIVED).to_numpy())
    return filled


def _base(file: Carrier) -> int:
    if file.base is None:
        raise Damaged(f"the log gives {file.key} no base row id; give it one with enableRowTracking()", path=file.key)
    return file.base


def _default(file: Carrier) -> int:
    return DERIVED if file.default_version is None else file.default_version

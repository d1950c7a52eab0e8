"""Where in a data file the row with an id is.

1. A row's id is the file's own value where it has one, else the file's base plus the row's position.
2. Only row groups whose bounds let them hold the id are read, and of these only the columns of ids and versions. ORC
   files are read from their first stripe on, if they carry ids.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.footer import read_footer
from holdfast.parquet.source import open_source
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

_BATCH = 1 << 17  # rows of an ORC file that are looked at together


@dataclass(frozen=True, slots=True)
class Carrier:
    """A file that may hold a row, and what its table says of it."""

    key: str  # in its store
    size: int
    base: int | None
    default_version: int | None
    id_column: str | None
    version_column: str | None
    format: str = "parquet"


@dataclass(frozen=True, slots=True)
class Spot:
    """The position of a row in a file, and the version that last changed it, where that is known."""

    position: int
    version: int | None


def find_row(store: ObjectStore, file: Carrier, row_id: int) -> Spot | None:
    """The row with an id, hidden or not; None where the file has no such row."""
    fresh = None if file.base is None else row_id - file.base
    if file.format == "orc":
        return _in_orc(store, file, row_id, fresh)
    footer = read_footer(store, file.key, file.size)
    names = footer.schema.to_arrow_schema().names
    if file.id_column is None or file.id_column not in names:
        inside = fresh is not None and 0 <= fresh < footer.num_rows
        return Spot(fresh, file.default_version) if inside and fresh is not None else None
    groups = _groups(footer, names.index(file.id_column), row_id, fresh)
    if not groups:
        return None
    uri = f"{store.url}/{file.key}"
    with parsing(uri, "cannot be read as Parquet"):
        opened = pq.ParquetFile(open_source(store, file.key, file.size), metadata=footer)
        columns = [name for name in (file.id_column, file.version_column) if name in names]
        for group, start in groups:
            rows = opened.read_row_group(group, columns=columns, use_threads=False)
            at = _at(rows.column(file.id_column), row_id, fresh, start)
            if at is not None:
                own = rows.column(file.version_column)[at].as_py() if file.version_column in names else None
                return Spot(start + at, file.default_version if own is None else own)
    return None


def _in_orc(store: ObjectStore, file: Carrier, row_id: int, fresh: int | None) -> Spot | None:
    uri = f"{store.url}/{file.key}"
    start = 0
    with parsing(uri, "cannot be read as ORC"):
        opened = OrcFile(open_source(store, file.key, file.size))
        names = opened.marked
        if file.id_column not in names:
            inside = fresh is not None and 0 <= fresh < opened.rows
            return Spot(fresh, file.default_version) if inside and fresh is not None else None
        columns = [name for name in (file.id_column, file.version_column) if name in names]
        for rows in opened.batches(columns, _BATCH):
            at = _at(pa.chunked_array([rows.column(file.id_column)]), row_id, fresh, start)
            if at is not None:
                own = rows.column(file.version_column)[at].as_py() if file.version_column in names else None
                return Spot(start + at, file.default_version if own is None else own)
            start += rows.num_rows
    return None


def _groups(footer: pq.FileMetaData, top: int, row_id: int, fresh: int | None) -> list[tuple[int, int]]:
    """Row groups that may hold the id, each with the position of its first row."""
    leaf = _leaf(footer, top)
    found, start = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        told = group.column(leaf).statistics
        stored = told is None or not told.has_min_max or told.min <= row_id <= told.max
        if told is not None and told.has_null_count and told.null_count == group.num_rows:
            stored = False
        null_here = fresh is not None and start <= fresh < start + group.num_rows
        if stored or (null_here and (told is None or not told.has_null_count or told.null_count)):
            found.append((number, start))
        start += group.num_rows
    return found


def _leaf(footer: pq.FileMetaData, top: int) -> int:
    """The leaf that a top-level column without children is."""
    name = footer.schema.to_arrow_schema().names[top]
    return next(n for n in range(len(footer.schema)) if footer.schema.column(n).path == name)


def _at(ids: pa.ChunkedArray, row_id: int, fresh: int | None, start: int) -> int | None:
    own = ids.combine_chunks().cast(pa.int64())
    hits = np.flatnonzero(own.fill_null(-1).to_numpy(zero_copy_only=False) == row_id)
    if len(hits):
        return int(hits[0])
    if fresh is not None and 0 <= fresh - start < len(own) and not own[fresh - start].is_valid:
        return fresh - start
    return None

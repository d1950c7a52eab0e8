"""Finds the position of the row with a given id in a data file.

1. A row's id is the materialized one where there is one, else the file's base plus the row's position.
2. Reads only row groups whose bounds may contain the id, and of these only the columns of ids and versions. An ORC file
   with materialized ids is read from its first stripe on.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.parquet.orc import OrcFile
from holdfast.parquet.pages.footer import leaf_paths, read_footer
from holdfast.parquet.source import open_source
from holdfast.storage.base import ObjectStore
from holdfast.storage.error_mapping import parsing

_BATCH = 1 << 17  # rows of an ORC file that are looked at together


@dataclass(frozen=True, slots=True)
class CandidateFile:
    """A file that may hold a row, with what its table says of it."""

    key: str  # in its store
    size: int
    base: int | None
    default_version: int | None
    id_column: str | None
    version_column: str | None
    format: str = "parquet"


@dataclass(frozen=True, slots=True)
class RowPosition:
    """The position of a row in a file, and its row commit version, where that is known."""

    position: int
    version: int | None


def find_row(store: ObjectStore, file: CandidateFile, row_id: int) -> RowPosition | None:
    """The row with an id, hidden or not; None where the file has no such row."""
    derived = None if file.base is None else row_id - file.base
    if file.format == "orc":
        return _in_orc(store, file, row_id, derived)
    footer = read_footer(store, file.key, file.size)
    names = footer.schema.to_arrow_schema().names
    if file.id_column is None or file.id_column not in names:
        return _derived(derived, footer.num_rows, file)
    groups = _groups(footer, leaf_paths(footer).index(file.id_column), row_id, derived)
    if not groups:
        return None
    with parsing(f"{store.url}/{file.key}", "cannot be read as Parquet"):
        opened = pq.ParquetFile(open_source(store, file.key, file.size), metadata=footer)
        columns = [name for name in (file.id_column, file.version_column) if name in names]
        for group, start in groups:
            rows = opened.read_row_group(group, columns=columns, use_threads=False)
            at = _at(rows.column(file.id_column), row_id, derived, start)
            if at is not None:
                return RowPosition(start + at, _version(rows, at, file))
    return None


def _in_orc(store: ObjectStore, file: CandidateFile, row_id: int, derived: int | None) -> RowPosition | None:
    start = 0
    with parsing(f"{store.url}/{file.key}", "cannot be read as ORC"):
        opened = OrcFile(open_source(store, file.key, file.size))
        names = opened.columns_with_id
        if file.id_column not in names:
            return _derived(derived, opened.rows, file)
        columns = [name for name in (file.id_column, file.version_column) if name in names]
        for rows in opened.batches(columns, _BATCH):
            at = _at(pa.chunked_array([rows.column(file.id_column)]), row_id, derived, start)
            if at is not None:
                return RowPosition(start + at, _version(rows, at, file))
            start += rows.num_rows
    return None


def _derived(position: int | None, rows: int, file: CandidateFile) -> RowPosition | None:
    """The position in a file without materialized ids."""
    return RowPosition(position, file.default_version) if position is not None and 0 <= position < rows else None


def _version(rows: pa.Table | pa.RecordBatch, at: int, file: CandidateFile) -> int | None:
    """The version of a row, given with the file's columns of ids and versions."""
    stored = rows.column(file.version_column)[at].as_py() if file.version_column in rows.schema.names else None
    return file.default_version if stored is None else stored


def _groups(footer: pq.FileMetaData, leaf: int, row_id: int, derived: int | None) -> list[tuple[int, int]]:
    """Row groups that may hold the id, each with the position of its first row; `leaf` is that of the ids."""
    groups, start = [], 0
    for number in range(footer.num_row_groups):
        group = footer.row_group(number)
        statistics = group.column(leaf).statistics
        may_store = statistics is None or not statistics.has_min_max or statistics.min <= row_id <= statistics.max
        if statistics is not None and statistics.has_null_count and statistics.null_count == group.num_rows:
            may_store = False
        may_derive = derived is not None and start <= derived < start + group.num_rows
        if may_store or (may_derive and (statistics is None or not statistics.has_null_count or statistics.null_count)):
            groups.append((number, start))
        start += group.num_rows
    return groups


def _at(ids: pa.ChunkedArray, row_id: int, derived: int | None, start: int) -> int | None:
    own = ids.combine_chunks().cast(pa.int64())
    hits = np.flatnonzero(own.fill_null(-1).to_numpy(zero_copy_only=False) == row_id)
    if len(hits):
        return int(hits[0])
    if derived is not None and 0 <= derived - start < len(own) and not own[derived - start].is_valid:
        return derived - start
    return None

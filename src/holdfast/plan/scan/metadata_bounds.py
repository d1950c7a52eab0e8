"""The bounds of metadata columns per file, from the log.

    fresh file               ids from its base row id on, one per row; the version of its log entry
    rewritten file           ids within the range in its tag; versions up to that of its log entry
    file of another writer   ids up to the end of its own range, as carried ids are older; versions likewise

1. Every row of a file, hidden or not, has values within its bounds; unknown bounds are null.
2. Bounds are computed as columns over the files, without reading a file.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.model.files import PARTITION, FileTable
from holdfast.model.snapshot import RowIdentity, Snapshot
from holdfast.plan.scan.locate import FRESH, Numbers, Spans, spans_of
from holdfast.predicate.bounds import ColumnBounds, Range, Single
from holdfast.predicate.records import Column
from holdfast.rows import columns as names


def metadata_bounds(files: FileTable, snapshot: Snapshot, columns: Mapping[Column, str]) -> dict[Column, ColumnBounds]:
    """The bounds of metadata columns; `columns` maps each path that a condition tests to its canonical name."""
    identity = snapshot.identity
    spans = None
    if identity is not None and not {names.ROW_ID, names.ROW_COMMIT_VERSION}.isdisjoint(columns.values()):
        spans = _IdBounds(spans_of(files, identity), identity)
    bounds = {column: _known(files, snapshot, column, name, spans) for column, name in columns.items()}
    return {column: bound for column, bound in bounds.items() if bound is not None}


def _known(
    files: FileTable, snapshot: Snapshot, column: Column, name: str, id_bounds: _IdBounds | None
) -> ColumnBounds | None:
    match name:
        case names.ROW_ID:
            return None if id_bounds is None else id_bounds.ids()
        case names.ROW_COMMIT_VERSION:
            return None if id_bounds is None else id_bounds.versions()
        case names.ROW_INDEX:
            last = pc.subtract(files.num_records, 1)
            return Range(pc.if_else(pc.is_valid(last), 0, None).cast(pa.int64()), last, pa.repeat(0, len(files)))
        case names.FILE:
            return Single(_file_names(files, snapshot))
        case names.BASE_ROW_ID | names.DEFAULT_ROW_COMMIT_VERSION | names.SPEC_ID:
            return Single(files.column(name.removeprefix("_")).combine_chunks())
        case names.FILE_SIZE:
            return Single(files.column("size").combine_chunks())
        case names.PARTITION if snapshot.placement is not None and len(column) == 2:
            return Single(pc.struct_field(files.column(PARTITION).combine_chunks(), column[1]))
        case _:
            return None


@dataclass(frozen=True)
class _IdBounds:
    """The ids and versions that rows of files may have."""

    spans: Spans
    identity: RowIdentity

    @property
    def _is_known(self) -> NDArray[np.bool_]:
        return (self.spans.bases >= 0) & (self.spans.counts >= 0)

    def ids(self) -> Range:
        return Range(
            _where(self._is_known, self.spans.lows), _where(self._is_known, self.spans.highs), self._null_count()
        )

    def versions(self) -> Range:
        has_version = (self.spans.bases >= 0) & (self.spans.versions >= 0)
        carries = self.identity.version_column is not None
        fresh = self._is_known & (self.spans.kinds == FRESH) if carries else has_version
        lows = np.where(fresh, self.spans.versions, 0)
        return Range(_where(has_version, lows), _where(has_version, self.spans.versions), self._null_count())

    def _null_count(self) -> pa.Array:
        """Zero for files with a base row id; all rows for files without one, if the table may have such files."""
        has_base = self.spans.bases >= 0
        gaps = np.full(len(has_base), self.identity.has_gaps)
        return _where(has_base | (gaps & (self.spans.counts >= 0)), np.where(has_base, 0, self.spans.counts))


def _file_names(files: FileTable, snapshot: Snapshot) -> pa.Array:
    """The value of `_file` for each file."""
    if snapshot.placement is not None:
        return files.column("path").combine_chunks()
    return snapshot.location.spark_uris(files.column("key").combine_chunks())


def _where(known: NDArray[np.bool_], values: Numbers) -> pa.Array:
    return pa.array(values, mask=~known)

"""Notes the row ids and versions that a new file materializes, so that a lookup need not read its columns.

Spark tasks pickle this module by value: it imports only Arrow, numpy and modules of lower layers.

1. A note holds what stays true of the file: the column of ids, the lowest and the highest id, the number of rows
   without a materialized id and, where that is short, the map of ids and versions of every row.
2. A longer map goes into the file's footer, so that it lives exactly as long as the file; a map longer than
   FOOTER_LENGTH is dropped, because reading the columns is quicker then.
3. Taking notes passes once over the two columns of ids and versions, and over nothing else.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from holdfast.parquet.rowmap import encoded
from holdfast.rows.rowmap import DERIVED, RowMap, checksum
from holdfast.rows.stamp import PROVISIONAL

NOTE_LENGTH = 256  # of a map in the log, which every reader of the table reads
FOOTER_LENGTH = 40 << 10  # of a map in a footer, which every reader of the file reads
_GATHERED_BYTES = 8 * FOOTER_LENGTH  # before it is packed


class CarriedIdNotes:
    """Collects the ids and versions of one file's rows as they are written."""

    def __init__(self, key: str, id_column: str, version_column: str | None) -> None:
        self._key = key
        self._id_column, self._version_column = id_column, version_column
        self._low, self._high, self._derived, self._rows = PROVISIONAL, -1, 0, 0
        self._versions = False  # some row carries one
        self._parts: list[RowMap] | None = []  # None: the map has grown too long
        self._bytes = 0

    def add_rows(self, rows: pa.Table) -> None:
        """Collect from rows that follow those added before."""
        ids, missing = _numbers(rows.column(self._id_column))
        count = len(ids)
        own = ids[~missing] if missing.any() else ids
        if len(own):
            self._low, self._high = min(self._low, int(own.min())), max(self._high, int(own.max()))
        versions, unversioned = np.full(count, DERIVED, np.int64), np.ones(count, np.bool_)
        if self._version_column is not None:
            versions, unversioned = _numbers(rows.column(self._version_column))
        self._versions |= not unversioned.all()
        if self._parts is not None:
            positions = np.arange(self._rows, self._rows + count, dtype=np.int64)
            part = RowMap.of(np.where(missing, PROVISIONAL + positions, ids), np.where(unversioned, DERIVED, versions))
            self._bytes += part.encoded_bytes
            self._parts = [*self._parts, part] if self._bytes <= _GATHERED_BYTES else None
        self._derived += count - len(own)
        self._rows += count

    def note_and_map(self) -> tuple[str | None, str | None]:
        """The note for the log, empty where nothing is materialized, and the map for the footer, where there is one."""
        if self._high < 0:  # a note has no form for versions without ids
            return None if self._versions else "", None
        note = f"{checksum(self._id_column):08x},{self._low},{self._high},{self._derived}"
        if self._parts is None:
            return note, None
        text = encoded(RowMap.joined(self._parts), self._key, self._id_column)
        if len(text) > FOOTER_LENGTH:
            return note, None
        return (f"{note},{text}" if len(text) <= NOTE_LENGTH else note), text


def _numbers(column: pa.ChunkedArray) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The values of a column, and where it has none."""
    whole = column.combine_chunks()
    if not whole.null_count:
        return whole.to_numpy(), np.zeros(len(whole), np.bool_)
    return whole.fill_null(DERIVED).to_numpy(), whole.is_null().to_numpy(zero_copy_only=False)
